"""Stores what the rules of extraction find in new turns: entities, mentions, and facts that end earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.extraction import (
    MACHINES,
    FoundEntity,
    FoundFact,
    find_entities,
    find_facts,
)
from twinraven.knowledge.entities.model import KnownEntity, TemporalFact
from twinraven.knowledge.entities.names import name_key
from twinraven.knowledge.entities.sql import (
    end_fact,
    facts_like,
    ids_of_keys,
    insert_entities,
    insert_fact,
    insert_mentions,
    keys_of,
    new_entity,
)
from twinraven.knowledge.ingestion import StoredPart
from twinraven.storage import Row, Transaction


def store_mentions(
    tx: Transaction, tenant_id: str, group_id: str, parts: Sequence[StoredPart], *, at: int
) -> Sequence[str]:
    """Extract from each part, in the transaction that stored it; says which entities are mentioned."""
    read = [(part, find_entities(part.text, part.speaker), list(find_facts(part.text))) for part in parts]
    names = [found.name for _, entities, _ in read for found in entities]
    values = [fact.value for _, _, facts in read for fact in facts if fact.names_entity]
    ids = ids_of_keys(tx, tenant_id, group_id, keys_of([*names, *values]))
    fresh: dict[str, KnownEntity] = {}
    for found in [each for _, entities, _ in read for each in entities] + [FoundEntity(v, None, 0.5) for v in values]:
        key = name_key(found.name)
        if key not in ids:
            fresh[key] = new_entity(group_id, found.name, found.category, found.confidence, at)
            ids[key] = fresh[key].entity_id
    insert_entities(tx, tenant_id, list(fresh.values()), at=at)
    mentions = _mention_rows(tenant_id, group_id, read, ids)
    insert_mentions(tx, mentions)
    for part, _, facts in read:
        for fact in facts if part.speaker is not None and part.speaker.lower() not in MACHINES else ():
            place: Row = {
                "group_id": group_id,
                "seq": part.seq,
                "valid_at": part.valid_at if part.valid_at is not None else at,
            }
            state_fact(tx, tenant_id, _to_fact(fact, part, ids), place, is_single=fact.is_single, at=at)
    return list(dict.fromkeys(row[1] for row in mentions))


def _mention_rows(
    tenant_id: str,
    group_id: str,
    read: Sequence[tuple[StoredPart, list[FoundEntity], list[FoundFact]]],
    ids: dict[str, str],
) -> list[tuple[Any, ...]]:
    return [
        (tenant_id, ids[name_key(found.name)], group_id, part.seq, found.name, "rules", round(found.confidence * 100))
        for part, entities, _ in read
        for found in entities
        # The speaker is known from the turn itself; only those spoken of are mentions.
        if found.name != part.speaker
    ]


def _to_fact(fact: FoundFact, part: StoredPart, ids: dict[str, str]) -> TemporalFact:
    entity_id = ids[name_key(str(part.speaker))]
    object_id = ids.get(name_key(fact.value)) if fact.names_entity else None
    return TemporalFact(
        new_id(), entity_id, fact.relation, fact.value, object_id, None, None, None, "rules", fact.confidence
    )


def state_fact(tx: Transaction, tenant_id: str, fact: TemporalFact, place: Row, *, is_single: bool, at: int) -> bool:
    """Store a fact; of a relation that can hold one value at a time, it ends the one before and ends at the next."""
    known = facts_like(tx, tenant_id, fact.entity_id, fact.relation)
    begins: int = place["valid_at"]
    ends: int | None = None
    if any(row["value"] == fact.value and _holds(row, begins) for row in known):
        return False
    if is_single:
        for row in known:
            if row["valid_at"] <= begins and (row["invalid_at"] is None or row["invalid_at"] > begins):
                ends = row["invalid_at"]
                end_fact(tx, tenant_id, row["fact_id"], at=begins, by=fact.fact_id)
        later = [row["valid_at"] for row in known if row["valid_at"] > begins]
        ends = min([*later, *([ends] if ends is not None else [])], default=None)
    insert_fact(tx, tenant_id, fact, is_single=is_single, place={**place, "invalid_at": ends}, at=at)
    return True


def _holds(row: Row, moment: int) -> bool:
    return row["valid_at"] <= moment and (row["invalid_at"] is None or row["invalid_at"] > moment)
