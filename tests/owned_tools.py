"""Tools of a source of which some belong to one user alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from twinraven.catalog import ToolEntry, ToolSource


@dataclass
class OwnedTools:
    """A source whose tools have owners; a tool without one is everybody's."""

    source: ToolSource
    owners: dict[str, str] = field(default_factory=dict[str, str])

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        found = self.source.find(tenant_id, tool_id)
        return None if found is None else self._owned(found)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        return [self._owned(entry) for entry in self.source.entries(tenant_id)]

    def _owned(self, entry: ToolEntry) -> ToolEntry:
        return replace(entry, private_to=self.owners.get(entry.tool_id))
