"""Stores entities, mentions and facts in SQL, the same for both databases."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from twinraven.foundation.clock import from_micros
from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.model import EntitySource, InferredBy, KnownEntity, TemporalFact
from twinraven.knowledge.entities.names import name_key
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.knowledge.sql import listed_values, moment
from twinraven.storage import Row, Transaction, chunks

_ENTITY: Final = (
    "tenant_id", "entity_id", "group_id", "name", "name_key", "category", "summary", "inferred_by", "confidence",
    "facets", "aliases", "created_by", "created_at",
)  # fmt: skip
_SHOWN: Final = (
    "e.entity_id, e.group_id, e.name, e.category, e.summary, e.inferred_by, e.confidence, e.facets, e.aliases, "
    "e.created_by, e.created_at, e.merged_into, e.enrichment, e.enriched_at, e.enriched_by, "
    "(SELECT COUNT(*) FROM entity_mentions m WHERE m.tenant_id = e.tenant_id AND m.entity_id = e.entity_id) AS mentions"
)
_FACT: Final = (
    "tenant_id", "fact_id", "entity_id", "relation", "value", "object_id", "is_single", "valid_at", "invalid_at",
    "ended_by", "source", "confidence", "group_id", "seq", "created_at",
)  # fmt: skip
_PLACE: Final = (
    "tenant_id", "entity_id", "group_id", "is_active", "include_summary", "include_facets", "include_relationships",
    "added_at",
)  # fmt: skip
_MOST_HOPS: Final = 64


def insert_entities(tx: Transaction, tenant_id: str, entities: Sequence[KnownEntity], *, at: int) -> None:
    rows = [
        (
            tenant_id, each.entity_id, each.group_id, each.name, name_key(each.name), each.category, each.summary,
            each.inferred_by, json.dumps(dict(each.confidence)), json.dumps(dict(each.facets)),
            json.dumps(list(each.aliases)), each.created_by, at,
        )
        for each in entities
    ]  # fmt: skip
    tx.insert_rows("entities", _ENTITY, rows)


def ids_of_keys(tx: Transaction, tenant_id: str, group_id: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the entity of a group that each of these names stands for.

    A merged name leads to the one that was kept.
    """
    found: dict[str, str] = {}
    for some in chunks(keys, 400):
        names, values = listed_values(some)
        rows = tx.fetch_all(
            f"SELECT name_key, entity_id, merged_into FROM entities WHERE tenant_id = :tenant AND group_id = :group "
            f"AND name_key IN ({names}) ORDER BY CASE WHEN inferred_by = 'user' THEN 1 ELSE 0 END, created_at DESC",
            tenant=tenant_id,
            group=group_id,
            **values,
        )
        # Later rows win: a user's entity, else the oldest.
        found.update((row["name_key"], row["merged_into"] or row["entity_id"]) for row in rows)
    return found


def entity_row(tx: Transaction, tenant_id: str, entity_id: str) -> KnownEntity | None:
    """Return one entity as it stands, also one that was merged away."""
    row = tx.fetch_one(
        f"SELECT {_SHOWN} FROM entities e WHERE e.tenant_id = :tenant AND e.entity_id = :id",
        tenant=tenant_id,
        id=entity_id,
    )
    return None if row is None else to_entity(row)


def surviving(tx: Transaction, tenant_id: str, entity_id: str) -> KnownEntity | None:
    """Return an entity, or the one that it was merged into."""
    found = entity_row(tx, tenant_id, entity_id)
    for _ in range(_MOST_HOPS):
        if found is None or found.merged_into is None:
            break
        found = entity_row(tx, tenant_id, found.merged_into)
    return found


def list_entities(
    tx: Transaction,
    tenant_id: str,
    *,
    group_id: str | None,
    category: str | None,
    text: str | None,
    limit: int,
    after: str | None,
    hidden: HiddenGroups | None = None,
) -> list[KnownEntity]:
    """Entities that were not merged away, by id."""
    tests: dict[str, tuple[str, Any]] = {
        "group": ("e.group_id = :group", group_id),
        "category": ("e.category = :category", category),
        "text": ("lower(e.name) LIKE :text", None if text is None else f"%{text.lower()}%"),
        "after": ("e.entity_id > :after", after),
    }
    chosen = {name: test for name, test in tests.items() if test[1] is not None}
    where = "".join(f" AND {test}" for test, _ in chosen.values())
    where += "" if hidden is None else hidden.condition("e.group_id")
    rows = tx.fetch_all(
        f"SELECT {_SHOWN} FROM entities e WHERE e.tenant_id = :tenant AND e.merged_into IS NULL{where} "
        "ORDER BY e.entity_id LIMIT :limit",
        tenant=tenant_id,
        limit=limit,
        **({} if hidden is None else hidden.values),
        **{name: value for name, (_, value) in chosen.items()},
    )
    return [to_entity(row) for row in rows]


