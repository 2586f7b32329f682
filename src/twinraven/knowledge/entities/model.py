"""Models entities, their temporal facts, and the proposals and records of merging them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput

Category = Literal["Person", "Organization", "Project", "Concept", "Object", "Event", "Place"]
InferredBy = Literal["user", "rules", "spacy", "model", "enrichment_process"]
ProposalStatus = Literal["open", "merged", "rejected"]

CATEGORIES: Final[tuple[str, ...]] = get_args(Category)


@dataclass(frozen=True, slots=True)
class EntitySource:
    """The source of an entity."""

    type: InferredBy
    original_name: str
    confidence: float
    group_id: str | None = None
    episode: str | None = None
    created_by: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "original_name": self.original_name,
            "confidence": self.confidence,
            "group_id": self.group_id,
            "episode": self.episode,
            "created_by": self.created_by,
        }


@dataclass(frozen=True, slots=True)
class TemporalFact:
    """A fact about an entity that held from one time to another; with `object_id` it relates two entities."""

    fact_id: str
    entity_id: str
    relation: str
    value: str
    object_id: str | None
    valid_at: datetime | None
    invalid_at: datetime | None
    ended_by: str | None
    source: str
    confidence: float
    group_id: str | None = None
    episode: str | None = None
    """The group and the name of the episode that says so, where one does."""

    def holds_at(self, moment: datetime) -> bool:
        """Return whether it was true at a time."""
        has_begun = self.valid_at is None or self.valid_at <= moment
        return has_begun and (self.invalid_at is None or self.invalid_at > moment)

    def as_json(self) -> dict[str, Any]:
        return {
            "fact_id": self.fact_id,
            "entity_id": self.entity_id,
            "relation": self.relation,
            "value": self.value,
            "object_id": self.object_id,
            "valid_at": None if self.valid_at is None else iso(self.valid_at),
            "invalid_at": None if self.invalid_at is None else iso(self.invalid_at),
            "ended_by": self.ended_by,
            "source": self.source,
            "confidence": self.confidence,
            "group_id": self.group_id,
            "episode": self.episode,
        }


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """A person, place or thing that a group's episodes are about."""

    entity_id: str
    group_id: str
    name: str
    category: str | None
    summary: str
    inferred_by: InferredBy
    confidence: Mapping[str, Any]
    facets: Mapping[str, list[str]]
    aliases: tuple[str, ...]
    created_by: str | None
    created_at: datetime
    merged_into: str | None
    mentions: int = 0
    enrichment: Mapping[str, Any] | None = None
    enriched_at: datetime | None = None
    enriched_by: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "entity_id": self.entity_id,
            "group_id": self.group_id,
            "name": self.name,
            "category": self.category,
            "summary": self.summary,
            "inferred_by": self.inferred_by,
            "confidence": dict(self.confidence),
            "facets": dict(self.facets),
            "aliases": list(self.aliases),
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "merged_into": self.merged_into,
            "mentions": self.mentions,
            "enrichment": None if self.enrichment is None else dict(self.enrichment),
            "enriched_at": None if self.enriched_at is None else iso(self.enriched_at),
            "enriched_by": self.enriched_by,
        }


@dataclass(frozen=True, slots=True)
class EntityDetails:
    """An entity with all that is known of it."""

    entity: KnownEntity
    sources: tuple[EntitySource, ...] = ()
    facts: tuple[TemporalFact, ...] = ()
    relations: tuple[TemporalFact, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            **self.entity.as_json(),
            "sources": [each.as_json() for each in self.sources],
            "facts": [each.as_json() for each in self.facts],
            "relations": [each.as_json() for each in self.relations],
        }


@dataclass(frozen=True, slots=True)
class MergeProposal:
    """Two entities that may be one, and why."""

    proposal_id: str
    first_id: str
    second_id: str
    first_name: str
    second_name: str
    similarity: float
    evidence: Mapping[str, Any]
    status: ProposalStatus
    created_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "proposal_id": self.proposal_id,
            "first_id": self.first_id,
            "second_id": self.second_id,
            "first_name": self.first_name,
            "second_name": self.second_name,
            "similarity": self.similarity,
            "evidence": dict(self.evidence),
            "status": self.status,
            "created_at": iso(self.created_at),
            "decided_at": None if self.decided_at is None else iso(self.decided_at),
            "decided_by": self.decided_by,
        }


@dataclass(frozen=True, slots=True)
class EntityMerge:
    """A merge that was carried out, and can be undone."""

    merge_id: str
    kept_id: str
    gone_id: str
    merged_at: datetime
    merged_by: str | None
    undone_at: datetime | None = None
    kept_name: str = ""
    gone_name: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "merge_id": self.merge_id,
            "kept_id": self.kept_id,
            "gone_id": self.gone_id,
            "kept_name": self.kept_name,
            "gone_name": self.gone_name,
            "merged_at": iso(self.merged_at),
            "merged_by": self.merged_by,
            "undone_at": None if self.undone_at is None else iso(self.undone_at),
        }


def check_category(value: str | None) -> str | None:
    if value is not None and value not in CATEGORIES:
        raise InvalidInput(f"category {value!r} is none of {', '.join(CATEGORIES)}", field="category")
    return value
