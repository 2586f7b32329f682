"""The vectors of episodes in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twinraven.storage import Transaction

_VECTOR: Final = ("tenant_id", "group_id", "seq", "model", "data")


def insert_vectors(
    tx: Transaction, tenant_id: str, group_id: str, model: str, rows: Sequence[tuple[int, bytes]]
) -> None:
    tx.insert_rows("episode_vectors", _VECTOR, [(tenant_id, group_id, seq, model, data) for seq, data in rows])


def read_vectors(tx: Transaction, tenant_id: str, group_id: str, model: str, *, after: int) -> list[tuple[int, bytes]]:
    """The vectors of a group's parts behind one, in order."""
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
