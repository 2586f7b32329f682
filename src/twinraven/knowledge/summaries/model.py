"""Models summaries and the compressions that make them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput
from twinraven.knowledge.model import check_text
from twinraven.muninn import check_name

SUMMARY_SOURCE: Final = "summary"
"""The source of the episodes that summaries have as content."""
MOST_SOURCES: Final = 2_000
MOST_SUMMARY: Final = 100_000
MANUAL: Final = "manual"
"""In place of a process, where a person wrote a summary."""
_LONGEST_ID: Final = 300

CompressionState = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class CompressionRequest:
    """A request to compress episodes of a group, and how far along the dialogue that covers it."""

    group_id: str
    episode_ids: tuple[str, ...]
    covers_up_to_turn: str | None = None
    covers_up_to_alternative: str | None = None

    def __post_init__(self) -> None:
        check_name(self.group_id, field="group_id", limit=_LONGEST_ID)
        if not self.episode_ids:
            raise InvalidInput("a summary has at least one source; name episodes", field="episode_ids")
        if len(self.episode_ids) > MOST_SOURCES:
            raise InvalidInput(f"at most {MOST_SOURCES} episodes can be summed up at once", field="episode_ids")
        if len(set(self.episode_ids)) != len(self.episode_ids):
            raise InvalidInput("an episode is named twice; name each once", field="episode_ids")
        for field in ("covers_up_to_turn", "covers_up_to_alternative"):
            if getattr(self, field) is not None:
                check_name(getattr(self, field), field=field, limit=_LONGEST_ID)

    def as_json(self) -> dict[str, Any]:
        return {
            "group_id": self.group_id,
            "episode_ids": list(self.episode_ids),
            "covers_up_to_turn": self.covers_up_to_turn,
            "covers_up_to_alternative": self.covers_up_to_alternative,
        }


@dataclass(frozen=True, slots=True)
class ContentBinding:
    """The episode that was bound as content, by whom and when; the last one is in force."""

    episode_id: str
    bound_at: datetime
    bound_by: str | None

    def as_json(self) -> dict[str, Any]:
        return {"episode_id": self.episode_id, "bound_at": iso(self.bound_at), "bound_by": self.bound_by}


@dataclass(frozen=True, slots=True)
class Summary:
    """A compressed form of several episodes."""

    summary_id: str
    group_id: str
    level: int
    """One more than the highest of its sources; turns are of level 0."""
    content: str
    token_count: int
    sources: tuple[str, ...]
    """Ids of the episodes that it sums up, in order."""
    covers: tuple[str, ...]
    """Names of the episodes that it stands for, also through other summaries."""
    covers_up_to_turn: str | None
    covers_up_to_alternative: str | None
    process_id: str
    process_version: int
    run_id: str | None
    created_by: str | None
    created_at: datetime
    deleted_at: datetime | None
    contents: tuple[ContentBinding, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "summary_id": self.summary_id,
            "group_id": self.group_id,
            "level": self.level,
            "content": self.content,
            "token_count": self.token_count,
            "sources": list(self.sources),
            "covers": list(self.covers),
            "covers_up_to_turn": self.covers_up_to_turn,
            "covers_up_to_alternative": self.covers_up_to_alternative,
            "process_id": self.process_id,
            "process_version": self.process_version,
            "run_id": self.run_id,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "deleted_at": None if self.deleted_at is None else iso(self.deleted_at),
            "contents": [each.as_json() for each in self.contents],
        }


@dataclass(frozen=True, slots=True)
class Compression:
    """Work under way, or done, that makes one summary."""

    compression_id: str
    group_id: str
    number: int
    """Counts the compressions of a group, from 1."""
    state: CompressionState
    summary_id: str | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        return {
            "compression_id": self.compression_id,
            "group_id": self.group_id,
            "number": self.number,
            "state": self.state,
            "summary_id": self.summary_id,
            "error": self.error,
            "created_at": iso(self.created_at),
            "ended_at": None if self.ended_at is None else iso(self.ended_at),
        }


def check_summary(content: str) -> str:
    """Return the text of a summary, as the store can hold it."""
    return check_text(content, field="content", limit=MOST_SUMMARY)
