"""Keeps a knowledge graph beside the tables: Graphiti, on FalkorDB or Neo4j, over the same episodes.

A model extracts its entities and temporal facts from them.

The tables stay the record: an episode is stored there first and found by its words at once. A run of the engine then
takes it into the graph, and a search asks both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.knowledge.graph.graphiti import GraphitiGraph
    from twinraven.knowledge.graph.model import GraphContent, GraphEntity, GraphFact, GraphFind, KnowledgeGraph
    from twinraven.knowledge.graph.progress import GRAPH_WORK, GraphProgress

__all__ = [
    "GRAPH_WORK",
    "GraphContent",
    "GraphEntity",
    "GraphFact",
    "GraphFind",
    "GraphProgress",
    "GraphitiGraph",
    "KnowledgeGraph",
]


__getattr__ = lazy_names(__name__)
