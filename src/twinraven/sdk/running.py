"""Asks for durable runs: start, look, answer, cancel, resume, retry, fork, signal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from twinraven.foundation.ids import new_id
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import JsonObject, RunInfo, RunState, WorkerInfo
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated


class RunOperations(ServerRequests):
    """Durable work."""

    async def start_run(
        self,
        tool: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        timeout_s: float | None = None,
    ) -> RunInfo:
        """Start a run of a tool; without an id of its own it gets one, so that sending it again is one run."""
        return await self._start({"tool_id": tool}, parameters, run_id, priority, timeout_s)

    async def start_flow(
        self,
        definition: JsonObject,
        parameters: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        timeout_s: float | None = None,
    ) -> RunInfo:
        """Start a run of a flow that is given as data."""
        return await self._start({"definition": definition}, parameters, run_id, priority, timeout_s)

    def runs(self, *, state: RunState | None = None) -> AsyncGenerator[RunInfo]:
        """List your runs, newest first; for administrators, those of all users."""
        return self._list(RunInfo, "runs", state=state)

    async def run(self, run_id: str) -> RunInfo:
        """Return a run with its steps, what it waits for and what it came to."""
        return read(RunInfo, await self._get("runs", run_id))

    async def run_graph(self, run_id: str) -> str:
        """Return a run as SVG: its steps, each coloured by what came of it so far."""
        return str((await self._get("runs", run_id, "graph"))["svg"])

    async def cancel_run(self, run_id: str) -> RunInfo:
        """Begin nothing more; what is under way is let finish."""
        return await self._act(run_id, "cancel")

    async def resume_run(self, run_id: str) -> RunInfo:
        """Go on with a run that was set aside, or look again at one that waits."""
        return await self._act(run_id, "resume")

    async def retry_run(self, run_id: str) -> RunInfo:
        """Make the failed calls of an ended run again."""
        return await self._act(run_id, "retry")

    async def fork_run(self, run_id: str, step: str) -> RunInfo:
        """Start a new run with what came before a step."""
        return await self._act(run_id, "fork", step=step)

    async def answer_run(self, run_id: str, place: str, answer: Any) -> RunInfo:
        """Answer what a run asks a person at a place."""
        return await self._act(run_id, "answer", place=place, answer=answer)

    async def signal(self, event: str, payload: Any = None) -> int:
        """Tell all runs that wait for an event that it happened; says how many there were."""
        ask = RequestSpec("POST", path_of("signals"), body={"event": event, "payload": payload})
        return int((await self._exchange.json(ask))["runs"])

    def workers(self) -> AsyncGenerator[WorkerInfo]:
        """List the workers."""
        return self._list(WorkerInfo, "workers")

    async def _start(
        self,
        target: JsonObject,
        parameters: Mapping[str, Any] | None,
        run_id: str | None,
        priority: int | None,
        timeout_s: float | None,
    ) -> RunInfo:
        more = stated({"priority": priority, "timeout_s": timeout_s})
        body = {**target, "parameters": dict(parameters or {}), "run_id": run_id or new_id(), **more}
        return read(RunInfo, await self._exchange.json(RequestSpec("POST", path_of("runs"), body=body)))

    async def _act(self, run_id: str, word: str, **body: Any) -> RunInfo:
        return read(RunInfo, await self._exchange.json(RequestSpec("POST", path_of("runs", run_id, word), body=body)))
