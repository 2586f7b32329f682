"""Merges two entities and undoes it: every reference moves, and the record says what moved."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from itertools import product
from typing import Any

from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.duplicates import PossibleDuplicate, is_certain
from twinraven.knowledge.entities.merges_sql import one_merge
from twinraven.knowledge.entities.model import EntityMerge, KnownEntity, ProposalStatus
from twinraven.knowledge.entities.sql import (
    entity_row,
    move_places,
    places_of_entity,
    restore_places,
    surviving,
)
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.storage import Row, Transaction

PairsOfIds = Container[tuple[str, str]]
_MENTION = ("tenant_id", "entity_id", "group_id", "seq", "original_name", "source", "confidence")


def merge_entities(
    tx: Transaction, tenant_id: str, first_id: str, second_id: str, *, by: str | None, at: int
) -> EntityMerge:
    """Merge the second into the first, or the other way round where only the second is a user's own."""
    kept, gone = _pair(tx, tenant_id, first_id, second_id)
    record: dict[str, Any] = {"kept": _changeable(kept)}
    record["mentions"], record["shared"] = _move_mentions(tx, tenant_id, kept.entity_id, gone.entity_id)
    for column in ("entity_id", "object_id"):
        record[column] = _move_facts(tx, tenant_id, column, kept.entity_id, gone.entity_id)
    record["kept_places"] = [row["group_id"] for row in places_of_entity(tx, tenant_id, kept.entity_id)]
    record["places"] = move_places(tx, tenant_id, gone.entity_id, kept.entity_id)
    record["merged"] = merged_into(tx, tenant_id, gone.entity_id)
    for entity_id in (gone.entity_id, *record["merged"]):
        _point(tx, tenant_id, entity_id, kept.entity_id)
    _change(tx, tenant_id, kept.entity_id, _combined(kept, gone))
    made = EntityMerge(
        new_id(), kept.entity_id, gone.entity_id, from_micros(at), by, kept_name=kept.name, gone_name=gone.name
    )
    columns = ("tenant_id", "merge_id", "kept_id", "gone_id", "record", "merged_at", "merged_by")
    row = (tenant_id, made.merge_id, made.kept_id, made.gone_id, json.dumps(record), at, by)
    tx.insert_rows("entity_merges", columns, [row])
    settle_proposal(tx, tenant_id, (kept.entity_id, gone.entity_id), "merged", by=by, at=at)
    return made


def merge_certain(tx: Transaction, tenant_id: str, pair: PossibleDuplicate, told_apart: PairsOfIds, *, at: int) -> None:
    """Merge a pair unasked, as the two are now: a merge before this one may have made either another.

    Where it did, and where somebody told any of what they are made of apart, a person is asked.
    """
    first, second = (surviving(tx, tenant_id, entity_id) for entity_id in pair.ids)
    if first is None or second is None:
        return
    if first.entity_id == second.entity_id:
        settle_proposal(tx, tenant_id, pair.ids, "merged", by=None, at=at)
        return
    members = [[each.entity_id, *merged_into(tx, tenant_id, each.entity_id)] for each in (first, second)]
    is_apart = any((one, other) in told_apart or (other, one) in told_apart for one, other in product(*members))
    if (first.entity_id, second.entity_id) == pair.ids and is_certain(first, second) and not is_apart:
        merge_entities(tx, tenant_id, pair.first.entity_id, pair.second.entity_id, by=None, at=at)


def merged_into(tx: Transaction, tenant_id: str, entity_id: str) -> list[str]:
    """Return the entities that were merged into one, also by way of others."""
    rows = tx.fetch_all(
        "SELECT entity_id FROM entities WHERE tenant_id = :tenant AND merged_into = :id", tenant=tenant_id, id=entity_id
    )
    return [row["entity_id"] for row in rows]