def sources_of(
    tx: Transaction, tenant_id: str, entity: KnownEntity, *, hidden: HiddenGroups | None = None
) -> list[EntitySource]:
    """Return the creator of an entity, and every episode that mentions it."""
    where, values = ("", {}) if hidden is None else (hidden.condition("m.group_id"), hidden.values)
    rows = tx.fetch_all(
        "SELECT m.original_name, m.source, m.confidence, m.group_id, e.name FROM entity_mentions m "
        "JOIN episodes e ON e.tenant_id = m.tenant_id AND e.group_id = m.group_id AND e.seq = m.seq "
        f"WHERE m.tenant_id = :tenant AND m.entity_id = :id{where} ORDER BY m.group_id, m.seq",
        tenant=tenant_id,
        id=entity.entity_id,
        **values,
    )
    made = [
        EntitySource("user", row["name"], 1.0, created_by=row["created_by"])
        for row in tx.fetch_all(
            "SELECT name, created_by FROM entities WHERE tenant_id = :tenant AND inferred_by = 'user' "
            "AND (entity_id = :id OR merged_into = :id) ORDER BY created_at",
            tenant=tenant_id,
            id=entity.entity_id,
        )
    ]
    return made + [
        EntitySource(row["source"], row["original_name"], row["confidence"] / 100, row["group_id"], row["name"])
        for row in rows
    ]


def facts_of(tx: Transaction, tenant_id: str, entity_id: str) -> list[TemporalFact]:
    """Return every fact of an entity, also those that have ended, and those that name it."""
    rows = tx.fetch_all(
        "SELECT f.*, e.name AS episode FROM entity_facts f LEFT JOIN episodes e ON e.tenant_id = f.tenant_id "
        "AND e.group_id = f.group_id AND e.seq = f.seq "
        "WHERE f.tenant_id = :tenant AND (f.entity_id = :id OR f.object_id = :id) "
        "ORDER BY f.valid_at, f.created_at, f.fact_id",
        tenant=tenant_id,
        id=entity_id,
    )
    return [to_fact(row) for row in rows]


def facts_like(tx: Transaction, tenant_id: str, entity_id: str, relation: str) -> list[Row]:
    return tx.fetch_all(
        "SELECT * FROM entity_facts WHERE tenant_id = :tenant AND entity_id = :id AND relation = :relation",
        tenant=tenant_id,
        id=entity_id,
        relation=relation,
    )


def insert_fact(tx: Transaction, tenant_id: str, fact: TemporalFact, *, is_single: bool, place: Row, at: int) -> None:
    """`place` is the episode's group_id and seq, where the fact was said in one."""
    row = (
        tenant_id, fact.fact_id, fact.entity_id, fact.relation, fact.value, fact.object_id, int(is_single),
        place.get("valid_at"), place.get("invalid_at"), fact.ended_by, fact.source, round(fact.confidence * 100),
        place.get("group_id"), place.get("seq"), at,
    )  # fmt: skip
    tx.insert_rows("entity_facts", _FACT, [row])


def end_fact(tx: Transaction, tenant_id: str, fact_id: str, *, at: int, by: str) -> None:
    tx.execute(
        "UPDATE entity_facts SET invalid_at = :at, ended_by = :by WHERE tenant_id = :tenant AND fact_id = :id",
        tenant=tenant_id,
        id=fact_id,
        at=at,
        by=by,
    )


def entity_count(tx: Transaction, tenant_id: str, group_id: str) -> int:
    row = tx.fetch_one(
        "SELECT COUNT(*) AS known FROM entities WHERE tenant_id = :tenant AND group_id = :group "
        "AND merged_into IS NULL",
        tenant=tenant_id,
        group=group_id,
    )
    assert row is not None
    return row["known"]


def turns_naming(tx: Transaction, tenant_id: str, entity: KnownEntity, *, limit: int) -> list[tuple[str | None, str]]:
    """Return the turns that mention an entity, and those of its group that have its name without being counted."""
    rows = tx.fetch_all(
        "SELECT speaker, content, created_at FROM episodes e WHERE e.tenant_id = :tenant AND (EXISTS (SELECT 1 FROM "
        "entity_mentions m WHERE m.tenant_id = e.tenant_id AND m.entity_id = :id AND m.group_id = e.group_id "
        "AND m.seq = e.seq) OR (e.group_id = :group AND lower(e.content) LIKE :name)) "
        "ORDER BY e.created_at DESC, e.group_id, e.seq DESC LIMIT :limit",
        tenant=tenant_id,
        id=entity.entity_id,
        group=entity.group_id,
        name=f"%{entity.name.lower()}%",
        limit=limit,
    )
    return [(row["speaker"], row["content"]) for row in rows]


def save_enrichment(tx: Transaction, tenant_id: str, entity_id: str, values: Row, *, at: int) -> None:
    """Write what enrichment found; the caller only adds."""
    tx.execute(
        "UPDATE entities SET summary = :summary, category = :category, facets = :facets, confidence = :confidence, "
        "enrichment = :enrichment, enriched_by = :enriched_by, enriched_at = :at "
        "WHERE tenant_id = :tenant AND entity_id = :id",
        tenant=tenant_id,
        id=entity_id,
        at=at,
        **values,
    )


