"""Stores the vectors of episodes in SQL: as bytes on both databases, and in a pgvector column where Postgres has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from twinraven.storage import Transaction

_VECTOR: Final = ("tenant_id", "group_id", "seq", "model", "data")
_FILLED_AT_ONCE: Final = 500
INDEXED_WIDTH: Final = 384
"""The width of the vectors that the column takes."""


def insert_vectors(
    tx: Transaction, tenant_id: str, group_id: str, model: str, rows: Sequence[tuple[int, bytes]]
) -> None:
    tx.insert_rows("episode_vectors", _VECTOR, [(tenant_id, group_id, seq, model, data) for seq, data in rows])


def insert_indexed(
    tx: Transaction, tenant_id: str, group_id: str, model: str, rows: Sequence[tuple[int, bytes]]
) -> None:
    """Store vectors as bytes and for pgvector."""
    tx.execute_many(
        f"INSERT INTO episode_vectors ({', '.join(_VECTOR)}, embedding) VALUES (?, ?, ?, ?, ?, CAST(? AS halfvec))",
        [(tenant_id, group_id, seq, model, data, _as_text(data)) for seq, data in rows],
    )


def fill_column(tx: Transaction, tenant_id: str, group_id: str, model: str) -> int:
    """Index some vectors that were stored before pgvector was there; says how many."""
    waiting = tx.fetch_all(
        "SELECT seq, data FROM episode_vectors WHERE tenant_id = :tenant AND group_id = :group AND model = :model "
        "AND embedding IS NULL ORDER BY seq LIMIT :limit",
        tenant=tenant_id,
        group=group_id,
        model=model,
        limit=_FILLED_AT_ONCE,
    )
    tx.execute_many(
        "UPDATE episode_vectors SET embedding = CAST(? AS halfvec) "
        "WHERE tenant_id = ? AND group_id = ? AND model = ? AND seq = ?",
        [(_as_text(row["data"]), tenant_id, group_id, model, row["seq"]) for row in waiting],
    )
    return len(waiting)


def has_vector_column(tx: Transaction) -> bool:
    """Return whether this store has the column of pgvector."""
    return tx.dialect == "postgres" and (
        tx.fetch_one(
            "SELECT 1 AS found FROM pg_attribute WHERE attrelid = CAST('episode_vectors' AS regclass) "
            "AND attname = 'embedding' AND NOT attisdropped"
        )
        is not None
    )


def nearest_vectors(
    tx: Transaction, tenant_id: str, group_id: str, model: str, question: bytes, *, limit: int
) -> dict[int, float]:
    """Return the parts of a group most similar to a question, by pgvector's index, with the similarity."""
    # The index knows nothing of groups: it is asked on until enough of this one are found.
    tx.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
    rows = tx.fetch_all(
        "SELECT seq, -(embedding <#> CAST(:question AS halfvec)) AS similarity FROM episode_vectors "
        "WHERE tenant_id = :tenant AND group_id = :group AND model = :model AND embedding IS NOT NULL "
        "ORDER BY embedding <#> CAST(:question AS halfvec) LIMIT :limit",
        tenant=tenant_id,
        group=group_id,
        model=model,
        question=_as_text(question),
        limit=limit,
    )
    return {row["seq"]: row["similarity"] for row in rows}


def _as_text(data: bytes) -> str:
    return str(np.frombuffer(data, dtype=np.float16).astype(np.float32).round(5).tolist())


def read_vectors(tx: Transaction, tenant_id: str, group_id: str, model: str, *, after: int) -> list[tuple[int, bytes]]:
    """Read the vectors of a group's parts behind one, in order."""
    found: list[tuple[int, bytes]] = []
    for rows in tx.stream(
        "SELECT seq, data FROM episode_vectors WHERE tenant_id = :tenant AND group_id = :group AND model = :model "
        "AND seq > :after ORDER BY seq",
        tenant=tenant_id,
        group=group_id,
        model=model,
        after=after,
    ):
        found += [(seq, bytes(data)) for seq, data in rows]
    return found
