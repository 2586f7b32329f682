"""What Muninn remembers: one event for each tool call, and the sessions they form.

`outcome` and `raised` are two facts. `raised` says whether the call itself failed; `outcome` is what the caller said of
the task around it, never inferred. A verdict stated later about a whole session is a further record and wins over the
events' own outcomes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput

MAX_NAME = 512
MAX_TENANT = 128
"""Tenant and name together stay below what a Postgres index can hold."""

MAX_LATENCY_MS = 2**40
MAX_TURN = 2**53

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Outcome(StrEnum):
    """How a call's wider task went, as stated by whoever ran it."""

    SUCCESS = "success"
    FAILURE = "failure"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class MuninnEvent:
    """One tool call. The first twelve fields are the core; the rest is what mining, replay and audit need besides."""

    event_id: UUID
    session_id: str
    tool_id: str
    input_hash: str
    input_params: dict[str, Any]
    output_summary: str | None
    predecessor: UUID | None
    successor: UUID | None
    timestamp: datetime
    latency_ms: int
    outcome: Outcome
    tags: list[str] = field(default_factory=list[str])

    tenant_id: str = "default"
    arrival: int = 0
    parent_event_id: UUID | None = None
    raised: bool = False
    error_code: str | None = None
    output_hash: str | None = None
    turn: int | None = None
    task_id: str | None = None
    outside_input: str | None = None
    source_key: str | None = None
    time_known: bool = True
    correlation_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The event as JSON, every field by its name."""
        return {
            "event_id": str(self.event_id),
            "session_id": self.session_id,
            "tool_id": self.tool_id,
            "input_hash": self.input_hash,
            "input_params": self.input_params,
            "output_summary": self.output_summary,
            "predecessor": str(self.predecessor) if self.predecessor else None,
            "successor": str(self.successor) if self.successor else None,
            "timestamp": iso(self.timestamp),
            "latency_ms": self.latency_ms,
            "outcome": self.outcome.value,
            "tags": self.tags,
            "tenant_id": self.tenant_id,
            "arrival": self.arrival,
            "parent_event_id": str(self.parent_event_id) if self.parent_event_id else None,
            "raised": self.raised,
            "error_code": self.error_code,
            "output_hash": self.output_hash,
            "turn": self.turn,
            "task_id": self.task_id,
            "outside_input": self.outside_input,
            "source_key": self.source_key,
            "time_known": self.time_known,
            "correlation_id": self.correlation_id,
        }


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
        """The summary line of a session."""
        return {
            "session_id": self.session_id,
            "event_count": self.event_count,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "outcome": self.outcome.value,
        }


def check_name(value: str, *, field: str, limit: int = MAX_NAME) -> str:
    """A session, tool or task name, or a tag, that both stores can hold and a person can read back."""
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
