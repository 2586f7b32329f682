"""Who is let in: what must be true around a definition before it becomes a draft or a version.

A definition that is sound in itself can still be wrong here: its chain is not known, its name or one of its tools is
somebody else's, it holds a secret of the vault. And one that may come in need not go into service at once.
"""

from __future__ import annotations

from typing import cast

from twinraven.flow import CONNECTOR, SynthesizedTool, entry_of, validate_definition
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import Conflict, InvalidDefinition
from twinraven.registry.model import definition_text
from twinraven.registry.ports import ChainLookup, FindTool, HoldsSecret
from twinraven.storage import Database


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
        self.check_definition(tenant_id, definition)

    def check_definition(self, tenant_id: str, definition: SynthesizedTool) -> None:
        """Refuse what does not fit the tools it calls, as they are now."""
        validate_definition(definition, lambda name: self._find_tool(tenant_id, name))

    async def require_chain(self, tenant_id: str, definition: SynthesizedTool) -> None:
        if not await self._chains.exists(tenant_id, definition.source_chain_id):
            raise InvalidDefinition(
                f"source_chain_id: there is no chain {definition.source_chain_id!r}; "
                "a learned tool says what it was learned from",
                field="source_chain_id",
            )

    def refuse_secrets(self, tenant_id: str, definition: SynthesizedTool) -> None:
        """A definition is kept in rows and files that anybody may read."""
        if self._holds_secret is not None and self._holds_secret(tenant_id, definition_text(definition).encode()):
            raise InvalidDefinition(
                f"{definition.tool_id!r} holds a secret of the vault; make it a parameter", field="steps"
            )

    def is_promoted_at_once(self, tenant_id: str, definition: SynthesizedTool) -> bool:
        """Without required approval; but what a tool does to the world is confirmed by a person or declared.

        Words that a model wrote reach other models: a person reads them first, whatever the setting says.
        """
        if self._needs_approval or _is_advised(definition):
            return False
        return entry_of(definition, lambda name: self._find_tool(tenant_id, name)).effect_origin == "declared"

    def is_foreign(self, tenant_id: str, tool_id: str) -> bool:
        """Whether a name is that of a tool that was not learned."""
        entry = self._find_tool(tenant_id, tool_id)
        return entry is not None and entry.connector != CONNECTOR

    def refuse_taken(self, tenant_id: str, tool_id: str) -> None:
        """Refuse a name that any tool has."""
        if self._find_tool(tenant_id, tool_id) is not None:
            raise Conflict(f"there is a tool {tool_id!r} already", tool_id=tool_id)


def _is_advised(definition: SynthesizedTool) -> bool:
    """Whether a model had a hand in it."""
    advice = definition.evidence.get("advice")
    return isinstance(advice, dict) and bool(cast("JsonObject", advice).get("accepted"))
