"""Serves calls of processes by durable runs, as a connector of the call path.

A call starts a run and waits for it. Under its idempotency key the run is the same one, so a repeated call finds it. A
run that comes to wait for a person does not hold the call: the caller is told the run's id, and asks again later. Where
no worker is heard, this process works until the call has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twinraven.calls import CallFrame
from twinraven.catalog import ToolEntry
from twinraven.foundation.actors import SYSTEM
from twinraven.foundation.canonical import JsonObject, content_hash
from twinraven.foundation.errors import error_from_json
from twinraven.foundation.ids import new_id
from twinraven.processes.checks import CONNECTOR

if TYPE_CHECKING:
    from twinraven.engine import Lend, Runs


class ProcessConnector:
    """Runs processes, as a connector of the call path."""

    name = CONNECTOR

    def __init__(self, runs: Callable[[], Runs], lend: Lend) -> None:
        self._runs = runs
        self._lend = lend

    async def invoke(self, entry: ToolEntry, params: JsonObject, *, call: CallFrame) -> Any:
        """Run the process and give its output; its error, if it failed, says which step and why."""
        from twinraven.engine import RunRequest, ended_run, somebody_working  # loaded with the first call of a process

        runs = self._runs()
        run_id = new_id() if call.key is None else f"call-{content_hash(call.key.encode())}"
        wish = RunRequest(params, tool_id=entry.tool_id, run_id=run_id)
        await runs.start_for(wish, tenant_id=call.tenant_id, caller=call.caller, actor=call.actor or SYSTEM)
        async with somebody_working(runs, self._lend):
            found = await ended_run(runs, call.tenant_id, run_id)
        if found.error is not None:
            raise error_from_json(found.error)
        return found.output
