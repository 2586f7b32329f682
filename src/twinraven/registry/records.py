"""Reads the registry: tools, drafts, rejections and the chains behind them.

Nothing here changes a tool. Counts are right up to now, because calls that are not yet added to the rows are read from
the log; a reader that finds many of them folds them into the stored counter.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import NotFound, StorageBusy
from twinraven.registry import sql, usage
from twinraven.registry.model import Draft, RegisteredTool, Rejection, ToolRecord, ToolVersion, chain_key
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.storage import Database, Transaction, settled_arrival


class RegistryRecords:
    """Reads learned tools with their current use counts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tools(self, tenant_id: str) -> list[ToolRecord]:
        """Return every record of a tenant by name, with all calls up to now."""

        def work(tx: Transaction) -> tuple[list[ToolRecord], usage.LogUsage]:
            return sql.records(tx, tenant_id), usage.uncounted(tx, tenant_id)

        records, fresh = await self._database.read(tenant_id, work)
        await self._fold_if_long(tenant_id, fresh)
        return usage.with_uses(records, fresh)

    async def tool(self, tenant_id: str, tool_id: str) -> RegisteredTool:
        """Return one tool with its versions and all calls up to now, or NotFound."""

        def work(tx: Transaction) -> tuple[RegisteredTool | None, usage.LogUsage]:
            return sql.tool(tx, tenant_id, tool_id), usage.uncounted(tx, tenant_id)

        found, fresh = await self._database.read(tenant_id, work)
        if found is None:
            raise NotFound(f"no learned tool {tool_id!r}", tool_id=tool_id, fix="twinraven registry list")
        await self._fold_if_long(tenant_id, fresh)
        return replace(found, record=usage.with_uses([found.record], fresh)[0])

    async def awaiting(self, tenant_id: str) -> list[tuple[RegisteredTool, ToolVersion]]:
        """Return the newest version of each tool that waits for a decision, with the tool."""

        def work(tx: Transaction) -> list[tuple[RegisteredTool, ToolVersion]]:
            waiting = {each.tool_id: each for each in sql.living_versions(tx, tenant_id) if each.is_waiting}
            tools = {tool_id: sql.tool(tx, tenant_id, tool_id) for tool_id in waiting}
            return [(tool, waiting[tool_id]) for tool_id, tool in tools.items() if tool is not None]

        return await self._database.read(tenant_id, work)

    async def drafts(self, tenant_id: str, *, tool_id: str | None = None) -> list[Draft]:
        """Return every synthesis, oldest first."""
        return await self._database.read(tenant_id, lambda tx: sql.drafts(tx, tenant_id, tool_id=tool_id))

    async def rejection(self, tenant_id: str, definition: SynthesizedTool, evidence_hash: str) -> Rejection | None:
        """Return whether what a definition calls was rejected on this evidence."""
        key = chain_key(definition)
        return await self._database.read(tenant_id, lambda tx: sql.rejection(tx, tenant_id, key, evidence_hash))

    async def chain(self, tenant_id: str, chain_id: str) -> JsonObject | None:
        """Return a stored candidate chain by the names of its fields."""
        return await self._database.read(tenant_id, lambda tx: sql.chain(tx, tenant_id, chain_id))

    async def fold_usage(self, tenant_id: str, *, patience_s: float = 30.0) -> None:
        """Add settled calls to the rows; must run before events are removed from the log."""
        settled = await settled_arrival(self._database, tenant_id, usage.LOG, patience_s=patience_s)
        await self._database.write(tenant_id, lambda tx: usage.fold(tx, tenant_id, settled=settled))

    async def _fold_if_long(self, tenant_id: str, fresh: usage.LogUsage) -> None:
        if fresh.events >= usage.FOLD_AT:
            # Counts are right without it; somebody who writes for long must not keep those waiting who only look.
            with suppress(StorageBusy):
                await self.fold_usage(tenant_id, patience_s=1)
