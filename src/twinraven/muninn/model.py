"""States the fields of an event, one for each tool call, and of the sessions that events form.

`outcome` and `raised` are two facts. `raised` says whether the call itself failed; `outcome` is what the caller said of
the task around it, never inferred. A verdict stated later about a whole session is a further record and wins over the
events' own outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from twinraven.foundation.actors import Actor, ActorType
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput

MAX_NAME = 512
MAX_TENANT = 128
"""Tenant and name together stay below what a Postgres index can hold."""

MAX_LATENCY_MS = 2**40
MAX_TURN = 2**53

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Outcome(StrEnum):
    """The outcome of a call's wider task, as its runner stated it."""

    SUCCESS = "success"
    FAILURE = "failure"
    PARTIAL = "partial"


DERIVED: Final = {"stored": False}
"""Metadata of a field that the store derives; it is never written."""
KEPT: Final = {"redaction": "none"}
"""Metadata of a text that is stored as it is: the platform makes it, or has checked it."""
FREE_TEXT: Final = {"redaction": "text"}
"""Metadata of a text that is redacted like arguments; any other text is redacted like a name."""


@dataclass(frozen=True, slots=True)
class MuninnEvent:
    """One tool call. The first twelve fields are the core; the rest is what mining, replay and audit need besides.

    This is where an event's fields are stated: the log's columns, their redaction, and the JSON, Parquet and OTLP forms
    follow from the name, the type and the metadata of each. A new one needs a migration, its counterpart in
    `Observation`, and one in the SDK's `Event`, which imports nothing from here.
    """

    event_id: UUID
    session_id: str
    tool_id: str = field(metadata=KEPT)
    input_hash: str = field(metadata=KEPT)
    input_params: dict[str, Any]
    output_summary: str | None = field(metadata=KEPT)
    predecessor: UUID | None = field(metadata=DERIVED)
    successor: UUID | None = field(metadata=DERIVED)
    timestamp: datetime
    latency_ms: int
    outcome: Outcome
    tags: list[str] = field(default_factory=list[str])

    tenant_id: str = field(default="default", metadata=KEPT)
    arrival: int = field(default=0, metadata=DERIVED)
    parent_event_id: UUID | None = None
    raised: bool = False
    error_code: str | None = None
    output_hash: str | None = field(default=None, metadata=KEPT)
    turn: int | None = None
    task_id: str | None = None
    outside_input: str | None = field(default=None, metadata=FREE_TEXT)
    source_key: str | None = None
    time_known: bool = True
    correlation_id: str | None = None
    actor_type: ActorType | None = None
    """The kind and the id of the call's actor; None where unknown."""
    actor_id: str | None = None
    corrects: UUID | None = None
    """The event of the same session that this one states anew; both stay, and mining uses this one."""

    @property
    def actor(self) -> Actor | None:
        """On whose behalf the call ran."""
        return None if self.actor_type is None else Actor(self.actor_type, self.actor_id)

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON, every field by its name."""
        body = dict(zip(_NAMES, _values(self), strict=True))
        for name, show in _SHOWN:
            if body[name] is not None:
                body[name] = show(body[name])
        return body


class EventField(NamedTuple):
    """One field of an event, as `MuninnEvent` states it."""

    name: str
    kind: str
    """The name of its type, without the None of a field that may be empty."""
    is_optional: bool
    is_stored: bool
    redaction: str | None
    """How a text is redacted: as a `name`, as free `text`, or not (`none`); None where it is no text."""


def _event_field(stated: Field[Any]) -> EventField:
    kind, _, rest = str(stated.type).partition(" | ")
    redaction = stated.metadata.get("redaction", "name") if kind == "str" else None
    return EventField(stated.name, kind, rest == "None", stated.metadata.get("stored", True), redaction)


EVENT_FIELDS: Final = tuple(map(_event_field, fields(MuninnEvent)))
_JSON_FORMS: Final[dict[str, Callable[[Any], Any]]] = {"UUID": str, "datetime": iso, "Outcome": attrgetter("value")}
_NAMES: Final = tuple(each.name for each in EVENT_FIELDS)
_SHOWN: Final = tuple((each.name, _JSON_FORMS[each.kind]) for each in EVENT_FIELDS if each.kind in _JSON_FORMS)
_values: Final = attrgetter(*_NAMES)


class Observation(NamedTuple):
    """A call as the caller's thread saw it; bytes are JSON, times are microseconds.

    Whatever has the name of an event's field becomes that field; params and output become its hashes and summary.
    """

    tenant_id: str
    event_id: UUID
    session_id: str
    tool_id: str
    params: bytes
    output: bytes | None
    timestamp: int
    latency_ms: int
    outcome: str
    tags: tuple[str, ...] = ()
    parent_event_id: UUID | None = None
    raised: bool = False
    error_code: str | None = None
    turn: int | None = None
    task_id: str | None = None
    outside_input: str | None = None
    source_key: str | None = None
    time_known: bool = True
    correlation_id: str | None = None
    actor_type: ActorType | None = None
    actor_id: str | None = None
    corrects: UUID | None = None

    @property
    def actor(self) -> Actor | None:
        """On whose behalf the call ran."""
        return None if self.actor_type is None else Actor(self.actor_type, self.actor_id)


T = TypeVar("T", bound=tuple[Any, ...])


def maker_of(kind: type[T]) -> Callable[[Iterable[Any]], T]:
    """Return what makes a named tuple of all its fields in order, for what is made for every call of a trace.

    Its own constructor binds each field to its name, which costs several times as much.
    """
    return partial(tuple.__new__, kind)  # pyright: ignore[reportUnknownMemberType]


make_observation: Final = maker_of(Observation)


@dataclass(frozen=True, slots=True)
class Session:
    """A read-side projection: the events that share a session id. Nothing is ever written for it."""

    session_id: str
    event_count: int
    started_at: datetime
    ended_at: datetime
    outcome: Outcome
    events: tuple[MuninnEvent, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the summary line of a session."""
        return {
            "session_id": self.session_id,
            "event_count": self.event_count,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "outcome": self.outcome.value,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """How somebody said afterwards that a session's task went."""

    outcome: Outcome
    stated_by: str
    stated_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {"outcome": self.outcome.value, "stated_by": self.stated_by, "stated_at": iso(self.stated_at)}


def check_name(value: str, *, field: str, limit: int = MAX_NAME) -> str:
    """Return a session, tool or task name, or a tag, that both stores can hold and a person can read back."""
    if type(value) is str and 0 < len(value) <= limit and value.isprintable():
        return value
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{field} must be a string, not {type(value).__name__}", field=field)
    if not value or len(value) > limit:
        raise InvalidInput(f"{field} must have 1 to {limit} characters, it has {len(value)}", field=field)
    if _UNREADABLE.search(value):
        raise InvalidInput(f"{field} {value!r} holds control characters or lone surrogates; remove them", field=field)
    return value


def check_latency(value: int) -> int:
    return _whole(value, "latency_ms", MAX_LATENCY_MS)


def check_turn(value: int) -> int:
    return _whole(value, "turn", MAX_TURN)


def _whole(value: int, field: str, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{field} must be a whole number, not {value!r}", field=field)
    if not 0 <= value < limit:
        raise InvalidInput(f"{field} must be zero or more and below {limit}, it is {value}", field=field)
    return value
