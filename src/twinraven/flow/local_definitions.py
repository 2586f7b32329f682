"""Offers definitions in this process only: composites written by hand, or tried before they are registered."""

from __future__ import annotations

from collections.abc import Iterable

from twinraven.catalog import Catalog, ToolEntry
from twinraven.flow.composite import entry_of
from twinraven.flow.definition import FlowDefinition
from twinraven.flow.validation import validate_definition
from twinraven.foundation.errors import NotFound


class LocalDefinitions:
    """A source of catalogue entries and of the definitions behind them, the same for every tenant."""

    def __init__(self) -> None:
        self._definitions: dict[str, FlowDefinition] = {}
        self._entries: dict[str, ToolEntry] = {}

    def offer(self, definitions: Iterable[FlowDefinition], catalog: Catalog, *, tenant_id: str) -> None:
        """Check definitions against the tools they name, and offer them."""

        def find(tool_id: str) -> ToolEntry | None:
            try:
                return catalog.find(tenant_id, tool_id)
            except NotFound:
                return None

        for definition in definitions:
            validate_definition(definition, find)
            self._definitions[definition.tool_id] = definition
            self._entries[definition.tool_id] = entry_of(definition, find)

    def definition(self, tenant_id: str, tool_id: str) -> FlowDefinition:
        del tenant_id
        if tool_id not in self._definitions:
            raise NotFound(f"no definition {tool_id!r} is offered here", tool_id=tool_id)
        return self._definitions[tool_id]

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self._entries.get(tool_id)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return list(self._entries.values())
