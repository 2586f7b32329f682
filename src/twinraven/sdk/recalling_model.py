"""Models episodes, search hits and entities, as a client reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.sdk.model import JsonObject

Category = Literal["Person", "Organization", "Project", "Concept", "Object", "Event", "Place"]


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """A text that is remembered."""

    episode_id: str
    group_id: str
    name: str
    content: str
    source: str
    created_at: datetime
    session: int
    parts: int = 1
    speaker: str | None = None
    valid_at: datetime | None = None
    source_description: str | None = None


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """An episode that a search found; `why` names the words and the signals."""

    name: str
    group_id: str
    content: str
    score: float
    why: JsonObject
    speaker: str | None = None
    valid_at: datetime | None = None
    neighbours: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityInfo:
    """A person, place or thing; its sources, facts and relations are there where one entity was asked for."""

    entity_id: str
    group_id: str
    name: str
    summary: str
    inferred_by: str
    created_at: datetime
    category: str | None = None
    confidence: JsonObject | None = None
    facets: JsonObject | None = None
    aliases: tuple[str, ...] = ()
    created_by: str | None = None
    mentions: int = 0
    enrichment: JsonObject | None = None
    enriched_at: datetime | None = None
    enriched_by: str | None = None
    sources: tuple[JsonObject, ...] = ()
    facts: tuple[JsonObject, ...] = ()
    relations: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class ActiveEntityInfo:
    """An entity of a conversation, and how relevant it is."""

    entity_id: str
    name: str
    relevance: float
    why: str
    include_summary: bool
    include_facets: bool
    include_relationships: bool
    category: str | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class NeighbourhoodInfo:
    """The neighbourhood of an entity."""

    entity_id: str
    degree: int
    centrality: float
    neighbours: tuple[JsonObject, ...] = ()
    relations: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class FactInfo:
    """A fact about an entity that held from one time to another; with `object_id` it relates two entities."""

    fact_id: str
    entity_id: str
    relation: str
    value: str
    source: str
    confidence: float
    object_id: str | None = None
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    ended_by: str | None = None
    group_id: str | None = None
    episode: str | None = None


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """The content of the knowledge graph for one group."""

    episode_ids: tuple[str, ...] = ()
    entities: tuple[JsonObject, ...] = ()
    facts: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityMergeInfo:
    """A merge of two entities, which can be undone."""

    merge_id: str
    kept_id: str
    gone_id: str
    merged_at: datetime
    merged_by: str | None = None
    undone_at: datetime | None = None
    kept_name: str = ""
    gone_name: str = ""


@dataclass(frozen=True, slots=True)
class EntityProposal:
    """Two entities that may be one."""

    proposal_id: str
    first_id: str
    second_id: str
    first_name: str
    second_name: str
    similarity: float
    evidence: JsonObject
    status: str


@dataclass(frozen=True, slots=True)
class ListBody:
    """A list that comes whole."""

    items: tuple[Any, ...]
