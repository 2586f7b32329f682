"""Declares the port of a knowledge graph, and models its results. No I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol

from twinraven.foundation.clock import iso
from twinraven.knowledge.model import Episode


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity of the graph."""

    uuid: str
    name: str
    summary: str


@dataclass(frozen=True, slots=True)
class GraphFact:
    """A fact between two entities, from one time to another."""

    uuid: str
    relation: str
    fact: str
    valid_at: datetime | None
    invalid_at: datetime | None
    episode_ids: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "uuid": self.uuid,
            "relation": self.relation,
            "fact": self.fact,
            "valid_at": None if self.valid_at is None else iso(self.valid_at),
            "invalid_at": None if self.invalid_at is None else iso(self.invalid_at),
            "episode_ids": list(self.episode_ids),
        }


@dataclass(frozen=True, slots=True)
class GraphContent:
    """The content of the graph for one group."""

    episode_ids: tuple[str, ...]
    entities: tuple[GraphEntity, ...]
    facts: tuple[GraphFact, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "episode_ids": list(self.episode_ids),
            "entities": [asdict(each) for each in self.entities],
            "facts": [each.as_json() for each in self.facts],
        }


@dataclass(slots=True)
class GraphFind:
    """An episode that a graph led to, and by which words, facts and entities."""

    episode_id: str
    score: float = 0.0
    facts: list[str] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)
    by_words: bool = False

    def why(self) -> dict[str, Any]:
        return {"facts": self.facts, "entities": self.entities, "words": self.by_words}


class KnowledgeGraph(Protocol):
    """Holds episodes, and what they tell of whom."""

    async def add(self, tenant_id: str, episode: Episode) -> None:
        """Take an episode in; once more changes nothing. Of one group, one at a time."""
        ...

    async def search(self, tenant_id: str, group_id: str, text: str, *, limit: int) -> list[GraphFind]:
        """Return the episodes that words, facts and entities lead to, best first."""
        ...

    async def content(self, tenant_id: str, group_id: str) -> GraphContent:
        """Return all that is held of a group."""
        ...
