"""Caches data-defined tools as a tool source of the catalogue, because every call looks one up.

A snapshot per tenant holds the entries. It is loaded when somebody first asks, and again when whoever watches the
catalogue's version says so (`reload` on a thread, `refresh` in a loop). Whether a call may be made now is not decided
here but by `Bindings`, from what is stored.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from twinraven.catalog.model import ToolEntry
from twinraven.catalog.service_model import Service
from twinraven.catalog.sql import SqlCatalogStore
from twinraven.catalog.store import CatalogStore
from twinraven.catalog.tool_checks import OWNERS_ONLY, why_barred
from twinraven.catalog.tool_model import Tool
from twinraven.storage import Database, Transaction, forget_after_fork


@dataclass(frozen=True, slots=True)
class _Known:
    """A tool, its service and its entry."""

    tool: Tool
    service: Service
    entry: ToolEntry

    @property
    def is_offered(self) -> bool:
        return self.tool.enabled and self.service.enabled


@dataclass(frozen=True, slots=True)
class _Snapshot:
    version: int
    tools: dict[str, _Known]


class DefinedTools:
    """The source of data-defined tools."""

    def __init__(self, database: Database, *, store: CatalogStore | None = None) -> None:
        self._database = database
        self._store: CatalogStore = store or SqlCatalogStore()
        self._snapshots: dict[str, _Snapshot] = {}
        self._swap = threading.Lock()
        forget_after_fork(self)

    def after_fork(self) -> None:
        """Keep the cache in a forked child, which starts with what its parent knew."""
        self._swap = threading.Lock()

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """Find an entry, also of a tool that is disabled: the call path says so instead of denying that it is there."""
        known = self._snapshot(tenant_id).tools.get(tool_id)
        return None if known is None else known.entry

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        """Return the tools that are offered, without disabled ones."""
        return [known.entry for known in self._snapshot(tenant_id).tools.values() if known.is_offered]

    def withheld(self, tenant_id: str) -> list[ToolEntry]:
        """Return the disabled tools."""
        return [known.entry for known in self._snapshot(tenant_id).tools.values() if not known.is_offered]

    def why_not(self, tenant_id: str, caller: str | None, tool_id: str) -> str | None:
        """Why a user cannot call a tool of this source, however healthy it is; None where they can."""
        known = self._snapshot(tenant_id).tools.get(tool_id)
        if known is None:
            return None
        if caller is not None and not known.tool.is_runnable_by(caller):
            is_shown = known.entry.is_visible_to(caller)
            return f"it {OWNERS_ONLY}" if is_shown else "it belongs to somebody else, who does not share it"
        return why_barred(known.tool, known.service)

    def edition(self, tenant_id: str, tool_id: str) -> tuple[int, int] | None:
        """Return the cached versions of a tool and its service; another pair after every change of either."""
        known = self._snapshot(tenant_id).tools.get(tool_id)
        return None if known is None else (known.tool.state_version, known.service.state_version)

    async def refresh(self, tenant_id: str) -> None:
        """Reload the cache from what is committed, on start and after own changes."""
        known = self._snapshots.get(tenant_id)
        self._take(tenant_id, await self._database.read(tenant_id, lambda tx: self._load(tx, tenant_id, known)))

    def reload(self, tenant_id: str) -> None:
        """Reload the cache, on this thread."""
        known = self._snapshots.get(tenant_id)
        found = self._database.read_here(tenant_id, lambda tx: self._load(tx, tenant_id, known))
        self._take(tenant_id, found)

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
        version = self._store.version(tx, tenant_id)
        if before is not None and before.version >= version:
            return before
        services = {service.service_id: service for service in self._store.services(tx, tenant_id)}
        tools: dict[str, _Known] = {}
        for tool in self._store.tools(tx, tenant_id):
            service = services[tool.service_id]
            entry = tool.entry(service)
            old = None if before is None else before.tools.get(tool.key)
            # An entry that says the same stays the same object: what others keep by it stays valid.
            kept = old.entry if old is not None and old.entry == entry else entry
            tools[tool.key] = _Known(tool, service, kept)
        return _Snapshot(version, tools)
