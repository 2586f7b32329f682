"""Models what the inbox holds, as a client reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

InboxItemKind = Literal[
    "call", "question", "unknown_step", "learned_tool", "changed_tool", "duplicate", "judgement", "unknown_effect"
]
InboxItemState = Literal["open", "decided", "expired"]


@dataclass(frozen=True, slots=True)
class ReservationInfo:
    """A user who is looking at an item, and until when that holds."""

    item_id: str
    user_id: str
    name: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class InboxItemInfo:
    """An inbox item that waits or waited for a person."""

    item_id: str
    kind: InboxItemKind
    what: str
    target: str
    why: str
    bound_to: str
    """The hash of exactly what is shown; a decision repeats it."""
    state: InboxItemState
    asked_at: datetime
    expires_at: datetime | None = None
    cost: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    choices: tuple[Mapping[str, Any], ...] = ()
    requested_by: str | None = None
    decision: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    correlation_id: str | None = None
