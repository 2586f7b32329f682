"""Keeps the vectors of episodes and compares a question with them, where an embedder is installed.

Vectors are stored as half-precision numbers, one row a part. A group's vectors are kept in memory as one matrix that
grows with the group. Of groups larger than `MOST_IN_MEMORY` the index of pgvector says which are nearest, where
Postgres has it; elsewhere words alone choose.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinraven.knowledge.embedding import Embedder, Vectors
from twinraven.knowledge.vectors_sql import (
    INDEXED_WIDTH,
    fill_column,
    has_vector_column,
    insert_indexed,
    insert_vectors,
    nearest_vectors,
    read_vectors,
)
from twinraven.storage import Transaction

MOST_IN_MEMORY: Final = 50_000
"""Parts of a group whose vectors are kept in memory: 77 MB."""
EXTRA: Final = 20
"""How many parts are candidates by their meaning alone."""
_NEIGHBOUR_SHARE: Final = 0.15
_SCALED_OVER: Final = 50
_MOST_GROUPS: Final = 8
_FROM_INDEX: Final = 200


def pack_vector(vector: Vectors) -> bytes:
    return vector.astype(np.float16).tobytes()


class VectorIndex:
    """The vectors of the groups that were searched last."""

    def __init__(self, embedder: Embedder, *, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self.embedder = embedder
        self._most_in_memory = most_in_memory
        self._has_column = False
        self._filled: set[tuple[str, str]] = set()
        """Groups of which nothing waits to be indexed any more."""
        self._groups: OrderedDict[tuple[str, str], tuple[NDArray[np.int64], Vectors]] = OrderedDict()
        self._changing = Lock()

    def cosines(
        self, tx: Transaction, tenant_id: str, group_id: str, question: Vectors, *, parts: int
    ) -> dict[int, float]:
        """Return the similarity of each part of a group to a question; of a large group the nearest, or none without an
        index.
        """
        if parts > self._most_in_memory:
            if not self._is_indexed(tx):
                return {}
            asked = pack_vector(question)
            return nearest_vectors(tx, tenant_id, group_id, self.embedder.name, asked, limit=_FROM_INDEX)
        seqs, matrix = self._matrix(tx, tenant_id, group_id)
        found = matrix @ question if len(seqs) else np.zeros(0)
        return dict(zip(seqs.tolist(), found.tolist(), strict=True))

    def store(self, tx: Transaction, tenant_id: str, group_id: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Store the vectors of parts."""
        model = self.embedder.name
        if not self._is_indexed(tx):
            insert_vectors(tx, tenant_id, group_id, model, rows)
            return
        insert_indexed(tx, tenant_id, group_id, model, rows)
        if (tenant_id, group_id) not in self._filled and not fill_column(tx, tenant_id, group_id, model):
            self._filled.add((tenant_id, group_id))

    def _is_indexed(self, tx: Transaction) -> bool:
        # What was there once stays; a server that gets the extension later is noticed.
        self._has_column = self._has_column or has_vector_column(tx)
        return self._has_column and self.embedder.width == INDEXED_WIDTH

    def _matrix(self, tx: Transaction, tenant_id: str, group_id: str) -> tuple[NDArray[np.int64], Vectors]:
        key = (tenant_id, group_id)
        with self._changing:
            held = self._groups.get(key)
        last = int(held[0][-1]) if held is not None and len(held[0]) else -1
        fresh = read_vectors(tx, tenant_id, group_id, self.embedder.name, after=last)
        if fresh:
            seqs = np.array([seq for seq, _ in fresh], dtype=np.int64)
            rows = np.frombuffer(b"".join(data for _, data in fresh), dtype=np.float16).reshape(len(fresh), -1)
            added = rows.astype(np.float32)
            held = (seqs, added) if held is None else (np.append(held[0], seqs), np.concatenate([held[1], added]))
        if held is None:
            return np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.float32)
        with self._changing:
            self._groups[key] = held
            self._groups.move_to_end(key)
            while len(self._groups) > _MOST_GROUPS:
                self._groups.popitem(last=False)
        return held


def shared_with_neighbours(cosines: Mapping[int, float]) -> dict[int, float]:
    """Similarities with a share of those of the turns beside: a reply means little without what it replies to."""
    return {
        seq: own + _NEIGHBOUR_SHARE * (cosines.get(seq - 1, 0.0) + cosines.get(seq + 1, 0.0))
        for seq, own in cosines.items()
    }


def nearest(cosines: Mapping[int, float], allowed: NDArray[np.bool_] | None) -> list[int]:
    """Return the parts that mean most nearly what is asked."""
    eligible = [seq for seq in cosines if allowed is None or allowed[seq]]
    return sorted(eligible, key=lambda seq: -cosines[seq])[:EXTRA]


def scaled(cosines: Mapping[int, float], listed: Sequence[int]) -> dict[int, float]:
    """Similarities of candidates from 0 to 1, where 0 is the fiftieth best of the group."""
    best = sorted(cosines.values(), reverse=True)[:_SCALED_OVER]
    if not best:
        return {}
    low, high = best[-1], best[0]
    width = max(high - low, 1e-9)
    return {seq: max(0.0, (cosines[seq] - low) / width) for seq in listed if seq in cosines}
