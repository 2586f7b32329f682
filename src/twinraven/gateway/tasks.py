"""Runs calls as tasks for clients that ask for one (revision 2025-11-25): begun now, asked about and fetched later.

Any tool can be called so, whether or not its server knows tasks. The call goes down the one path as always, in this
process; status and result are its caller's alone, and are kept until the time that the client asked for is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import Field

from twinraven.foundation.clock import iso, utc_now
from twinraven.foundation.ids import new_id
from twinraven.gateway.answers import Result
from twinraven.gateway.callers import Callers
from twinraven.gateway.channels import Context

CAPABILITY: Final = types.ServerTasksCapability.model_validate(
    {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
)
_TTL_MS: Final = 3_600_000
_POLL_MS: Final = 500
_MOST: Final = 1_000
_RELATED: Final = "io.modelcontextprotocol/related-task"


class TaskParams(types.RequestParams):
    """The id of a task."""

    task_id: str = Field(alias="taskId")


@dataclass(slots=True)
class ClientTask:
    """One call that runs as a task."""

    task_id: str
    owner: str
    work: asyncio.Future[Result]
    ttl_ms: int
    created: datetime
    changed: datetime

    @property
    def status(self) -> str:
        if not self.work.done():
            return "working"
        if self.work.cancelled():
            return "cancelled"
        return "failed" if self.work.exception() is not None or self.work.result().get("isError") else "completed"

    def as_json(self) -> Result:
        return {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": iso(self.created),
            "lastUpdatedAt": iso(self.changed),
            "ttl": self.ttl_ms,
            "pollInterval": _POLL_MS,
        }


class ClientTasks:
    """The tasks of this process."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._tasks: dict[str, ClientTask] = {}

    def serve(self, server: Server[Any]) -> None:
        """Answer a server's clients."""
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/result", TaskParams, self._result)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)
        server.add_request_handler("tasks/list", types.PaginatedRequestParams, self._list)

    def begin(self, context: Context, work: Coroutine[Any, Any, Result], ttl_ms: int | None) -> Result:
        """Begin a call as a task."""
        if len(self._tasks) >= _MOST:
            work.close()
            raise MCPError(INTERNAL_ERROR, f"{_MOST} tasks are kept already; fetch or cancel some")
        now, kept_ms = utc_now(), min(ttl_ms or _TTL_MS, _TTL_MS)
        running = asyncio.ensure_future(work)
        task = ClientTask(new_id(), self._owner(context), running, kept_ms, now, now)
        self._tasks[task.task_id] = task
        running.add_done_callback(lambda _: self._settle(task))
        asyncio.get_running_loop().call_later(kept_ms / 1000, self._forget, task)
        # Content is what the SDK's check of older revisions wants, and no client of a task looks at it.
        return {"content": [], "task": task.as_json()}

    async def close(self) -> None:
        """Give up what still runs."""
        running = [task.work for task in self._tasks.values()]
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _get(self, context: Context, params: TaskParams) -> Result:
        return self._find(context, params).as_json()

    async def _result(self, context: Context, params: TaskParams) -> Result:
        task = self._find(context, params)
        await asyncio.wait([task.work])
        if task.work.cancelled():
            raise MCPError(INVALID_PARAMS, "the task was cancelled")
        result = task.work.result()
        return {**result, "_meta": {**(result.get("_meta") or {}), _RELATED: {"taskId": task.task_id}}}

    async def _cancel(self, context: Context, params: TaskParams) -> Result:
        task = self._find(context, params)
        if task.work.done():
            raise MCPError(INVALID_PARAMS, f"the task is over: {task.status}")
        task.work.cancel()
        await asyncio.wait([task.work])
        return task.as_json()

    async def _list(self, context: Context, params: types.PaginatedRequestParams) -> Result:
        del params
        owner = self._owner(context)
        return {"tasks": [task.as_json() for task in self._tasks.values() if task.owner == owner]}

    def _find(self, context: Context, params: TaskParams) -> ClientTask:
        task = self._tasks.get(params.task_id)
        if task is None or task.owner != self._owner(context):
            raise MCPError(INVALID_PARAMS, "no such task")
        return task

    def _owner(self, context: Context) -> str:
        caller = self._callers.of(context)
        return f"{caller.principal.tenant_id}\0{caller.key}\0{caller.protocol or caller.process}"

    def _settle(self, task: ClientTask) -> None:
        task.changed = utc_now()
        if not task.work.cancelled():
            # Fetched or not, it is no fault of this process.
            task.work.exception()

    def _forget(self, task: ClientTask) -> None:
        self._tasks.pop(task.task_id, None)
        task.work.cancel()
