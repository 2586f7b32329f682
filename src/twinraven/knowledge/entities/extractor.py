"""States the port of entity extraction: turns in, names and facts out, each with a confidence.

Rules read a turn in the transaction that stores it. spaCy and the configured model read behind it, in runs of the
engine; all three write the same tables through `store_found`, and what they wrote says which of them it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeGuard

from twinraven.knowledge.entities.model import InferredBy
from twinraven.knowledge.ingestion import StoredPart

MACHINES: Final = frozenset({"agent", "assistant", "system", "tool"})
"""Speakers that are no persons: their first person states no facts."""


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """A name in a turn."""

    name: str
    category: str | None
    confidence: float


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A fact of a turn; `names_entity` where the value is a name, `is_single` where one value holds at a time."""

    relation: str
    value: str
    is_single: bool
    names_entity: bool
    confidence: float
    subject: str | None = None
    """Whom it is about; None is the speaker."""
    valid_at: int | None = None
    """Since when it holds, where the turn says so; else since the turn."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The entities and facts found in one turn."""

    entities: tuple[FoundEntity, ...] = ()
    facts: tuple[FoundFact, ...] = ()


class Extractor(Protocol):
    """Finds names and facts in turns."""

    @property
    def name(self) -> InferredBy:
        """The source that its finds state."""
        ...

    @property
    def most_turns(self) -> int:
        """The number of turns that it reads at once."""
        ...

    async def extract(self, tenant_id: str, turns: Sequence[StoredPart]) -> Sequence[Extraction]:
        """Extract entities and facts from each of these turns, in order; raise InvalidOutput where that fails."""
        ...


def is_person(speaker: str | None) -> TypeGuard[str]:
    """Return whether a turn's speaker is a person."""
    return speaker is not None and speaker.lower() not in MACHINES
