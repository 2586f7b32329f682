"""Asks for plans: start, look, log, fork, save as a process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from twinraven.foundation.ids import new_id
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import JsonObject, PlanInfo, ProcessInfo, RunInfo, RunState
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated


class PlanOperations(ServerRequests):
    """Requests that become plans."""

    async def start_plan(
        self,
        request: str | None = None,
        *,
        plan: JsonObject | None = None,
        ttl: int | None = None,
        tools: Sequence[str] | None = None,
        run_id: str | None = None,
        timeout_s: float | None = None,
    ) -> RunInfo:
        """Turn a request into a plan and carry it out, or carry out a given one; sending it again is one plan."""
        given = {"request": request, "plan": plan, "ttl": ttl, "tools": None if tools is None else list(tools)}
        body = {**stated({**given, "timeout_s": timeout_s}), "run_id": run_id or new_id()}
        return read(RunInfo, await self._exchange.json(RequestSpec("POST", path_of("plans"), body=body)))

    def plans(self, *, state: RunState | None = None) -> AsyncGenerator[RunInfo]:
        """List your plans as runs, newest first; for administrators, those of all users."""
        return self._list(RunInfo, "plans", state=state)

    async def plan(self, run_id: str) -> PlanInfo:
        """Return a plan with its state: steps, calls, repairs, results, and the cycles that are left."""
        return read(PlanInfo, await self._get("plans", run_id))

    async def plan_log(self, run_id: str) -> list[JsonObject]:
        """Return the log of a plan: one entry for each cycle, numbered from 1."""
        return list((await self._get("plans", run_id, "log"))["items"])

    async def fork_plan(self, run_id: str, step: str, *, ttl: int | None = None) -> RunInfo:
        """Start a new plan with what came before a step, which is done anew."""
        body = {"step": step, **stated({"ttl": ttl})}
        return read(
            RunInfo, await self._exchange.json(RequestSpec("POST", path_of("plans", run_id, "fork"), body=body))
        )

    async def save_plan(self, run_id: str, process_id: str) -> ProcessInfo:
        """Save what a completed plan did as a process, with its inputs as parameters."""
        ask = RequestSpec("POST", path_of("plans", run_id, "process"), body={"process_id": process_id})
        return read(ProcessInfo, await self._exchange.json(ask))
