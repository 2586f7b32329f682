"""Stores mentions of entities in turns in SQL: written by extractors, counted for enrichment and neighbourhoods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from twinraven.knowledge.entities.extractor import FoundEntity
from twinraven.knowledge.entities.model import InferredBy
from twinraven.knowledge.entities.sql import entities_by_id
from twinraven.knowledge.sql import listed_values
from twinraven.storage import Transaction, chunks

_MENTION: Final = ("tenant_id", "entity_id", "group_id", "seq", "original_name", "source", "confidence")
_UNSURE: Final = FoundEntity("", None, 0.0)


class Mention(NamedTuple):
    """That a turn names an entity, who found it and how sure that is."""

    entity_id: str
    seq: int
    name: str
    source: str
    confidence: float


def insert_mentions(tx: Transaction, tenant_id: str, group_id: str, mentions: Iterable[Mention]) -> None:
    tx.insert_missing("entity_mentions", _MENTION, _mention_rows(tenant_id, group_id, mentions))


def raise_mentions(tx: Transaction, tenant_id: str, group_id: str, mentions: Iterable[Mention]) -> None:
    """Store mentions; where a turn's is known already, the surer of the two stands."""
    tx.execute_many(
        f"INSERT INTO entity_mentions ({', '.join(_MENTION)}) VALUES ({', '.join('?' * len(_MENTION))}) "
        "ON CONFLICT (tenant_id, entity_id, group_id, seq) DO UPDATE SET source = excluded.source, "
        "confidence = excluded.confidence WHERE entity_mentions.confidence < excluded.confidence",
        _mention_rows(tenant_id, group_id, mentions),
    )


def _mention_rows(tenant_id: str, group_id: str, mentions: Iterable[Mention]) -> list[tuple[Any, ...]]:
    return [
        (tenant_id, each.entity_id, group_id, each.seq, each.name, each.source, round(each.confidence * 100))
        for each in mentions
    ]


def raise_categories(
    tx: Transaction, tenant_id: str, stated: Iterable[tuple[str, FoundEntity]], *, by: InferredBy
) -> None:
    """Update the categories of extracted entities where the new one has a higher confidence."""
    best: dict[str, FoundEntity] = {}
    for entity_id, found in stated:
        if found.category is not None and found.confidence > best.get(entity_id, _UNSURE).confidence:
            best[entity_id] = found
    for entity in entities_by_id(tx, tenant_id, list(best)):
        found = best[entity.entity_id]
        is_surer = entity.category is None or found.confidence > entity.confidence.get("category", 0)
        if entity.inferred_by != "user" and is_surer:
            tx.execute(
                "UPDATE entities SET category = :category, confidence = :confidence "
                "WHERE tenant_id = :tenant AND entity_id = :id",
                tenant=tenant_id,
                id=entity.entity_id,
                category=found.category,
                confidence=json.dumps({**entity.confidence, "category": found.confidence, "category_by": by}),
            )


def mentions_in(tx: Transaction, tenant_id: str, episode_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return which entity is mentioned in which of these episodes."""
    found: dict[tuple[str, str], None] = {}
    for some in chunks(episode_ids, 400):
        names, values = listed_values(some)
        # An outer join keeps SQLite from beginning with all mentions of the tenant.
        rows = tx.fetch_all(
            "SELECT m.entity_id, e.episode_id FROM episodes e LEFT JOIN entity_mentions m ON m.tenant_id = e.tenant_id "
            f"AND m.group_id = e.group_id AND m.seq = e.seq WHERE e.tenant_id = :tenant AND e.episode_id IN ({names})",
            tenant=tenant_id,
            **values,
        )
        pairs = ((row["entity_id"], row["episode_id"]) for row in rows if row["entity_id"] is not None)
        found.update(dict.fromkeys(pairs))
    return list(found)


def ripe_entities(tx: Transaction, tenant_id: str, touched: Sequence[str], edges: int) -> list[str]:
    """Claim those of these entities that reached so many mentions and await enrichment."""
    ripe: list[str] = []
    for some in chunks(touched, 400):
        names, values = listed_values(some)
        rows = tx.fetch_all(
            "SELECT m.entity_id, COUNT(*) AS edges FROM entities e JOIN entity_mentions m ON m.tenant_id = e.tenant_id "
            "AND m.entity_id = e.entity_id WHERE e.tenant_id = :tenant AND e.enriched_edges IS NULL "
            f"AND e.entity_id IN ({names}) GROUP BY m.entity_id HAVING COUNT(*) >= :edges",
            tenant=tenant_id,
            edges=edges,
            **values,
        )
        for row in rows:
            tx.execute(
                "UPDATE entities SET enriched_edges = :edges WHERE tenant_id = :tenant AND entity_id = :id",
                tenant=tenant_id,
                id=row["entity_id"],
                edges=row["edges"],
            )
            ripe.append(row["entity_id"])
    return ripe


def let_ripen(tx: Transaction, tenant_id: str, entity_id: str) -> None:
    """Let go of the claim on an entity that was not enriched; its next mention starts it again."""
    tx.execute(
        "UPDATE entities SET enriched_edges = NULL WHERE tenant_id = :tenant AND entity_id = :id "
        "AND enriched_at IS NULL",
        tenant=tenant_id,
        id=entity_id,
    )


def beside(tx: Transaction, tenant_id: str, entity_id: str, limit: int) -> list[tuple[str, str, int]]:
    """Entities that stand in the same turns most often: id, name, how often."""
    rows = tx.fetch_all(
        "SELECT e.entity_id, e.name, COUNT(*) AS turns FROM entity_mentions m "
        "JOIN entity_mentions o ON o.tenant_id = m.tenant_id AND o.group_id = m.group_id AND o.seq = m.seq "
        "AND o.entity_id <> m.entity_id "
        "JOIN entities e ON e.tenant_id = o.tenant_id AND e.entity_id = o.entity_id "
        "WHERE m.tenant_id = :tenant AND m.entity_id = :id GROUP BY e.entity_id, e.name "
        "ORDER BY turns DESC, e.name LIMIT :limit",
        tenant=tenant_id,
        id=entity_id,
        limit=limit,
    )
    return [(row["entity_id"], row["name"], row["turns"]) for row in rows]


def degree_of(tx: Transaction, tenant_id: str, entity_id: str) -> int:
    """Count the other entities that share a turn or a relation with this one."""
    row = tx.fetch_one(
        "SELECT COUNT(*) AS degree FROM (SELECT o.entity_id FROM entity_mentions m JOIN entity_mentions o "
        "ON o.tenant_id = m.tenant_id AND o.group_id = m.group_id AND o.seq = m.seq AND o.entity_id <> m.entity_id "
        "WHERE m.tenant_id = :tenant AND m.entity_id = :id "
        "UNION SELECT object_id FROM entity_facts WHERE tenant_id = :tenant AND entity_id = :id "
        "AND object_id IS NOT NULL AND object_id <> :id "
        "UNION SELECT entity_id FROM entity_facts WHERE tenant_id = :tenant AND object_id = :id "
        "AND entity_id <> :id) AS near",
        tenant=tenant_id,
        id=entity_id,
    )
    assert row is not None
    return row["degree"]
