"""Offers processes as tools of the catalogue: entries and flows from memory, because a look-up happens on every call.

A snapshot per tenant holds the processes in force. It is loaded when somebody first asks, and again when whoever
watches the catalogue's version says so. A flow is compiled when somebody first asks for it; a process whose sub-process
was changed so that the two no longer fit is not offered, and the log says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from twinraven.catalog import Effect, ToolEntry, current_version
from twinraven.flow import FlowDefinition, entry_of
from twinraven.foundation.errors import InvalidDefinition, NotFound, ToolUnavailable
from twinraven.processes.checks import CONNECTOR
from twinraven.processes.compile import MAX_FLOW_STEPS, PERSON, STOP, compile_process, tools_of_flow
from twinraven.processes.model import Process, ProcessVersion
from twinraven.processes.sql import ProcessStore
from twinraven.storage import Database, Transaction, forget_after_fork

_logger = logging.getLogger("twinraven.processes")

EntryLookup = Callable[[str, str], ToolEntry | None]
"""A tool of a tenant, of any source."""


@dataclass(slots=True)
class _Offered:
    """One process; what is computed of it is kept."""

    saved: ProcessVersion
    flow: FlowDefinition | None = None
    entry: ToolEntry | None = None
    seen: list[ToolEntry | None] | None = None
    """The tools' entries from which `entry` was made."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    version: int
    offered: dict[str, _Offered] = field(default_factory=dict[str, _Offered])

    def process(self, process_id: str) -> Process | None:
        found = self.offered.get(process_id)
        return None if found is None else found.saved.process


class ProcessTools:
    """The source of processes."""

    def __init__(self, database: Database, find_tool: EntryLookup) -> None:
        self._database = database
        self._find_tool = find_tool
        self._store = ProcessStore()
        self._snapshots: dict[str, _Snapshot] = {}
        self._swap = threading.Lock()
        forget_after_fork(self)

    def after_fork(self) -> None:
        """A child knows what its parent knew."""
        self._swap = threading.Lock()

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """The entry of a process, also of a disabled one: a call of it is told why it cannot be made."""
        snapshot = self._snapshot(tenant_id)
        return self._entry(tenant_id, snapshot, tool_id) if tool_id in snapshot.offered else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        return self._listed(tenant_id, enabled=True)

    def withheld(self, tenant_id: str) -> list[ToolEntry]:
        """The processes that somebody disabled."""
        return self._listed(tenant_id, enabled=False)

    def why_not(self, tenant_id: str, caller: str | None, tool_id: str) -> str | None:
        """Why nobody can call a process; None where they can."""
        del caller
        process = self._snapshot(tenant_id).process(tool_id)
        return "it is disabled" if process is not None and not process.enabled else None

    def flow(self, tenant_id: str, process_id: str) -> FlowDefinition | None:
        """What a run of a process does now; None where there is no such process."""
        snapshot = self._snapshot(tenant_id)
        process = snapshot.process(process_id)
        if process is None:
            return None
        if not process.enabled:
            raise ToolUnavailable(f"the process {process_id!r} is disabled", tool_id=process_id)
        return _flow(snapshot, process_id)

    async def refresh(self, tenant_id: str) -> None:
        """Know what is committed now; for doors that open, and for whoever has just saved something."""
        known = self._snapshots.get(tenant_id)
        self._take(tenant_id, await self._database.read(tenant_id, lambda tx: self._load(tx, tenant_id, known)))

    def reload(self, tenant_id: str) -> None:
        """The same on this thread."""
        connection = self._database.connect()
        try:
            with connection.transaction(tenant_id, write=False) as tx:
                found = self._load(tx, tenant_id, self._snapshots.get(tenant_id))
        finally:
            connection.close()
        self._take(tenant_id, found)

    def _listed(self, tenant_id: str, *, enabled: bool) -> list[ToolEntry]:
        snapshot = self._snapshot(tenant_id)
        names = [name for name, each in snapshot.offered.items() if each.saved.process.enabled is enabled]
        found = (self._entry(tenant_id, snapshot, name) for name in names)
        return [entry for entry in found if entry is not None]

    def _entry(self, tenant_id: str, snapshot: _Snapshot, process_id: str) -> ToolEntry | None:
        offered = snapshot.offered[process_id]
        try:
            flow = _flow(snapshot, process_id)
        except InvalidDefinition as error:
            _logger.warning("the process %r is left out: %s", process_id, error)
            return None
        names = tools_of_flow(flow)
        parts = [self._find_tool(tenant_id, name) for name in names]
        if offered.entry is None or offered.seen != parts:
            known = dict(zip(names, parts, strict=True))
            entry = entry_of(flow, lambda name: _passive(name) or known.get(name), max_steps=MAX_FLOW_STEPS)
            offered.entry, offered.seen = replace(entry, connector=CONNECTOR, parts=names), parts
        return offered.entry

    def _snapshot(self, tenant_id: str) -> _Snapshot:
        found = self._snapshots.get(tenant_id)
        if found is None:
            self.reload(tenant_id)
            found = self._snapshots[tenant_id]
        return found

    def _take(self, tenant_id: str, found: _Snapshot) -> None:
        with self._swap:
            known = self._snapshots.get(tenant_id)
            if known is None or known.version < found.version:
                self._snapshots[tenant_id] = found

    def _load(self, tx: Transaction, tenant_id: str, before: _Snapshot | None) -> _Snapshot:
        version = current_version(tx, tenant_id)
        if before is not None and before.version >= version:
            return before
        return _Snapshot(version, {each.process.id: _Offered(each) for each in self._store.current(tx, tenant_id)})


def _flow(snapshot: _Snapshot, process_id: str) -> FlowDefinition:
    offered = snapshot.offered.get(process_id)
    if offered is None:
        raise NotFound(f"there is no process {process_id!r}", process_id=process_id)
    if offered.flow is None:
        offered.flow = compile_process(offered.saved.process, snapshot.process)
    return offered.flow


def _passive(name: str) -> ToolEntry | None:
    """What stands for a step that calls nothing."""
    if not name.startswith((STOP, PERSON)):
        return None
    return ToolEntry(name, "waits or stops", {}, effect=Effect.READ, effect_origin="declared")
