"""States what conversations need from others: what enters a working memory besides its path, and what sums it up.

`MemorySources` is read inside the transaction that reads the path, so that a working memory is one snapshot of the
tables. Each method is given the path: the active alternatives from the root to the current turn, with the episodes they
are bound to. A source answers with what belongs to that path and nothing else; what was drawn from an alternative that
is not on it must be left out. `NoSources` is what a home without summaries, entities and notes has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from twinraven.storage import Transaction


class PathPlace(NamedTuple):
    """One place of an active path, the root first."""

    turn_id: str
    alternative_id: str
    sequence: int
    episode_id: str | None
    """None until the episode of this alternative is written."""


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """A summary that can stand for a part of a path."""

    summary_id: str
    content: str
    level: int
    covers: tuple[str, ...]
    """Every alternative whose content it holds, also through other summaries; all must be active on the path."""
    covers_up_to_turn: str
    covers_up_to_alternative: str
    episode_id: str | None = None


@dataclass(frozen=True, slots=True)
class EntityItem:
    """An entity that is active in a conversation."""

    entity_id: str
    name: str
    category: str | None
    relevance: float
    """0 to 1; the least relevant is left out first."""
    why: str
    """What its relevance comes from, in a few words."""
    source: str
    """user, graphiti (also for extraction by rules) or enrichment."""
    added_at: datetime
    summary: str = ""
    facets: dict[str, Any] = field(default_factory=dict[str, Any])
    relationships: tuple[str, ...] = ()
    """Each in words, such as "works at: Acme"."""
    include_summary: bool = True
    include_facets: bool = False
    include_relationships: bool = False


@dataclass(frozen=True, slots=True)
class NoteItem:
    """An introspection note in its place of a user's carousel."""

    note_id: str
    position: int
    content: str
    episode_id: str | None = None


class MemorySources(Protocol):
    """Supplies the items of a working memory besides the path."""

    def summaries(
        self, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[PathPlace]
    ) -> Sequence[SummaryItem]:
        """Return the summaries of a conversation that cover alternatives of this path."""
        ...

    def entities(
        self, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[PathPlace]
    ) -> Sequence[EntityItem]:
        """Return the entities that are active for this path, with how relevant they are now."""
        ...

    def notes(self, tx: Transaction, tenant_id: str, user_id: str) -> Sequence[NoteItem]:
        """Return the notes of a user's carousel, in the order of their positions."""
        ...


class NoSources:
    """Adds nothing to a path."""

    def summaries(
        self, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[PathPlace]
    ) -> Sequence[SummaryItem]:
        del tx, tenant_id, conversation_id, path
        return ()

    def entities(
        self, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[PathPlace]
    ) -> Sequence[EntityItem]:
        del tx, tenant_id, conversation_id, path
        return ()

    def notes(self, tx: Transaction, tenant_id: str, user_id: str) -> Sequence[NoteItem]:
        del tx, tenant_id, user_id
        return ()


class Compressor(Protocol):
    """Sums parts of dialogues up, beside the conversation."""

    async def begin(
        self, tenant_id: str, owner_id: str, conversation_id: str, episode_ids: Sequence[str], *, up_to: PathPlace
    ) -> str:
        """Begin to sum up episodes, which reach up to a place; gives the id of the compression."""
        ...

    async def is_running(self, tenant_id: str, compression_id: str) -> bool: ...