def undo_merge(
    tx: Transaction, tenant_id: str, merge_id: str, *, at: int, hidden: HiddenGroups | None = None
) -> EntityMerge:
    """Put back what a merge moved; a later merge of the same entity must be undone first."""
    row = _merge_row(tx, tenant_id, merge_id, hidden)
    later = tx.fetch_one(
        "SELECT merge_id FROM entity_merges WHERE tenant_id = :tenant AND undone_at IS NULL AND merge_id <> :id "
        "AND merged_at >= :at AND (kept_id IN (:kept, :gone) OR gone_id IN (:kept, :gone)) "
        "ORDER BY merged_at DESC LIMIT 1",
        tenant=tenant_id,
        id=merge_id,
        at=row["merged_at"],
        kept=row["kept_id"],
        gone=row["gone_id"],
    )
    if later is not None:
        message = f"merge {later['merge_id']} came after this one; undo that first"
        raise Conflict(message, field="merge_id", fix=f"twinraven entities undo {later['merge_id']}")
    record = json.loads(row["record"])
    kept, gone = row["kept_id"], row["gone_id"]
    for group_id, seq in record["mentions"]:
        _readdress(tx, tenant_id, group_id, seq, from_id=kept, to_id=gone)
    tx.insert_rows("entity_mentions", _MENTION, [(tenant_id, gone, *shared) for shared in record["shared"]])
    for column in ("entity_id", "object_id"):
        for fact_id in record[column]:
            _set_fact(tx, tenant_id, column, fact_id, gone)
    restore_places(tx, tenant_id, kept, gone, record)
    _point(tx, tenant_id, gone, None)
    for entity_id in record["merged"]:
        _point(tx, tenant_id, entity_id, gone)
    _change(tx, tenant_id, kept, record["kept"])
    # Whoever undoes a merge says that the two are not one: they are not merged by themselves again.
    settle_proposal(tx, tenant_id, (kept, gone), "rejected", by=None, at=at)
    tx.execute(
        "UPDATE entity_merges SET undone_at = :at WHERE tenant_id = :tenant AND merge_id = :id",
        tenant=tenant_id,
        id=merge_id,
        at=at,
    )
    return one_merge(tx, tenant_id, merge_id)


def _pair(tx: Transaction, tenant_id: str, first_id: str, second_id: str) -> tuple[KnownEntity, KnownEntity]:
    found = [surviving(tx, tenant_id, entity_id) for entity_id in (first_id, second_id)]
    for field, entity_id, entity in zip(("entity_id", "other_id"), (first_id, second_id), found, strict=True):
        if entity is None:
            raise NotFound(f"no entity {entity_id!r}", field=field)
    first, second = found
    assert first is not None
    assert second is not None
    if first.entity_id == second.entity_id:
        raise InvalidInput("an entity cannot be merged with itself; name two", field="other_id")
    if second.inferred_by == "user" and first.inferred_by != "user":
        return second, first
    return first, second


def _changeable(entity: KnownEntity) -> dict[str, Any]:
    return {
        "category": entity.category,
        "summary": entity.summary,
        "confidence": dict(entity.confidence),
        "facets": dict(entity.facets),
        "aliases": list(entity.aliases),
    }


def _combined(kept: KnownEntity, gone: KnownEntity) -> dict[str, Any]:
    """Both entities' summaries, facets and names; where they differ, the kept one's stand first."""
    summaries = [text for text in dict.fromkeys((kept.summary, gone.summary)) if text]
    facets = {name: list(dict.fromkeys([*kept.facets.get(name, []), *gone.facets.get(name, [])]))
              for name in (*kept.facets, *gone.facets)}  # fmt: skip
    aliases = dict.fromkeys([*kept.aliases, gone.name, *gone.aliases])
    aliases.pop(kept.name, None)
    return {
        "category": kept.category or gone.category,
        "summary": " ".join(summaries),
        "confidence": {**gone.confidence, **kept.confidence},
        "facets": facets,
        "aliases": list(aliases),
    }


def _change(tx: Transaction, tenant_id: str, entity_id: str, values: Mapping[str, Any]) -> None:
    tx.execute(
        "UPDATE entities SET category = :category, summary = :summary, confidence = :confidence, facets = :facets, "
        "aliases = :aliases WHERE tenant_id = :tenant AND entity_id = :id",
        tenant=tenant_id,
        id=entity_id,
        category=values["category"],
        summary=values["summary"],
        confidence=json.dumps(values["confidence"]),
        facets=json.dumps(values["facets"]),
        aliases=json.dumps(values["aliases"]),
    )


