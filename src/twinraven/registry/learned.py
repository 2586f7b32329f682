"""Caches promoted learned tools, as a tool source of the catalogue and as definitions for the executor.

Looking a tool up happens on every call, so it touches no database. A snapshot per tenant holds the current versions in
service; their texts are read with it, and understood when somebody first asks for one. Every change in the registry
raises the tenant's catalogue version, and the change feed tells of it: what another process promoted or quarantined is
known here within a second, by reading the rows that changed and no others.

A tool is offered only where each of its steps can be called; the catalogue shows it to those who may call them all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime

from twinraven.catalog import ToolEntry, ToolSource, current_version
from twinraven.flow import entry_of
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound, TwinRavenError
from twinraven.registry import sql
from twinraven.registry.registration import tools_of
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.storage import Change, ChangeFeed, Database, Row, Transaction, forget_after_fork

Subscriber = Callable[[str, int], None]
"""Told the tenant and the catalogue version, on whatever thread noticed."""

_logger = logging.getLogger("twinraven.registry")

# The learned tools whose steps are being looked up: one that comes up again is a step of itself.
_resolving: ContextVar[frozenset[str]] = ContextVar("twinraven_resolving", default=frozenset())


class LearnedTools:
    """The source of learned tools: entries for the catalogue, definitions for the executor."""

    def __init__(
        self,
        database: Database,
        others: Iterable[ToolSource],
        changes: ChangeFeed,
    ) -> None:
        """`others` are the sources that come before this one; the list is read anew each time."""
        self._database = database
        self._others = others
        self._changes = changes
        self._unfollow: Callable[[], None] | None = None
        self._subscribers: list[Subscriber] = []
        self._snapshots: dict[str, _Snapshot] = {}
        self._begin()
        forget_after_fork(self)

    def _begin(self) -> None:
        self._swap = threading.Lock()

    def after_fork(self) -> None:
        """Keep the cache in a forked child, which starts with what its parent knew."""
        self._begin()

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """Find the entry of a tool in service all of whose steps can be called."""
        served = self._snapshot(tenant_id).tools.get(tool_id)
        return None if served is None else self._entry(tenant_id, served)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        found = (self._entry(tenant_id, served) for served in self._snapshot(tenant_id).tools.values())
        return [entry for entry in found if entry is not None]

    def find_any(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """Find a tool of any source, learned or not; nothing where there is none."""
        for source in self._others:
            entry = source.find(tenant_id, tool_id)
            if entry is not None:
                return entry
        return self.find(tenant_id, tool_id)

    def definition(self, tenant_id: str, tool_id: str) -> SynthesizedTool:
        """Return the definition in service, or NotFound."""
        served = self._snapshot(tenant_id).tools.get(tool_id)
        definition = None if served is None else served.understood()
        if definition is None:
            raise NotFound(f"no learned tool {tool_id!r} is in service", tool_id=tool_id)
        return definition

    async def refresh(self, tenant_id: str) -> None:
        """Reload the cache from what is committed, on start and after own changes."""
        known = self._snapshots.get(tenant_id)
        self._take(tenant_id, await self._database.read(tenant_id, lambda tx: _load(tx, tenant_id, known)))

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Be told of every new catalogue; the answer ends it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def close(self) -> None:
        """Stop following changes."""
        unfollow, self._unfollow = self._unfollow, None
        if unfollow is not None:
            unfollow()

    def _entry(self, tenant_id: str, served: _Served) -> ToolEntry | None:
        definition = served.understood()
        if definition is None:
            return None
        with _looking_into(served.tool_id) as is_circle:
            if is_circle:
                return None
            parts = [self.find_any(tenant_id, name) for name in served.parts]
        if None in parts:
            return None
        if served.entry is None or served.seen != parts:
            found = dict(zip(served.parts, parts, strict=True))
            served.entry, served.seen = entry_of(definition, found.get), parts
        return served.entry

    def _snapshot(self, tenant_id: str) -> _Snapshot:
        if self._unfollow is None:
            self._follow()
        found = self._snapshots.get(tenant_id)
        if found is not None:
            return found
        self._look(tenant_id)
        return self._snapshots[tenant_id]

    def _follow(self) -> None:
        with self._swap:
            if self._unfollow is None:
                self._unfollow = self._changes.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.concerns("catalog"):
            for tenant_id in list(self._snapshots) if change.tenant_id is None else [change.tenant_id]:
                if tenant_id in self._snapshots:
                    self._look(tenant_id)

    def _look(self, tenant_id: str) -> None:
        known = self._snapshots.get(tenant_id)
        self._take(tenant_id, self._database.read_here(tenant_id, lambda tx: _load(tx, tenant_id, known)))

    def _take(self, tenant_id: str, found: _Snapshot) -> None:
        with self._swap:
            known = self._snapshots.get(tenant_id)
            if known is not None and known.revision >= found.revision:
                return
            self._snapshots[tenant_id] = found
        if known is not None:
            for subscriber in list(self._subscribers):
                subscriber(tenant_id, found.revision)


@dataclass(slots=True)
class _Served:
    """One tool in service; what is computed of it is kept."""

    tool_id: str
    text: str
    promoted_at: datetime | None
    is_understood: bool = False
    definition: SynthesizedTool | None = None
    parts: tuple[str, ...] = ()
    entry: ToolEntry | None = None
    seen: list[ToolEntry | None] | None = None
    """The steps' entries from which `entry` was made."""

    def understood(self) -> SynthesizedTool | None:
        """Return the definition; one that cannot be understood is not offered, and the log says why."""
        if not self.is_understood:
            try:
                self.definition = replace(
                    SynthesizedTool.from_json(parse_json(self.text, field="definition")),
                    status=ToolStatus.PROMOTED,
                    promoted_at=self.promoted_at,
                )
                self.parts = tuple(dict.fromkeys(tools_of(self.definition)))
            except TwinRavenError as error:
                _logger.warning("the learned tool %r is left out: %s", self.tool_id, error)
            self.is_understood = True
        return self.definition


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A tenant's tools in service at one catalogue version."""

    revision: int
    tools: dict[str, _Served]


def _load(tx: Transaction, tenant_id: str, known: _Snapshot | None) -> _Snapshot:
    """Load the snapshot of this moment, from the rows that changed since the one that is known."""
    revision = current_version(tx, tenant_id)
    if known is not None and known.revision >= revision:
        return known
    tools = {} if known is None else dict(known.tools)
    for row in sql.served(tx, tenant_id, after=-1 if known is None else known.revision):
        tools.pop(row["tool_id"], None)
        if row["in_service"]:
            tools[row["tool_id"]] = _to_served(row)
    return _Snapshot(revision, tools)


def _to_served(row: Row) -> _Served:
    promoted = row["promoted_at"]
    return _Served(row["tool_id"], row["definition"], None if promoted is None else from_micros(promoted))


@contextmanager
def _looking_into(tool_id: str) -> Generator[bool]:
    """Says whether this tool is being looked into already, further out."""
    outer = _resolving.get()
    token = _resolving.set(outer | {tool_id})
    try:
        yield tool_id in outer
    finally:
        _resolving.reset(token)
