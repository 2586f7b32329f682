"""Offers processes as tools of the catalogue: entries and flows from memory, because a look-up happens on every call.

A snapshot per tenant holds the processes in force. It is loaded when somebody first asks, and again when whoever
watches the catalogue's version says so. Flows are compiled by whoever loads, off the event loop, and kept as long as
the process and all that it calls stay the same: anybody may save as many large processes as they like, and the next
look-up must not pay for them. A process whose sub-process was changed so that the two no longer fit is not offered,
and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from twinraven.catalog import Effect, ToolEntry, current_version
from twinraven.flow import FlowDefinition, as_powerful_as, entry_of
from twinraven.foundation.errors import InvalidDefinition, NotFound, ToolUnavailable
from twinraven.processes.checks import CONNECTOR
from twinraven.processes.compile import MAX_FLOW_STEPS, ProcessLookup, compile_process, tools_of_flow
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
    problem: InvalidDefinition | None = None
    """Why there is no flow."""
    plain: ToolEntry | None = None
    """The entry as the flow alone makes it; what the tools can do is not in it."""
    entry: ToolEntry | None = None
    seen: list[ToolEntry | None] | None = None
    """The tools' entries from which `entry` was made."""

    def compile(self, find: ProcessLookup) -> None:
        """Make the flow and the plain entry, or note why they cannot be made."""
        if self.flow is not None or self.problem is not None:
            return
        try:
            flow = compile_process(self.saved.process, find)
            entry = entry_of(flow, _passive, max_steps=MAX_FLOW_STEPS)
        except InvalidDefinition as error:
            _logger.warning("the process %r is left out: %s", self.saved.process.id, error)
            self.problem = error
            return
        self.plain = replace(entry, connector=CONNECTOR, parts=tools_of_flow(flow))
        self.flow = flow


@dataclass(frozen=True, slots=True)
class _Snapshot:
    version: int
    offered: dict[str, _Offered] = field(default_factory=dict[str, _Offered])
    compiling: threading.Lock = field(default_factory=threading.Lock)

    def process(self, process_id: str) -> Process | None:
        found = self.offered.get(process_id)
        return None if found is None else found.saved.process

    def compile(self) -> None:
        """Compile every flow that is not compiled yet; concurrent callers wait for it."""
        with self.compiling:
            for each in self.offered.values():
                each.compile(self.process)

    def unchanged(self, current: Mapping[str, ProcessVersion]) -> dict[str, _Offered]:
        """Return the compiled flows that stay valid: the same version, and so is every process below."""
        kept = {name: each for name, each in self.offered.items() if current.get(name) == each.saved}
        while True:
            changed = [name for name, each in kept.items() if not _sub_processes(each.saved.process) <= kept.keys()]
            if not changed:
                return kept
            for name in changed:
                del kept[name]


