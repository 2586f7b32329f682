"""Models introspection notes, in a carousel of fixed size per user. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput
from twinraven.knowledge.model import check_text
from twinraven.knowledge.summaries import ContentBinding

INTROSPECTION_SOURCE: Final = "introspection"
"""The source of the episodes that notes have as content."""
DEFAULT_ROTATION: Final = 10
DEFAULT_THRESHOLD: Final = 5
MOST_NOTE: Final = 20_000

ArchiveReason = Literal["replaced", "deleted"]
ReflectionState = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Introspection:
    """A note in a place of its user's carousel, or archived."""

    introspection_id: str
    user_id: str
    position: int
    number: int
    """Counts a user's notes, from 0."""
    content: str
    conversation_context: str | None
    """Which conversation and compressions led to it."""
    made_by: str
    """`reflection`, or who wrote it by hand."""
    created_at: datetime
    archived_at: datetime | None
    archived_because: ArchiveReason | None
    contents: tuple[ContentBinding, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "introspection_id": self.introspection_id,
            "user_id": self.user_id,
            "position": self.position,
            "number": self.number,
            "content": self.content,
            "conversation_context": self.conversation_context,
            "made_by": self.made_by,
            "created_at": iso(self.created_at),
            "archived_at": None if self.archived_at is None else iso(self.archived_at),
            "archived_because": self.archived_because,
            "contents": [each.as_json() for each in self.contents],
        }


@dataclass(frozen=True, slots=True)
class Reflection:
    """Work of the reflective agent, under way or done."""

    reflection_id: str
    user_id: str
    group_id: str
    first_compression: int
    last_compression: int
    replaces: int
    """The position that it is told will be replaced."""
    state: ReflectionState
    error: str | None
    created_at: datetime
    ended_at: datetime | None

    @property
    def context(self) -> str:
        return f"{self.group_id}, compressions {self.first_compression}-{self.last_compression}"

    def as_json(self) -> dict[str, Any]:
        return {
            "reflection_id": self.reflection_id,
            "user_id": self.user_id,
            "group_id": self.group_id,
            "first_compression": self.first_compression,
            "last_compression": self.last_compression,
            "replaces": self.replaces,
            "state": self.state,
            "error": self.error,
            "created_at": iso(self.created_at),
            "ended_at": None if self.ended_at is None else iso(self.ended_at),
        }


def next_position(current: Sequence[Introspection], size: int) -> int:
    """Return the position of the next note: the first free one after the newest note, else that of the oldest."""
    if not current:
        return 0
    taken = {note.position for note in current}
    newest = max(current, key=lambda note: note.number)
    for step in range(1, size + 1):
        place = (newest.position + step) % size
        if place not in taken:
            return place
    return min(current, key=lambda note: note.number).position


def check_note(content: str) -> str:
    """Return the text of a note, as the store can hold it."""
    return check_text(content, field="content", limit=MOST_NOTE)


def check_position(position: int, size: int) -> int:
    if isinstance(position, bool) or not 0 <= position < size:
        raise InvalidInput(f"position must be 0 to {size - 1}, it is {position}", field="position")
    return position
