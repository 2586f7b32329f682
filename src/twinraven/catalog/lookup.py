"""Answers who may see and call what: one look-up over all tool sources, for every door.

Sources stand in order of precedence; the first that knows a name has it. What a caller may do stands in the entries
themselves: who sees a tool (`private_to`), who may call it (`runs_for`), and which tools it calls in turn (`parts`). A
composite is there for those alone who may call each of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, Protocol, runtime_checkable

from twinraven.catalog.model import ToolEntry
from twinraven.foundation.errors import NotFound

_UNCALLABLE_PART = "it calls a tool that belongs to somebody else"


class ToolSource(Protocol):
    """Somewhere entries come from: Python modules, upstream servers, the registry of learned tools."""

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None: ...

    def entries(self, tenant_id: str) -> list[ToolEntry]: ...


@runtime_checkable
class ExplainingSource(ToolSource, Protocol):
    """A source that also shows tools which cannot be called now, and says why."""

    def withheld(self, tenant_id: str) -> list[ToolEntry]:
        """Return disabled tools, which `find` finds and `entries` does not list."""
        ...

    def why_not(self, tenant_id: str, caller: str | None, tool_id: str) -> str | None:
        """Why a user cannot call a tool of this source, however healthy it is; None where they can."""
        ...


@runtime_checkable
class PinningSource(ToolSource, Protocol):
    """A tool source that may quarantine tools until they are reviewed; they keep their names meanwhile."""

    def find_pinned(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """Find a tool, also one that is held back or gone."""
        ...

    def refuse_quarantined(self, tenant_id: str, tool_id: str) -> None:
        """Raise what says why a tool that is held back cannot be called."""
        ...


class Catalog:
    """All sources as one; the first that knows a name wins."""

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = list(sources)

    def add(self, source: ToolSource) -> None:
        """Append a source, which comes after those that are there."""
        self._sources.append(source)

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry:
        """Find an entry for the tenant itself, without a caller's permissions; NotFound names the nearest."""
        return self._first(tenant_id, tool_id) or self._refuse(tenant_id, tool_id, None)

    def resolve(self, tenant_id: str, tool_id: str, caller: str | None) -> ToolEntry:
        """Find the entry for a call by this user; NotFound names the nearest that they may call.

        The answer is the same for an id that nobody has, for a tool that is another's, and for a composite of such: the
        caller must not learn which. A tool that is held back says so. None is nobody in particular, who acts for the
        whole tenant.
        """
        for source in self._sources:
            entry = source.find(tenant_id, tool_id)
            if entry is not None and entry.is_visible_to(caller):
                if entry.parts and not self._allows(tenant_id, caller, entry):
                    break
                return entry
        return self._refuse(tenant_id, tool_id, caller)

    def may_use(self, tenant_id: str, caller: str | None, tool_id: str) -> bool:
        """Tell whether a user may call a tool and everything inside it; a name that no source knows is free to use."""
        entry = self._first(tenant_id, tool_id)
        return entry is None or self._allows(tenant_id, caller, entry)

    def visible(self, tenant_id: str, caller: str | None) -> list[ToolEntry]:
        """List what a user sees, by name: what they may call, and what they are told that they cannot (`why_not`)."""
        return self._listed(
            entry
            for source in self._sources
            for entry in (*source.entries(tenant_id), *_withheld(source, tenant_id))
            if entry.is_visible_to(caller) and (not entry.parts or self._allows(tenant_id, caller, entry))
        )

    def offered(self, tenant_id: str, caller: str | None) -> list[ToolEntry]:
        """List what a user may call, by name."""
        return [entry for entry in self.entries(tenant_id) if self._allows(tenant_id, caller, entry)]

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        """List the tools that a tenant has in service, by name, without a caller's permissions."""
        return self._listed(entry for source in self._sources for entry in source.entries(tenant_id))

    def why_not(self, tenant_id: str, caller: str | None, entry: ToolEntry) -> str | None:
        """Say why a user cannot call a tool, however healthy it is; None where they can."""
        for source in self._sources:
            why = source.why_not(tenant_id, caller, entry.tool_id) if isinstance(source, ExplainingSource) else None
            if why is not None:
                return why
        return None if self._allows(tenant_id, caller, entry) else _UNCALLABLE_PART

    def holder(self, tenant_id: str, tool_id: str, *, besides: ToolSource) -> ToolEntry | None:
        """Find what has a name already in any other source, in service or held back."""
        for source in self._sources:
            if source is besides:
                continue
            find = source.find_pinned if isinstance(source, PinningSource) else source.find
            entry = find(tenant_id, tool_id)
            if entry is not None:
                return entry
        return None

    def _first(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        for source in self._sources:
            entry = source.find(tenant_id, tool_id)
            if entry is not None:
                return entry
        return None

    def _allows(
        self, tenant_id: str, caller: str | None, entry: ToolEntry, around: frozenset[str] = frozenset()
    ) -> bool:
        """Return whether a user may call a tool and all its parts.

        `around` are the composites it was reached through.
        """
        if caller is None:
            return True
        if not entry.is_callable_by(caller) or entry.tool_id in around:
            return False
        inside = around | {entry.tool_id}
        parts = (self._first(tenant_id, part) for part in entry.parts)
        return all(part is None or self._allows(tenant_id, caller, part, inside) for part in parts)

    def _refuse(self, tenant_id: str, tool_id: str, caller: str | None) -> NoReturn:
        from difflib import get_close_matches

        for source in self._sources:
            if isinstance(source, PinningSource):
                source.refuse_quarantined(tenant_id, tool_id)
        own = [entry.tool_id for entry in self.offered(tenant_id, caller) if entry.private_to in (None, caller)]
        near = get_close_matches(tool_id, [name for name in own if name != tool_id], n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise NotFound(f"no tool {tool_id!r}{hint}", tool_id=tool_id)

    @staticmethod
    def _listed(entries: Iterator[ToolEntry]) -> list[ToolEntry]:
        found: dict[str, ToolEntry] = {}
        for entry in entries:
            found.setdefault(entry.tool_id, entry)
        return [found[name] for name in sorted(found)]


def _withheld(source: ToolSource, tenant_id: str) -> list[ToolEntry]:
    return source.withheld(tenant_id) if isinstance(source, ExplainingSource) else []
