"""Admits definitions: checks what must hold around one before it becomes a draft or a version.

A definition that is sound in itself can still be wrong here: its chain is not known, its name or one of its tools is
somebody else's, it holds a secret of the vault. And one that may come in need not go into service at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from twinraven.catalog import ToolEntry
from twinraven.flow import CONNECTOR, entry_of
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import Conflict, InvalidDefinition
from twinraven.registry.model import definition_text
from twinraven.registry.ports import ChainLookup, FindTool, HoldsSecret
from twinraven.registry.registration import tools_of
from twinraven.registry.synthesized import SynthesizedTool, validate_tool
from twinraven.storage import Database

BRING_TOOLS: Final = (
    "name their Python module in tools.modules, import their API with `twinraven services import-openapi`, or put "
    "their MCP server behind `twinraven gateway`"
)


class Admission:
    """Judges definitions by what there is in a tenant."""

    def __init__(
        self,
        database: Database,
        *,
        find_tool: FindTool,
        chains: ChainLookup,
        holds_secret: HoldsSecret | None,
        needs_approval: bool,
    ) -> None:
        self._database = database
        self._find_tool = find_tool
        self._chains = chains
        self._holds_secret = holds_secret
        self._needs_approval = needs_approval

    async def check(self, tenant_id: str, definition: SynthesizedTool) -> None:
        """Refuse what cannot become a version."""
        await self.require_chain(tenant_id, definition)
        # Before the act, which begins with a file; on the store's thread, because the answer may have to be read.
        await self._database.read(tenant_id, lambda _: self.refuse_secrets(tenant_id, definition))
        if self.is_foreign(tenant_id, definition.tool_id):
            raise Conflict(
                f"{definition.tool_id!r} is the name of a tool that was not learned; take another",
                tool_id=definition.tool_id,
            )
        # What was learned from somebody's traces may be looked at before its tools are here; it cannot serve before.
        validate_tool(definition, lambda name: self._find_tool(tenant_id, name) or _unknown_tool(name))

    def check_service(self, tenant_id: str, definition: SynthesizedTool) -> None:
        """Refuse to put into service what does not fit the tools it calls, as they are now."""
        missing = self.missing_tools(tenant_id, definition)
        if missing:
            raise InvalidDefinition(
                f"{definition.tool_id!r} cannot serve yet: {missing_text(missing)}",
                field="steps",
                missing=missing,
                fix=BRING_TOOLS,
            )
        validate_tool(definition, lambda name: self._find_tool(tenant_id, name))

    def missing_tools(self, tenant_id: str, definition: SynthesizedTool) -> list[str]:
        """List the tools of a definition that this home's catalogue does not have."""
        return [name for name in dict.fromkeys(tools_of(definition)) if self._find_tool(tenant_id, name) is None]

    async def require_chain(self, tenant_id: str, definition: SynthesizedTool) -> None:
        if not await self._chains.exists(tenant_id, definition.source_chain_id):
            raise InvalidDefinition(
                f"source_chain_id: there is no chain {definition.source_chain_id!r}; "
                "a learned tool says what it was learned from",
                field="source_chain_id",
            )

    def refuse_secrets(self, tenant_id: str, definition: SynthesizedTool) -> None:
        """Refuse a definition that holds a secret: its rows and files are readable."""
        if self._holds_secret is not None and self._holds_secret(tenant_id, definition_text(definition).encode()):
            raise InvalidDefinition(
                f"{definition.tool_id!r} holds a secret of the vault; make it a parameter", field="steps"
            )

    def is_promoted_at_once(self, tenant_id: str, definition: SynthesizedTool) -> bool:
        """Without required approval; but what a tool does to the world is confirmed by a person or declared.

        Words that a model wrote reach other models: a person reads them first, whatever the setting says.
        """
        if self._needs_approval or _is_advised(definition) or self.missing_tools(tenant_id, definition):
            return False
        return entry_of(definition, lambda name: self._find_tool(tenant_id, name)).effect_origin == "declared"

    def is_foreign(self, tenant_id: str, tool_id: str) -> bool:
        """Return whether a name is that of a tool that was not learned."""
        entry = self._find_tool(tenant_id, tool_id)
        return entry is not None and entry.connector != CONNECTOR

    def refuse_taken(self, tenant_id: str, tool_id: str) -> None:
        """Refuse a name that any tool has."""
        if self._find_tool(tenant_id, tool_id) is not None:
            raise Conflict(f"there is a tool {tool_id!r} already", tool_id=tool_id)


def missing_text(missing: Sequence[str]) -> str:
    """Say which tools a home lacks."""
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {verb} in the record, but not in this home's catalogue"


def _unknown_tool(name: str) -> ToolEntry:
    return ToolEntry(tool_id=name, description="not in this home's catalogue", input_schema={"type": "object"})


def _is_advised(definition: SynthesizedTool) -> bool:
    """Return whether a model had a hand in it."""
    advice = definition.evidence.get("advice")
    return isinstance(advice, dict) and bool(cast("JsonObject", advice).get("accepted"))
