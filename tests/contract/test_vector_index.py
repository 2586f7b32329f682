"""Vectors of large groups: by the index of pgvector on Postgres, by words alone where there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import psycopg
import pytest

from tests.postgres import PostgresLogin
from twinraven.knowledge import Knowledge, NewEpisode
from twinraven.knowledge.embedding import Vectors
from twinraven.knowledge.vectors import VectorIndex
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("t")
_WIDTH = 384
_SAID = [f"turn {number} of topic {number % 20}" for number in range(120)]


class HashEmbedder:
    """Gives each text a direction of its own, and texts of one topic directions that are near."""

    name = "hash"
    width = _WIDTH

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = [_direction(text.rpartition("topic")[2]) + 0.3 * _direction(text) for text in texts]
        found = np.array(rows, dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def _direction(text: str) -> Vectors:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return np.random.default_rng(seed).normal(size=_WIDTH).astype(np.float32)


async def remembered(database: Database, *texts: str, group: str = "g", start: int = 0) -> Knowledge:
    knowledge = Knowledge(database, embedder=HashEmbedder())
    said = [NewEpisode(group, f"n{start + place}", text) for place, text in enumerate(texts)]
    await knowledge.remember_all("t", said)
    return knowledge


async def nearest_of(database: Database, index: VectorIndex, text: str) -> dict[int, float]:
    [question] = index.embedder.embed([text])
    return await database.read("t", lambda tx: index.cosines(tx, "t", "g", question, parts=len(_SAID)))


@pytest.mark.req("AD-21")
async def test_a_large_group_is_compared_by_the_index(database: Database) -> None:
    """Of a group too large for memory the index names the same nearest turns, of that group alone; or there is none."""
    await remembered(database, *_SAID)
    await remembered(database, *reversed(_SAID), group="other")
    exact = await nearest_of(database, VectorIndex(HashEmbedder()), "what of topic 7")
    assert len(exact) == len(_SAID)
    indexed = await nearest_of(database, VectorIndex(HashEmbedder(), most_in_memory=10), "what of topic 7")
    if database.dialect == "sqlite":
        assert indexed == {}
        return
    best = sorted(exact, key=lambda seq: -exact[seq])[:6]
    assert set(sorted(indexed, key=lambda seq: -indexed[seq])[:6]) == set(best) == set(range(7, 120, 20))
    assert {seq: indexed[seq] for seq in best} == pytest.approx({seq: exact[seq] for seq in best}, abs=0.005)
    assert set(indexed) <= set(range(len(_SAID)))


async def test_a_server_that_gets_pgvector_later(postgres_login: PostgresLogin, postgres_database: Database) -> None:
    """Without the extension everything works as on SQLite; after an upgrade with it, older vectors are indexed too."""
    with psycopg.connect(postgres_login.admin_url, autocommit=True) as admin:
        admin.execute("ALTER TABLE episode_vectors DROP COLUMN embedding")
        admin.execute("DROP EXTENSION vector")
    knowledge = await remembered(postgres_database, *_SAID[:100])
    assert await knowledge.search("t", "turn 3 of topic 3", group_id="g")
    index = VectorIndex(HashEmbedder(), most_in_memory=10)
    assert await nearest_of(postgres_database, index, "what of topic 7") == {}
    postgres_database.migrate()
    await remembered(postgres_database, *_SAID[100:], start=100)
    found = await nearest_of(postgres_database, index, "what of topic 7")
    assert set(sorted(found, key=lambda seq: -found[seq])[:6]) == set(range(7, 120, 20))
