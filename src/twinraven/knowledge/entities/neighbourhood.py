"""Explores what stands around an entity: who shares its turns, how it is related, and how central it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinraven.knowledge.entities.mentions_sql import beside, degree_of
from twinraven.knowledge.entities.model import KnownEntity, TemporalFact
from twinraven.knowledge.entities.sql import entity_count, facts_of
from twinraven.storage import Transaction

_MOST_BESIDE = 12


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entity that stands in the same turns."""

    entity_id: str
    name: str
    shared_turns: int

    def as_json(self) -> dict[str, Any]:
        return {"entity_id": self.entity_id, "name": self.name, "shared_turns": self.shared_turns}


@dataclass(frozen=True, slots=True)
class EntityNeighbourhood:
    """The neighbourhood of an entity."""

    entity_id: str
    neighbours: tuple[Neighbour, ...]
    relations: tuple[TemporalFact, ...]
    degree: int
    """How many entities share a turn or a relation with it."""
    centrality: float
    """The degree beside the most that is possible in its group, 0 to 1."""

    def as_json(self) -> dict[str, Any]:
        return {
            "entity_id": self.entity_id,
            "neighbours": [each.as_json() for each in self.neighbours],
            "relations": [each.as_json() for each in self.relations],
            "degree": self.degree,
            "centrality": self.centrality,
        }

    def in_words(self) -> str:
        near = ", ".join(f"{each.name} ({each.shared_turns})" for each in self.neighbours)
        facts = "; ".join(_in_words(each) for each in self.relations)
        return f"Beside it: {near or 'nobody'}. Relations: {facts or 'none'}."


def _in_words(fact: TemporalFact) -> str:
    """Return a relation with the time from and until which it held: what is over must not be taken for the present."""
    since = "" if fact.valid_at is None else f" since {fact.valid_at:%Y-%m-%d}"
    until = "" if fact.invalid_at is None else f" until {fact.invalid_at:%Y-%m-%d}"
    return f"{fact.relation.replace('_', ' ')}: {fact.value}{since}{until}"


def explore(tx: Transaction, tenant_id: str, entity: KnownEntity) -> EntityNeighbourhood:
    """Return the neighbourhood of an entity as the episodes have it now."""
    near = beside(tx, tenant_id, entity.entity_id, _MOST_BESIDE)
    relations = [each for each in facts_of(tx, tenant_id, entity.entity_id) if each.object_id is not None]
    degree = degree_of(tx, tenant_id, entity.entity_id)
    others = max(1, entity_count(tx, tenant_id, entity.group_id) - 1)
    return EntityNeighbourhood(
        entity.entity_id,
        tuple(Neighbour(*each) for each in near),
        tuple(relations),
        degree,
        round(min(1.0, degree / others), 4),
    )
