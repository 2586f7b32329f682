"""Keeps knowledge: episodes, full-text search without a model, summaries, and the entities they mention.

Episodes are turns of a dialogue, or any text, in groups; they never change. A search ranks them by words and by rules
that a hit can state as its reasons. Entities are the people, places and things that episodes mention. Summaries stand
for parts of a dialogue, introspection notes for what an agent keeps in mind of a user.

Names are resolved on first use: whoever only searches does not load what compresses and reflects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.knowledge.access import GroupAccess, no_group
    from twinraven.knowledge.embedding import Embedder, installed_embedder
    from twinraven.knowledge.entities import (
        CATEGORIES,
        DEFAULT_EDGES,
        DEFAULT_GROUP,
        ENRICH_WORK,
        ActiveEntity,
        Enrichment,
        Entities,
        EntityDetails,
        EntityMerge,
        EntityNeighbourhood,
        KnownEntity,
        MergeProposal,
        Neighbour,
        TemporalFact,
        active_entities,
    )
    from twinraven.knowledge.entities.extractor import Extraction, Extractor, FoundEntity, FoundFact
    from twinraven.knowledge.entities.model_extraction import ModelExtractor
    from twinraven.knowledge.entities.spacy_extraction import SpacyExtractor, has_pipeline
    from twinraven.knowledge.extracting import EXTRACT_RUN, EXTRACT_WORK, BackgroundExtraction
    from twinraven.knowledge.graph import (
        GRAPH_WORK,
        GraphContent,
        GraphEntity,
        GraphFact,
        GraphFind,
        GraphitiGraph,
        GraphProgress,
        KnowledgeGraph,
    )
    from twinraven.knowledge.introspection import (
        REFLECT_PROCESS,
        CarouselRules,
        Introspection,
        Introspections,
        Reflection,
        list_notes,
    )
    from twinraven.knowledge.line_files import EpisodeImport, QuestionLine, read_questions
    from twinraven.knowledge.memory_tools import MemoryTools
    from twinraven.knowledge.model import (
        DEFAULT_SOURCE,
        Episode,
        EpisodeFilter,
        Hit,
        Ingestion,
        NewEpisode,
    )
    from twinraven.knowledge.moments import parse_moment
    from twinraven.knowledge.privacy import HiddenGroups, note_group
    from twinraven.knowledge.service import Knowledge
    from twinraven.knowledge.settings import KnowledgeSettings
    from twinraven.knowledge.summaries import (
        COMPRESS_PROCESS,
        Compression,
        CompressionRequest,
        ContentBinding,
        Summaries,
        Summary,
        list_summaries,
    )
    from twinraven.knowledge.thinking import LanguageModel, ModelReply, PreparedProcess, estimate_tokens
    from twinraven.knowledge.thinking_tools import COMPRESS_TOOL, REFLECT_TOOL, ThinkingConnector, ThinkingEntries

__all__ = [
    "CATEGORIES",
    "COMPRESS_PROCESS",
    "COMPRESS_TOOL",
    "DEFAULT_EDGES",
    "DEFAULT_GROUP",
    "DEFAULT_SOURCE",
    "ENRICH_WORK",
    "EXTRACT_RUN",
    "EXTRACT_WORK",
    "GRAPH_WORK",
    "REFLECT_PROCESS",
    "REFLECT_TOOL",
    "ActiveEntity",
    "BackgroundExtraction",
    "CarouselRules",
    "Compression",
    "CompressionRequest",
    "ContentBinding",
    "Embedder",
    "Enrichment",
    "Entities",
    "EntityDetails",
    "EntityMerge",
    "EntityNeighbourhood",
    "Episode",
    "EpisodeFilter",
    "EpisodeImport",
    "Extraction",
    "Extractor",
    "FoundEntity",
    "FoundFact",
    "GraphContent",
    "GraphEntity",
    "GraphFact",
    "GraphFind",
    "GraphProgress",
    "GraphitiGraph",
    "GroupAccess",
    "HiddenGroups",
    "Hit",
    "Ingestion",
    "Introspection",
    "Introspections",
    "Knowledge",
    "KnowledgeGraph",
    "KnowledgeSettings",
    "KnownEntity",
    "LanguageModel",
    "MemoryTools",
    "MergeProposal",
    "ModelExtractor",
    "ModelReply",
    "Neighbour",
    "NewEpisode",
    "PreparedProcess",
    "QuestionLine",
    "Reflection",
    "SpacyExtractor",
    "Summaries",
    "Summary",
    "TemporalFact",
    "ThinkingConnector",
    "ThinkingEntries",
    "active_entities",
    "estimate_tokens",
    "has_pipeline",
    "installed_embedder",
    "list_notes",
    "list_summaries",
    "no_group",
    "note_group",
    "parse_moment",
    "read_questions",
]


__getattr__ = lazy_names(__name__)
