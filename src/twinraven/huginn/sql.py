"""Stores candidate chains in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.huginn.chains import CandidateChain
from twinraven.storage import Database, Row, Transaction

_COLUMNS = (
    "tenant_id",
    "chain_id",
    "tools",
    "support",
    "confidence",
    "avg_latency_ms",
    "failure_rate",
    "sample_event_ids",
    "discovered_at",
    "mining_config",
    "value",
    "detail",
)

_BEHIND = """AND EXISTS (SELECT 1 FROM candidate_chains a WHERE a.tenant_id = :tenant AND a.chain_id = :after AND (
    c.discovered_at < a.discovered_at OR (c.discovered_at = a.discovered_at AND (
        c.value < a.value OR (c.value = a.value AND c.chain_id > a.chain_id)))))"""


class SqlChainStore:
    """`ChainStore` on a database of ours; `detail` holds the whole chain as JSON, the columns are for queries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, tenant_id: str, chains: Sequence[CandidateChain]) -> None:
        rows = [_row(tenant_id, chain) for chain in chains]
        await self._database.write(tenant_id, lambda tx: tx.insert_rows("candidate_chains", _COLUMNS, rows))

    async def chain(self, tenant_id: str, chain_id: str) -> CandidateChain:
        found = await self._database.read(tenant_id, lambda tx: _by_prefix(tx, tenant_id, chain_id))
        if not found:
            raise NotFound(f"no chain {chain_id!r}", chain_id=chain_id, fix="twinraven chains list")
        if len(found) > 1:
            raise InvalidInput(f"more than one chain begins with {chain_id!r}; give more of the id", field="chain_id")
        return CandidateChain.from_json(orjson.loads(found[0]["detail"]))

    async def chains(self, tenant_id: str, *, limit: int = 100, after: str | None = None) -> list[CandidateChain]:
        rows = await self._database.read(
            tenant_id,
            lambda tx: tx.fetch_all(
                f"SELECT detail FROM candidate_chains c WHERE tenant_id = :tenant {'' if after is None else _BEHIND} "
                "ORDER BY discovered_at DESC, value DESC, chain_id LIMIT :limit",
                tenant=tenant_id,
                limit=limit,
                **({} if after is None else {"after": after}),
            ),
        )
        return [CandidateChain.from_json(orjson.loads(row["detail"])) for row in rows]

    async def exists(self, tenant_id: str, chain_id: str) -> bool:
        found = await self._database.read(tenant_id, lambda tx: _by_prefix(tx, tenant_id, chain_id))
        return any(row["chain_id"] == chain_id for row in found)


def _by_prefix(tx: Transaction, tenant_id: str, prefix: str) -> list[Row]:
    if not prefix or not all(letter in "0123456789abcdef-" for letter in prefix):
        return []
    return tx.fetch_all(
        "SELECT chain_id, detail FROM candidate_chains "
        "WHERE tenant_id = :tenant AND chain_id >= :low AND chain_id < :high LIMIT 2",
        tenant=tenant_id,
        low=prefix,
        high=f"{prefix}g",
    )


def _row(tenant_id: str, chain: CandidateChain) -> tuple[Any, ...]:
    body = chain.as_json()
    return (
        tenant_id,
        body["chain_id"],
        orjson.dumps(body["tools"]).decode(),
        chain.support,
        chain.confidence,
        chain.avg_latency_ms,
        chain.failure_rate,
        orjson.dumps(body["sample_event_ids"]).decode(),
        to_micros(chain.discovered_at),
        orjson.dumps(chain.mining_config).decode(),
        chain.value,
        orjson.dumps(body).decode(),
    )
