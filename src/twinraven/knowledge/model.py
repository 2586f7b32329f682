"""Models episodes and search hits. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput
from twinraven.knowledge.moments import parse_moment
from twinraven.muninn import check_name

MOST_CONTENT: Final = 2_000_000
"""Characters of one episode."""
PART_SIZE: Final = 4_000
"""Characters of one part of a long episode."""
DEFAULT_SOURCE: Final = "message"
_LONGEST_NAME: Final = 300
_FIELDS: Final = ("group_id", "name", "content", "source", "speaker", "valid_at", "source_description")


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode to be remembered; (group_id, name) says which one it is."""

    group_id: str
    name: str
    content: str
    source: str = DEFAULT_SOURCE
    speaker: str | None = None
    valid_at: datetime | None = None
    source_description: str | None = None

    def __post_init__(self) -> None:
        for field in ("group_id", "name", "source"):
            check_name(getattr(self, field), field=field, limit=_LONGEST_NAME)
        for field in ("speaker", "source_description"):
            if getattr(self, field) is not None:
                check_name(getattr(self, field), field=field, limit=_LONGEST_NAME)
        check_text(self.content, field="content", limit=MOST_CONTENT)

    @staticmethod
    def of_json(value: Any) -> NewEpisode:
        """Return one line of a file or the body of a request; a wrong field is named."""
        if not isinstance(value, Mapping):
            raise InvalidInput("an episode is a JSON object with group_id, name and content", field="episode")
        found = cast("Mapping[str, Any]", value)
        for field in ("group_id", "name", "content"):
            if not isinstance(found.get(field), str) or not found[field]:
                raise InvalidInput(f"{field} is missing, empty or no text; give a string", field=field)
        # Exports write what is not known as null or as an empty text.
        given = {field: found[field] for field in _FIELDS if found.get(field) not in (None, "")}
        if "valid_at" in given:
            given["valid_at"] = parse_moment(given["valid_at"], field="valid_at")
        return NewEpisode(**given)


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode as it is stored."""

    episode_id: str
    group_id: str
    name: str
    content: str
    source: str
    source_description: str | None
    speaker: str | None
    valid_at: datetime | None
    created_at: datetime
    session: int
    parts: int

    def as_json(self) -> dict[str, Any]:
        return {
            "episode_id": self.episode_id,
            "group_id": self.group_id,
            "name": self.name,
            "content": self.content,
            "source": self.source,
            "source_description": self.source_description,
            "speaker": self.speaker,
            "valid_at": None if self.valid_at is None else iso(self.valid_at),
            "created_at": iso(self.created_at),
            "session": self.session,
            "parts": self.parts,
        }


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Filters episodes by speaker, source and time (`until` not included)."""

    speaker: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.speaker is None and self.source is None and self.since is None and self.until is None

    def admits(self, episode: Episode) -> bool:
        """Return whether an episode counts; one without a time does not where a time is asked for."""
        if self.speaker is not None and (episode.speaker or "").lower() != self.speaker.lower():
            return False
        if self.source is not None and episode.source != self.source:
            return False
        said = episode.valid_at
        if said is None:
            return self.since is None and self.until is None
        return (self.since is None or said >= self.since) and (self.until is None or said < self.until)


@dataclass(frozen=True, slots=True)
class Hit:
    """An episode that a search found, with its reasons."""

    name: str
    group_id: str
    content: str
    """Of a long episode, the part that was found."""
    score: float
    why: dict[str, Any]
    speaker: str | None
    valid_at: datetime | None
    neighbours: tuple[Episode, ...] = ()

    def as_json(self) -> dict[str, Any]:
        beside = {"neighbours": [each.as_json() for each in self.neighbours]} if self.neighbours else {}
        return {
            "name": self.name,
            "group_id": self.group_id,
            "content": self.content,
            "score": round(self.score, 4),
            "why": self.why,
            "speaker": self.speaker,
            "valid_at": None if self.valid_at is None else iso(self.valid_at),
            **beside,
        }


@dataclass(frozen=True, slots=True)
class Ingestion:
    """The outcome of storing a batch: `conflicts` are names that hold other content already, which stays."""

    added: int = 0
    present: int = 0
    conflicts: tuple[str, ...] = ()

    def __add__(self, other: Ingestion) -> Ingestion:
        return Ingestion(self.added + other.added, self.present + other.present, self.conflicts + other.conflicts)


def check_text(value: str, *, field: str, limit: int) -> str:
    """Return a text that both stores can hold."""
    if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{field} is empty or no text; give a string", field=field)
    if len(value) > limit:
        raise InvalidInput(f"{field} has {len(value):,} characters, more than {limit:,}; split it", field=field)
    if "\0" in value:
        raise InvalidInput(f"{field} holds a NUL character; remove it", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate at {error.start}; remove it", field=field) from error
    return value
