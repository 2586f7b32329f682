"""Stores what extraction finds in turns: entities, mentions, and facts that end earlier ones.

Every extractor writes through here. What is known already stays: a find of higher confidence raises a mention and the
category of an entity that nobody made by hand, and a fact that holds is not stated twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.extraction import read_by_rules
from twinraven.knowledge.entities.extractor import Extraction, FoundEntity, FoundFact, is_person
from twinraven.knowledge.entities.mentions_sql import (
    Mention,
    insert_mentions,
    raise_categories,
    raise_mentions,
)
from twinraven.knowledge.entities.model import InferredBy, KnownEntity, TemporalFact
from twinraven.knowledge.entities.names import name_key
from twinraven.knowledge.entities.sql import (
    end_fact,
    facts_like,
    ids_of_keys,
    insert_entities,
    insert_fact,
    keys_of,
    new_entity,
)
from twinraven.knowledge.ingestion import StoredPart
from twinraven.storage import Row, Transaction

Read = Sequence[tuple[StoredPart, Extraction]]
"""Turns, each with what was found in it."""

_VALUE_CONFIDENCE = 0.5
"""Of an entity that is known only as the subject or the value of a fact."""


def store_mentions(
    tx: Transaction, tenant_id: str, group_id: str, parts: Sequence[StoredPart], *, at: int
) -> Sequence[str]:
    """Extract from each part by rules, in the transaction that stored it; says which entities are mentioned."""
    return store_found(tx, tenant_id, group_id, [(part, read_by_rules(part)) for part in parts], by="rules", at=at)


def store_found(
    tx: Transaction, tenant_id: str, group_id: str, read: Read, *, by: InferredBy, at: int
) -> Sequence[str]:
    """Store what an extractor found in turns of a group; says which entities are mentioned in them."""
    every = [each for _, extraction in read for each in extraction.entities] + _only_in_facts(read)
    if not every:
        return []
    ids = ids_of_keys(tx, tenant_id, group_id, keys_of(each.name for each in every))
    known = set(ids)
    fresh: dict[str, KnownEntity] = {}
    for each in every:
        key = name_key(each.name)
        if key not in ids:
            fresh[key] = new_entity(group_id, each.name, each.category, each.confidence, at, by=by)
            ids[key] = fresh[key].entity_id
    insert_entities(tx, tenant_id, list(fresh.values()), at=at)
    mentions = _mentions(read, ids, by)
    if by == "rules":
        insert_mentions(tx, tenant_id, group_id, mentions)
    else:
        raise_mentions(tx, tenant_id, group_id, mentions)
        stated = [(ids[key], each) for each in every if (key := name_key(each.name)) in known]
        raise_categories(tx, tenant_id, stated, by=by)
    for part, extraction in read:
        for fact in extraction.facts:
            stated = _to_fact(fact, part, ids, by)
            if stated is not None:
                place = _place(group_id, part, fact, at)
                state_fact(tx, tenant_id, stated, place, is_single=fact.is_single, at=at)
    return list(dict.fromkeys(mention.entity_id for mention in mentions))


def _only_in_facts(read: Read) -> list[FoundEntity]:
    facts = [fact for _, extraction in read for fact in extraction.facts]
    names = [fact.subject for fact in facts if fact.subject is not None]
    names += [fact.value for fact in facts if fact.names_entity]
    return [FoundEntity(name, None, _VALUE_CONFIDENCE) for name in names]


def _mentions(read: Read, ids: dict[str, str], by: InferredBy) -> list[Mention]:
    return [
        Mention(ids[name_key(found.name)], part.seq, found.name, by, found.confidence)
        for part, extraction in read
        for found in extraction.entities
        # The speaker is known from the turn itself; only those spoken of are mentions.
        if found.name != part.speaker
    ]


def _to_fact(fact: FoundFact, part: StoredPart, ids: dict[str, str], by: InferredBy) -> TemporalFact | None:
    """Return the fact as it is stored; None where it has no subject."""
    subject = fact.subject if fact.subject is not None or not is_person(part.speaker) else part.speaker
    about = None if subject is None else ids.get(name_key(subject))
    if about is None:
        return None
    object_id = ids.get(name_key(fact.value)) if fact.names_entity else None
    return TemporalFact(new_id(), about, fact.relation, fact.value, object_id, None, None, None, by, fact.confidence)


def _place(group_id: str, part: StoredPart, fact: FoundFact, at: int) -> Row:
    since = next(each for each in (fact.valid_at, part.valid_at, at) if each is not None)
    return {"group_id": group_id, "seq": part.seq, "valid_at": since}


def state_fact(tx: Transaction, tenant_id: str, fact: TemporalFact, place: Row, *, is_single: bool, at: int) -> bool:
    """Store a fact; of a relation that can hold one value at a time, it ends the one before and ends at the next."""
    known = facts_like(tx, tenant_id, fact.entity_id, fact.relation)
    begins: int = place["valid_at"]
    ends: int | None = None
    if any(_says_the_same(row, fact) and _holds(row, begins) for row in known):
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


def _says_the_same(row: Row, fact: TemporalFact) -> bool:
    """Return whether a known fact has the value of another, in whatever spelling of the name."""
    if row["object_id"] is not None and fact.object_id is not None:
        return row["object_id"] == fact.object_id
    return row["value"] == fact.value or name_key(row["value"]) == name_key(fact.value)


def _holds(row: Row, moment: int) -> bool:
    return row["valid_at"] <= moment and (row["invalid_at"] is None or row["invalid_at"] > moment)