class ProcessTools:
    """The source of processes."""

    def __init__(self, database: Database, find_tool: EntryLookup) -> None:
        self._database = database
        self._find_tool = find_tool
        self._store = ProcessStore()
        self._snapshots: dict[str, _Snapshot] = {}
        self._loaded: dict[str, _Snapshot] = {}
        """The newest that was read, of which flows may still be being made: who saves and who watches share them."""
        self._swap = threading.Lock()
        forget_after_fork(self)

    def after_fork(self) -> None:
        """Keep the cache in a forked child, except for what a thread of the parent was still compiling."""
        self._swap = threading.Lock()
        self._loaded = {}

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """Find the entry of a process, also of a disabled one: a call of it is told why it cannot be made."""
        snapshot = self._snapshot(tenant_id)
        return self._entry(tenant_id, snapshot, tool_id) if tool_id in snapshot.offered else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        return self._listed(tenant_id, enabled=True)

    def withheld(self, tenant_id: str) -> list[ToolEntry]:
        """Return the disabled processes."""
        return self._listed(tenant_id, enabled=False)

    def why_not(self, tenant_id: str, caller: str | None, tool_id: str) -> str | None:
        """Return why a process cannot be called; None where it can."""
        del caller
        process = self._snapshot(tenant_id).process(tool_id)
        return "it is disabled" if process is not None and not process.enabled else None

    def flow(self, tenant_id: str, process_id: str) -> FlowDefinition | None:
        """Return the current flow of a process; None where there is no such process."""
        snapshot = self._snapshot(tenant_id)
        process = snapshot.process(process_id)
        if process is None:
            return None
        if not process.enabled:
            raise ToolUnavailable(f"the process {process_id!r} is disabled", tool_id=process_id)
        return _flow(snapshot, process_id)

    async def refresh(self, tenant_id: str) -> None:
        """Reload the cache from what is committed, on start and after own changes."""
        known = self._snapshots.get(tenant_id)
        found = await self._database.read(tenant_id, lambda tx: self._load(tx, tenant_id, known))
        if found is not known:
            found = self._share(tenant_id, found)
            await asyncio.to_thread(found.compile)
        self._take(tenant_id, found)

    def reload(self, tenant_id: str) -> None:
        """Reload the cache, on this thread."""
        known = self._snapshots.get(tenant_id)
        found = self._database.read_here(tenant_id, lambda tx: self._load(tx, tenant_id, known))
        found = self._share(tenant_id, found)
        found.compile()
        self._take(tenant_id, found)

    def _listed(self, tenant_id: str, *, enabled: bool) -> list[ToolEntry]:
        snapshot = self._snapshot(tenant_id)
        names = [name for name, each in snapshot.offered.items() if each.saved.process.enabled is enabled]
        found = (self._entry(tenant_id, snapshot, name) for name in names)
        return [entry for entry in found if entry is not None]

    def _entry(self, tenant_id: str, snapshot: _Snapshot, process_id: str) -> ToolEntry | None:
        offered = snapshot.offered[process_id]
        offered.compile(snapshot.process)
        if offered.plain is None:
            return None
        parts = [self._find_tool(tenant_id, name) for name in offered.plain.parts]
        if offered.entry is None or offered.seen != parts:
            offered.entry, offered.seen = as_powerful_as(offered.plain, [*parts, _PASSIVE]), parts
        return offered.entry

    def _snapshot(self, tenant_id: str) -> _Snapshot:
        found = self._snapshots.get(tenant_id)
        if found is None:
            self.reload(tenant_id)
            found = self._snapshots[tenant_id]
        return found

    def _share(self, tenant_id: str, found: _Snapshot) -> _Snapshot:
        """Return the snapshot that another has read of the same version already, so that its flows are made once."""
        with self._swap:
            other = self._loaded.get(tenant_id)
            if other is None or other.version < found.version:
                self._loaded[tenant_id] = other = found
            return other

    def _take(self, tenant_id: str, found: _Snapshot) -> None:
        with self._swap:
            known = self._snapshots.get(tenant_id)
            if known is None or known.version < found.version:
                self._snapshots[tenant_id] = found

    def _load(self, tx: Transaction, tenant_id: str, before: _Snapshot | None) -> _Snapshot:
        version = current_version(tx, tenant_id)
        if before is not None and before.version >= version:
            return before
        current = {each.process.id: each for each in self._store.current(tx, tenant_id)}
        same = {} if before is None else before.unchanged(current)
        return _Snapshot(version, {name: same.get(name) or _Offered(each) for name, each in current.items()})


def _flow(snapshot: _Snapshot, process_id: str) -> FlowDefinition:
    offered = snapshot.offered.get(process_id)
    if offered is None:
        raise NotFound(f"there is no process {process_id!r}", process_id=process_id)
    offered.compile(snapshot.process)
    if offered.problem is not None:
        raise offered.problem
    assert offered.flow is not None
    return offered.flow


def _sub_processes(process: Process) -> set[str]:
    return {step.process for step in process.steps if step.process is not None}


_PASSIVE: Final = ToolEntry("passive", "waits or stops", {}, effect=Effect.READ, effect_origin="declared")
"""What stands for a step that calls nothing, and for every tool where only the flow counts."""


def _passive(_: str) -> ToolEntry:
    return _PASSIVE
