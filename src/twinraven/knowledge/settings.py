"""Declares the settings of knowledge: the section `knowledge` of `twinraven.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.foundation.setting_kinds import Choice, Flag, Integer, Number, Text
from twinraven.foundation.settings import setting


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KnowledgeSettings:
    tools: bool = setting(
        False, Flag(), "Offer memory_search, memory_remember and memory_entities to every caller, as built-in tools."
    )
    duplicate_similarity: float = setting(
        0.85, Number(0.5, 1), "How alike two entities must be for a proposal to merge them."
    )
    embedder: str = setting(
        "auto",
        Choice("auto", "off", "installed"),
        "Whether search also compares vectors; auto: where the extra `embeddings` is installed.",
    )
    extraction: str = setting(
        "auto",
        Choice("auto", "rules", "spacy", "model"),
        "What extracts entities and facts besides rules; auto: a spaCy pipeline and a model, where there are any.",
    )
    spacy_pipeline: str = setting(
        "en_core_web_sm",
        Text(),
        "The spaCy pipeline that names entities: an installed one (extra `spacy`) or a folder.",
    )
    graph_url: str | None = setting(
        None,
        Text(optional=True),
        "A graph that holds episodes as well (extra `graphiti`), such as falkor://127.0.0.1:6379; none: none.",
    )
    enrichment_edge_threshold: int = setting(
        5, Integer(1, 1_000_000), "How many episodes must mention an entity before it is enriched in the background."
    )
    compression_process: str = setting(
        "compress_memory", Text(), "The process that sums up parts of a dialogue; the built-in one unless you say so."
    )
    reflection_process: str = setting(
        "reflect_memory", Text(), "The process that reconsiders the notes about a user; the built-in one by default."
    )
    introspection_notes: int = setting(10, Integer(1, 1_000), "How many notes the carousel of each user holds.")
    introspection_compression_threshold: int = setting(
        5, Integer(1, 20), "After how many compressions of a conversation the notes are reconsidered."
    )
