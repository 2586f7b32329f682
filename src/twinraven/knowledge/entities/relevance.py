"""Says how relevant an entity is to a path of a dialogue now, from 0 to 1, and why.

Each turn of the path that mentions an entity adds to its relevance, the more the later the turn is; a turn without it
lets it fall. An entity that a person made or put into the conversation keeps a floor. Only the turns of the path count:
what another alternative mentions has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from twinraven.foundation.clock import from_micros
from twinraven.knowledge.entities.mentions_sql import mentions_in
from twinraven.knowledge.entities.model import KnownEntity, TemporalFact
from twinraven.knowledge.entities.sql import entities_by_id, facts_of, places_of
from twinraven.storage import Row, Transaction

_FRESH: Final = 0.6
_FADES: Final = 0.88
_FLOOR: Final = 0.5
_LEAST: Final = 0.02
DEFAULT_PLACE: Final = {"is_active": 1, "include_summary": 1, "include_facets": 0, "include_relationships": 0}


@dataclass(frozen=True, slots=True)
class ActiveEntity:
    """An entity in a conversation, how relevant it is and what of it is included."""

    entity: KnownEntity
    relevance: float
    why: str
    added_at: datetime
    include_summary: bool
    include_facets: bool
    include_relationships: bool
    facts: tuple[TemporalFact, ...] = ()
    """Those that hold now, where relationships are included."""

    def as_json(self) -> dict[str, Any]:
        return {
            **self.entity.as_json(),
            "relevance": self.relevance,
            "why": self.why,
            "include_summary": self.include_summary,
            "include_facets": self.include_facets,
            "include_relationships": self.include_relationships,
        }


def active_entities(
    tx: Transaction, tenant_id: str, group_id: str, episode_ids: Sequence[str], *, limit: int = 50
) -> list[ActiveEntity]:
    """Return the entities of a path of episodes (the oldest first), the most relevant first."""
    ages = {episode_id: len(episode_ids) - 1 - place for place, episode_id in enumerate(episode_ids)}
    mentioned: dict[str, list[int]] = {}
    for entity_id, episode_id in mentions_in(tx, tenant_id, list(ages)):
        mentioned.setdefault(entity_id, []).append(ages[episode_id])
    places = {row["entity_id"]: row for row in places_of(tx, tenant_id, group_id)}
    known = entities_by_id(tx, tenant_id, [*mentioned, *(each for each in places if each not in mentioned)])
    found: list[ActiveEntity] = []
    for entity in known:
        place: Row = places.get(entity.entity_id, {**DEFAULT_PLACE, "added_at": None})
        if place["is_active"]:
            made = _active(entity, sorted(mentioned.get(entity.entity_id, [])), place)
            if made.relevance >= _LEAST:
                found.append(made)
    found.sort(key=lambda each: (-each.relevance, each.entity.name, each.entity.entity_id))
    return [_with_facts(tx, tenant_id, each) for each in found[:limit]]


def relevance_of(ages: Sequence[int], *, is_kept: bool) -> float:
    """From how many turns ago each mention is; `is_kept` where a person put the entity there."""
    missing = 1.0
    for age in ages:
        missing *= 1 - _FRESH * _FADES**age
    share = 1 - missing
    return round(max(share, _FLOOR) if is_kept else share, 4)


def _active(entity: KnownEntity, ages: Sequence[int], place: Row) -> ActiveEntity:
    is_kept = place["added_at"] is not None
    reasons: list[str] = []
    if ages:
        times = "turn" if len(ages) == 1 else "turns"
        last = "in the last one" if ages[0] == 0 else f"{ages[0]} turns ago" if ages[0] > 1 else "one turn ago"
        reasons.append(f"mentioned in {len(ages)} {times}, last {last}")
    if is_kept:
        reasons.append("put here by a person")
    return ActiveEntity(
        entity,
        relevance_of(ages, is_kept=is_kept),
        "; ".join(reasons),
        entity.created_at if place["added_at"] is None else from_micros(place["added_at"]),
        bool(place["include_summary"]),
        bool(place["include_facets"]),
        bool(place["include_relationships"]),
    )


def _with_facts(tx: Transaction, tenant_id: str, active: ActiveEntity) -> ActiveEntity:
    if not active.include_relationships:
        return active
    held = tuple(each for each in facts_of(tx, tenant_id, active.entity.entity_id) if each.invalid_at is None)
    return ActiveEntity(
        active.entity, active.relevance, active.why, active.added_at, active.include_summary, active.include_facets,
        include_relationships=True, facts=held,
    )  # fmt: skip
