"""States conversations, turns and alternatives: a tree of turns, each with alternatives of which one is active.

An alternative's content is written once, when it was said or when its generation ended. What can be seen from other
rows is not stored: whether an alternative has children, and whether an answer is to what its parent says now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, get_args

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput

Speaker = Literal["user", "agent", "system"]
TurnType = Literal["message", "tool_result", "summary"]
ConversationStatus = Literal["active", "archived"]
CacheStatus = Literal["valid", "stale", "generating"]
AlternativeState = Literal["generating", "done", "failed"]

SPEAKERS: Final[tuple[Speaker, ...]] = get_args(Speaker)
TURN_TYPES: Final[tuple[TurnType, ...]] = get_args(TurnType)

MOST_CONTENT: Final = 1_000_000
"""Characters of one alternative."""
MOST_ALTERNATIVES: Final = 1_000
"""Of one turn."""
MOST_QUOTES: Final = 20
"""Of one alternative."""
LONGEST_TITLE: Final = 300

_UNREADABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The origin of a fork: FORKED_FROM with its turn and alternative."""

    conversation_id: str
    turn_id: str
    alternative_id: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A dialogue that one user owns."""

    tenant_id: str
    conversation_id: str
    owner_id: str
    title: str | None
    status: ConversationStatus
    created_at: datetime
    updated_at: datetime
    default_process: str | None = None
    """The default process of the next answer."""
    default_since: datetime | None = None
    forked_from: ForkOrigin | None = None
    current_turn_id: str | None = None
    """The turn that the owner looks at, from which the path goes back to the root."""

    def as_json(self) -> dict[str, Any]:
        fork = self.forked_from
        origin = None if fork is None else {
            "conversation_id": fork.conversation_id,
            "origin_turn": fork.turn_id,
            "origin_alternative": fork.alternative_id,
        }  # fmt: skip
        default = None
        if self.default_process is not None and self.default_since is not None:
            default = {"process_id": self.default_process, "since": iso(self.default_since)}
        return {
            "id": self.conversation_id,
            "owner_id": self.owner_id,
            "title": self.title,
            "status": self.status,
            "default_process": default,
            "forked_from": origin,
            "current_turn_id": self.current_turn_id,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """One attempt at a turn: a user's text, or the answer of a process."""

    alternative_id: str
    turn_id: str
    speaker: Speaker
    sequence: int
    is_active: bool
    responds_to: str | None
    created_at: datetime
    has_children: bool = False
    answers_active: bool = True
    """Whether what it responds to is active."""
    content: str | None = None
    error: dict[str, Any] | None = None
    tokens: int = 0
    settled_at: datetime | None = None
    process_id: str | None = None
    process_version: int | None = None
    run_id: str | None = None
    episode_id: str | None = None
    quotes: tuple[str, ...] = ()

    @property
    def state(self) -> AlternativeState:
        if self.settled_at is None:
            return "generating"
        return "done" if self.error is None else "failed"

    @property
    def cache_status(self) -> CacheStatus:
        """Whether an answer is to what its parent says now; what people say is always valid."""
        if self.state == "generating":
            return "generating"
        return "stale" if self.speaker == "agent" and not self.answers_active else "valid"

    def as_json(self) -> dict[str, Any]:
        made = None
        if self.process_id is not None:
            made = {"process_id": self.process_id, "version": self.process_version, "created_at": iso(self.created_at)}
        return {
            "id": self.alternative_id,
            "turn_id": self.turn_id,
            "sequence": self.sequence,
            "is_active": self.is_active,
            "state": self.state,
            "cache_status": self.cache_status,
            "has_children": self.has_children,
            "content": self.content,
            "error": self.error,
            "tokens": self.tokens,
            "responds_to": self.responds_to,
            "executed_by": made,
            "run_id": self.run_id,
            "episode_id": self.episode_id,
            "quotes": list(self.quotes),
            "created_at": iso(self.created_at),
            "settled_at": None if self.settled_at is None else iso(self.settled_at),
        }


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """A place in the tree; `sequence` is its depth, 1 at the root."""

    turn_id: str
    conversation_id: str
    number: int
    """Counts what was added to the conversation, in the order of its arrival."""
    speaker: Speaker
    turn_type: TurnType
    sequence: int
    parent_turn: str | None
    via_alternative: str | None
    created_at: datetime
    alternatives: tuple[Alternative, ...] = ()

    @property
    def active(self) -> Alternative:
        return next(each for each in self.alternatives if each.is_active)

    def with_alternatives(self, alternatives: tuple[Alternative, ...]) -> ConversationTurn:
        return replace(self, alternatives=alternatives)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.turn_id,
            "conversation_id": self.conversation_id,
            "speaker": self.speaker,
            "turn_type": self.turn_type,
            "sequence": self.sequence,
            "child_of": None
            if self.parent_turn is None
            else {"turn_id": self.parent_turn, "via_alternative": self.via_alternative},
            "timestamp": iso(self.created_at),
            "alternatives": [each.as_json() for each in self.alternatives],
        }


def check_content(value: Any, *, field: str = "content") -> str:
    """Validate a message's text: one that both databases can hold."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{field} is empty or no text; give a string", field=field)
    if len(value) > MOST_CONTENT:
        raise InvalidInput(f"{field} has {len(value):,} characters, more than {MOST_CONTENT:,}; split it", field=field)
    if "\0" in value:
        raise InvalidInput(f"{field} holds a NUL character; remove it", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate at {error.start}; remove it", field=field) from error
    return value


def check_title(value: Any) -> str | None:
    """Return a title of one line, or none."""
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value.strip()) <= LONGEST_TITLE or _UNREADABLE.search(value):
        raise InvalidInput(f"title must be a line of 1 to {LONGEST_TITLE} characters", field="title")
    return value


def check_word(value: Any, words: tuple[str, ...], *, field: str) -> Any:
    """Return one of the words that a field takes."""
    if value not in words:
        raise InvalidInput(f"{field} must be one of {', '.join(words)}, not {str(value)[:40]!r}", field=field)
    return value
