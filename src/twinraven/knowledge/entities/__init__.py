"""Keeps entities: the people, places and things that episodes mention, their temporal facts and merges."""

from __future__ import annotations

from twinraven.knowledge.entities.enrichment import DEFAULT_EDGES, ENRICH_WORK, Enrichment
from twinraven.knowledge.entities.mentions import store_mentions
from twinraven.knowledge.entities.model import (
    CATEGORIES,
    EntityDetails,
    EntityMerge,
    KnownEntity,
    MergeProposal,
    TemporalFact,
)
from twinraven.knowledge.entities.neighbourhood import EntityNeighbourhood, Neighbour
from twinraven.knowledge.entities.relevance import ActiveEntity, active_entities
from twinraven.knowledge.entities.service import DEFAULT_GROUP, Entities

__all__ = [
    "CATEGORIES",
    "DEFAULT_EDGES",
    "DEFAULT_GROUP",
    "ENRICH_WORK",
    "ActiveEntity",
    "Enrichment",
    "Entities",
    "EntityDetails",
    "EntityMerge",
    "EntityNeighbourhood",
    "KnownEntity",
    "MergeProposal",
    "Neighbour",
    "TemporalFact",
    "active_entities",
    "store_mentions",
]