def entities_by_id(tx: Transaction, tenant_id: str, entity_ids: Sequence[str]) -> list[KnownEntity]:
    """Return those of these entities that were not merged away."""
    found: list[KnownEntity] = []
    for some in chunks(entity_ids, 400):
        names, values = listed_values(some)
        rows = tx.fetch_all(
            f"SELECT {_SHOWN} FROM entities e WHERE e.tenant_id = :tenant AND e.merged_into IS NULL "
            f"AND e.entity_id IN ({names})",
            tenant=tenant_id,
            **values,
        )
        found += [to_entity(row) for row in rows]
    return found


def places_of(tx: Transaction, tenant_id: str, group_id: str) -> list[Row]:
    """Return how entities were placed in a conversation by a person."""
    return tx.fetch_all(
        "SELECT p.entity_id, p.is_active, p.include_summary, p.include_facets, p.include_relationships, p.added_at "
        "FROM entity_places p WHERE p.tenant_id = :tenant AND p.group_id = :group",
        tenant=tenant_id,
        group=group_id,
    )


def places_of_entity(tx: Transaction, tenant_id: str, entity_id: str) -> list[Row]:
    """Return the conversations that an entity was put into."""
    return tx.fetch_all(
        "SELECT group_id FROM entity_places WHERE tenant_id = :tenant AND entity_id = :id",
        tenant=tenant_id,
        id=entity_id,
    )


def restore_places(tx: Transaction, tenant_id: str, kept_id: str, gone_id: str, record: Row) -> None:
    """Give an entity the places back that a merge moved; records from before there were any hold none."""
    for row in record.get("places", ()):
        if row["group_id"] not in record["kept_places"]:
            tx.execute(
                "DELETE FROM entity_places WHERE tenant_id = :tenant AND entity_id = :id AND group_id = :group",
                tenant=tenant_id,
                id=kept_id,
                group=row["group_id"],
            )
        tx.insert_missing("entity_places", _PLACE, [(tenant_id, gone_id, *row.values())])


def put_place(tx: Transaction, tenant_id: str, group_id: str, entity_id: str, flags: Row, *, at: int) -> None:
    tx.execute(
        "INSERT INTO entity_places (tenant_id, group_id, entity_id, is_active, include_summary, include_facets, "
        "include_relationships, added_at) VALUES (:tenant, :group, :id, :is_active, :include_summary, "
        ":include_facets, :include_relationships, :at) ON CONFLICT (tenant_id, group_id, entity_id) DO UPDATE SET "
        "is_active = excluded.is_active, include_summary = excluded.include_summary, "
        "include_facets = excluded.include_facets, include_relationships = excluded.include_relationships",
        tenant=tenant_id,
        group=group_id,
        id=entity_id,
        at=at,
        **{name: int(value) for name, value in flags.items()},
    )


def move_places(tx: Transaction, tenant_id: str, from_id: str, to_id: str) -> list[Row]:
    """Let the places of one entity be another's, and say which moved; where both have one, the other's stands."""
    rows = tx.fetch_all(
        "SELECT group_id, is_active, include_summary, include_facets, include_relationships, added_at "
        "FROM entity_places WHERE tenant_id = :tenant AND entity_id = :id",
        tenant=tenant_id,
        id=from_id,
    )
    tx.insert_missing("entity_places", _PLACE, [(tenant_id, to_id, *row.values()) for row in rows])
    tx.execute("DELETE FROM entity_places WHERE tenant_id = :tenant AND entity_id = :id", tenant=tenant_id, id=from_id)
    return rows


def new_entity(
    group_id: str, name: str, category: str | None, confidence: float, at: int, *, by: InferredBy
) -> KnownEntity:
    """Return an entity that an extractor found."""
    return KnownEntity(
        new_id(), group_id, name, category, "", by, {"category": confidence}, {}, (), None, from_micros(at), None
    )


def to_entity(row: Row) -> KnownEntity:
    return KnownEntity(
        entity_id=row["entity_id"],
        group_id=row["group_id"],
        name=row["name"],
        category=row["category"],
        summary=row["summary"],
        inferred_by=row["inferred_by"],
        confidence=json.loads(row["confidence"]),
        facets=json.loads(row["facets"]),
        aliases=tuple(json.loads(row["aliases"])),
        created_by=row["created_by"],
        created_at=from_micros(row["created_at"]),
        merged_into=row["merged_into"],
        mentions=row["mentions"],
        enrichment=None if row["enrichment"] is None else json.loads(row["enrichment"]),
        enriched_at=moment(row["enriched_at"]),
        enriched_by=row["enriched_by"],
    )


def to_fact(row: Row) -> TemporalFact:
    return TemporalFact(
        fact_id=row["fact_id"],
        entity_id=row["entity_id"],
        relation=row["relation"],
        value=row["value"],
        object_id=row["object_id"],
        valid_at=moment(row["valid_at"]),
        invalid_at=moment(row["invalid_at"]),
        ended_by=row["ended_by"],
        source=row["source"],
        confidence=row["confidence"] / 100,
        group_id=row["group_id"],
        episode=row["episode"],
    )


def keys_of(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name_key(name) for name in names))