def _move_mentions(tx: Transaction, tenant_id: str, kept: str, gone: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return what moved, and what both mentioned, which cannot move and is kept in the record."""
    rows = tx.fetch_all(
        "SELECT m.group_id, m.seq, m.original_name, m.source, m.confidence, "
        "(SELECT COUNT(*) FROM entity_mentions k WHERE k.tenant_id = m.tenant_id AND k.entity_id = :kept "
        "AND k.group_id = m.group_id AND k.seq = m.seq) AS shared "
        "FROM entity_mentions m WHERE m.tenant_id = :tenant AND m.entity_id = :gone",
        tenant=tenant_id,
        kept=kept,
        gone=gone,
    )
    shared = [list(row.values())[:5] for row in rows if row["shared"]]
    moved = [[row["group_id"], row["seq"]] for row in rows if not row["shared"]]
    for group_id, seq in moved:
        _readdress(tx, tenant_id, group_id, seq, from_id=gone, to_id=kept)
    tx.execute(
        "DELETE FROM entity_mentions WHERE tenant_id = :tenant AND entity_id = :gone", tenant=tenant_id, gone=gone
    )
    return moved, shared


def _readdress(tx: Transaction, tenant_id: str, group_id: str, seq: int, *, from_id: str, to_id: str) -> None:
    tx.execute(
        "UPDATE entity_mentions SET entity_id = :to_id WHERE tenant_id = :tenant AND entity_id = :from_id "
        "AND group_id = :group AND seq = :seq",
        tenant=tenant_id,
        group=group_id,
        seq=seq,
        from_id=from_id,
        to_id=to_id,
    )


def _move_facts(tx: Transaction, tenant_id: str, column: str, kept: str, gone: str) -> list[str]:
    ids = [
        row["fact_id"]
        for row in tx.fetch_all(
            f"SELECT fact_id FROM entity_facts WHERE tenant_id = :tenant AND {column} = :gone",  # noqa: S608
            tenant=tenant_id,
            gone=gone,
        )
    ]
    for fact_id in ids:
        _set_fact(tx, tenant_id, column, fact_id, kept)
    return ids


def _set_fact(tx: Transaction, tenant_id: str, column: str, fact_id: str, entity_id: str) -> None:
    tx.execute(
        f"UPDATE entity_facts SET {column} = :entity WHERE tenant_id = :tenant AND fact_id = :id",  # noqa: S608
        tenant=tenant_id,
        id=fact_id,
        entity=entity_id,
    )


def _point(tx: Transaction, tenant_id: str, entity_id: str, target: str | None) -> None:
    tx.execute(
        "UPDATE entities SET merged_into = :target WHERE tenant_id = :tenant AND entity_id = :id",
        tenant=tenant_id,
        id=entity_id,
        target=target,
    )


def settle_proposal(
    tx: Transaction, tenant_id: str, pair: tuple[str, str], status: ProposalStatus, *, by: str | None, at: int
) -> int:
    """Decide the proposal about two entities, if there is one."""
    return tx.execute(
        "UPDATE entity_proposals SET status = :status, decided_at = :at, decided_by = :by WHERE tenant_id = :tenant "
        "AND first_id IN (:one, :other) AND second_id IN (:one, :other)",
        tenant=tenant_id,
        one=pair[0],
        other=pair[1],
        status=status,
        at=at,
        by=by,
    )


def _merge_row(tx: Transaction, tenant_id: str, merge_id: str, hidden: HiddenGroups | None) -> Row:
    row = tx.fetch_one(
        "SELECT * FROM entity_merges WHERE tenant_id = :tenant AND merge_id = :id", tenant=tenant_id, id=merge_id
    )
    kept = None if row is None else entity_row(tx, tenant_id, row["kept_id"])
    if row is None or kept is None or (hidden is not None and hidden.holds(tx, tenant_id, kept.group_id)):
        raise NotFound(f"no merge {merge_id!r}", field="merge_id")
    if row["undone_at"] is not None:
        raise Conflict(f"merge {merge_id} is undone already", field="merge_id")
    return row
