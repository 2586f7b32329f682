"""Runs a tool that must be run as a task (revision 2025-11-25): begins it, waits for its result, watches its status.

The client in front of us need not know of tasks: to it this is one call that takes a while. Each look at the status
shows that the server is at work, so the call's time begins anew, and what it says of itself goes on as progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from twinraven.connectors.mcp.backchannel import CallSide

Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

_TTL_MS: Final = 3_600_000
_SHORTEST_S: Final = 0.05
_LONGEST_S: Final = 5.0
_OVER: Final = frozenset({"completed", "failed", "cancelled"})


async def run_task(send: Send, tool: str, arguments: dict[str, Any], call: CallSide) -> dict[str, Any]:
    """Return the result of the task, as the server sent it; a task whose caller went away is cancelled."""
    begun = await send("tools/call", {"name": tool, "arguments": arguments, "task": {"ttl": _TTL_MS}})
    task: Any = begun.get("task")
    if not isinstance(task, dict):
        # It answered at once.
        return begun
    task_id = cast("dict[str, Any]", task).get("taskId")
    if not isinstance(task_id, str):
        raise MCPError(INTERNAL_ERROR, "the server began a task without an id")
    watching = asyncio.ensure_future(_watch(send, cast("dict[str, Any]", task), call))
    try:
        return await send("tasks/result", {"taskId": task_id})
    except asyncio.CancelledError:
        with suppress(MCPError, TimeoutError):
            await asyncio.wait_for(send("tasks/cancel", {"taskId": task_id}), _LONGEST_S)
        raise
    finally:
        watching.cancel()


async def _watch(send: Send, task: dict[str, Any], call: CallSide) -> None:
    """Look at a task now and then, until it is over."""
    looks = 0
    while task.get("status") not in _OVER:
        wanted: Any = task.get("pollInterval")
        pause = wanted / 1000 if isinstance(wanted, (int, float)) else 1.0
        await asyncio.sleep(min(_LONGEST_S, max(_SHORTEST_S, pause)))
        try:
            task = await send("tasks/get", {"taskId": task["taskId"]})
        except MCPError:
            return
        looks += 1
        message: Any = task.get("statusMessage")
        await call.progress(looks, None, message if isinstance(message, str) else None)
