"""Whether a chain is there, asked of the table that holds them."""

from __future__ import annotations

from twinraven.storage import Database


class StoredChains:
    """`ChainLookup` on the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def exists(self, tenant_id: str, chain_id: str) -> bool:
        row = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_one(
                "SELECT 1 AS found FROM candidate_chains WHERE tenant_id = :tenant AND chain_id = :chain",
                tenant=tenant_id,
                chain=chain_id,
            ),
        )
        return row is not None
