"""Models conversations, turns, alternatives and working memories, as a client reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from twinraven.sdk.model import JsonObject

ConversationState = Literal["active", "archived"]


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A dialogue that branches."""

    id: str
    owner_id: str
    status: ConversationState
    created_at: datetime
    updated_at: datetime
    title: str | None = None
    default_process: JsonObject | None = None
    forked_from: JsonObject | None = None
    current_turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class AlternativeInfo:
    """One attempt at a turn; `state` is generating, done or failed, `cache_status` valid, stale or generating."""

    id: str
    turn_id: str
    sequence: int
    is_active: bool
    state: str
    cache_status: str
    has_children: bool
    created_at: datetime
    content: str | None = None
    error: JsonObject | None = None
    tokens: int = 0
    responds_to: str | None = None
    executed_by: JsonObject | None = None
    run_id: str | None = None
    episode_id: str | None = None
    quotes: tuple[str, ...] = ()
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """A place in a conversation, with its alternatives."""

    id: str
    conversation_id: str
    speaker: str
    turn_type: str
    sequence: int
    timestamp: datetime
    alternatives: tuple[AlternativeInfo, ...]
    child_of: JsonObject | None = None

    @property
    def active(self) -> AlternativeInfo:
        return next(each for each in self.alternatives if each.is_active)


@dataclass(frozen=True, slots=True)
class MessageSent:
    """A message that was sent, and the answer that is being generated."""

    said: TurnInfo
    answer: TurnInfo


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A part of an answer as it comes; the last one of a stream has the settled alternative.

    `restarts` says that an attempt was cut off and the answer begins anew with this text.
    """

    text: str = ""
    restarts: bool = False
    alternative: AlternativeInfo | None = None


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """The working memory of the next model call."""

    conversation_id: str
    total_tokens: int
    budget: int
    fits: bool
    last_updated: datetime
    items: tuple[JsonObject, ...]
    left_out: tuple[JsonObject, ...] = ()
    immediate_path: tuple[JsonObject, ...] = ()
    summaries: tuple[str, ...] = ()
    active_entities: tuple[JsonObject, ...] = ()
    introspection_context: tuple[str, ...] = ()
    current_turn_id: str | None = None
    current_alternative_id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnList:
    """Turns along a path."""

    items: tuple[TurnInfo, ...]
