"""Fuses what the tables found with what a knowledge graph found, as one more signal of each hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from twinraven.knowledge.graph.model import GraphFind
from twinraven.knowledge.model import Episode, EpisodeFilter, Hit
from twinraven.knowledge.sql import find_episode
from twinraven.storage import Transaction

_WEIGHT: Final = 0.6
"""What the graph's best find adds; the best hit by words has about 1.2."""
_NO_WORDS: Final[dict[str, Any]] = {"words": [], "related": {}, "names": []}


def fuse(
    tx: Transaction,
    tenant_id: str,
    hits: Sequence[Hit],
    finds: Sequence[GraphFind],
    wanted: EpisodeFilter,
    *,
    limit: int,
) -> list[Hit]:
    """Hits of a group with those that the graph led to, best first; filters count for both."""
    held = {hit.name: hit for hit in hits}
    best = max((find.score for find in finds), default=1.0)
    for find in finds:
        episode = find_episode(tx, tenant_id, episode_id=find.episode_id)
        if episode is not None and wanted.admits(episode):
            known = held.get(episode.name) or _hit(episode)
            held[episode.name] = _raised(known, find, round(_WEIGHT * find.score / best, 4))
    return sorted(held.values(), key=lambda hit: -hit.score)[:limit]


def _hit(episode: Episode) -> Hit:
    why: dict[str, Any] = {**_NO_WORDS, "signals": {}}
    return Hit(episode.name, episode.group_id, episode.content, 0.0, why, episode.speaker, episode.valid_at)


def _raised(hit: Hit, find: GraphFind, by: float) -> Hit:
    signals = {**hit.why["signals"], "graph": by}
    return replace(hit, score=hit.score + by, why={**hit.why, "graph": find.why(), "signals": signals})
