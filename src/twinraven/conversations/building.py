"""Adds turns and alternatives to the tree of a conversation, inside the caller's transaction.

Each function checks what the keys of the tables also hold, so that a mistake is told in words that name the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinraven.conversations.errors import AnswerUnfinished, ConversationArchived, TooManyAlternatives
from twinraven.conversations.model import (
    MOST_ALTERNATIVES,
    MOST_QUOTES,
    Alternative,
    Conversation,
    Speaker,
    TurnType,
)
from twinraven.conversations.sql import AnswerOutcome, ConversationStore
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.storage import Row, Transaction


@dataclass(frozen=True, slots=True)
class Executor:
    """EXECUTED_BY: the process, its version, and the run that is the answer's."""

    process_id: str
    version: int
    run_id: str | None


@dataclass(frozen=True, slots=True)
class NewAlternative:
    """A new alternative: a text that was said, or an answer that a run will make."""

    said: AnswerOutcome | None = None
    made_by: Executor | None = None
    quotes: Sequence[str] = ()
    alternative_id: str = ""


class TreeBuilder:
    """Adds to the tree of one conversation at one moment."""

    def __init__(self, store: ConversationStore, tx: Transaction, tenant_id: str, conversation_id: str, now: int):
        self._store = store
        self._tx = tx
        self._tenant_id = tenant_id
        self._conversation_id = conversation_id
        self._now = now

    def add_turn(
        self, parent_id: str | None, speaker: Speaker, turn_type: TurnType, new: NewAlternative
    ) -> tuple[str, str]:
        """Append a turn below another with its first alternative; gives the ids of both."""
        parent = None if parent_id is None else self.shape(parent_id, field="parent_turn")
        if parent is not None:
            self.refuse_unfinished(parent["active"])
        number = self._count()
        turn_id = new_id()
        row: dict[str, Any] = {
            "tenant_id": self._tenant_id,
            "conversation_id": self._conversation_id,
            "turn_id": turn_id,
            "number": number,
            "speaker": speaker,
            "turn_type": turn_type,
            "sequence": 1 if parent is None else parent["sequence"] + 1,
            "parent_turn": None if parent is None else parent["turn_id"],
            "parent_sequence": None if parent is None else parent["sequence"],
            "parent_key": "" if parent is None else parent["turn_id"],
            "via_alternative": None if parent is None else parent["active"],
            "created_at": self._now,
        }
        self._store.insert(self._tx, "conversation_turns", row)
        return turn_id, self._insert(row, 1, None if parent is None else parent["active"], new)

    def add_alternative(self, turn_id: str, new: NewAlternative) -> str:
        """Add an alternative to a turn and make it the active one; it answers what its parent says now."""
        turn = self.shape(turn_id, field="turn_id")
        if turn["count"] >= MOST_ALTERNATIVES:
            raise TooManyAlternatives(
                f"the turn has {turn['count']} alternatives, which is as many as a turn may have; add a turn or fork",
                field="turn_id",
                turn_id=turn_id,
            )
        answered = None
        if turn["parent_turn"] is not None:
            answered = self.shape(turn["parent_turn"], field="turn_id")["active"]
            self.refuse_unfinished(answered)
        self._store.activate(self._tx, self._tenant_id, turn_id, None)
        self._count()
        return self._insert(turn, turn["count"] + 1, answered, new)

    def shape(self, turn_id: str, *, field: str) -> Row:
        """Return a turn of this conversation; one of another is not there."""
        row = self._store.shape(self._tx, self._tenant_id, turn_id)
        if row is None or row["conversation_id"] != self._conversation_id:
            raise NotFound(f"{field}: this conversation has no turn {turn_id!r}", field=field, turn_id=turn_id)
        return row

    def refuse_unfinished(self, alternative_id: str) -> None:
        if self._store.unsettled(self._tx, self._tenant_id, alternative_id) is not None:
            raise AnswerUnfinished(
                "the answer is still being generated; wait for its end, or let another one be generated",
                field="parent_turn",
                alternative_id=alternative_id,
            )

    def alternative(self, alternative_id: str, *, field: str) -> Alternative:
        """Return an alternative of this conversation; one of another is not there."""
        found = self._store.alternative(self._tx, self._tenant_id, alternative_id)
        if found is None or self._store_conversation(found) != self._conversation_id:
            raise NotFound(
                f"{field}: this conversation has no alternative {alternative_id!r}",
                field=field,
                alternative_id=alternative_id,
            )
        return found

    def _store_conversation(self, found: Alternative) -> str:
        row = self._store.shape(self._tx, self._tenant_id, found.turn_id)
        assert row is not None
        return row["conversation_id"]

    def _count(self) -> int:
        return self._store.change(self._tx, self._tenant_id, self._conversation_id, now=self._now)

    def _insert(self, turn: Row, sequence: int, answered: str | None, new: NewAlternative) -> str:
        made, alternative_id = new.made_by, new.alternative_id or new_id()
        row: dict[str, Any] = {
            "tenant_id": self._tenant_id,
            "conversation_id": self._conversation_id,
            "turn_id": turn["turn_id"],
            "alternative_id": alternative_id,
            "number": self._count(),
            "speaker": turn["speaker"],
            "sequence": sequence,
            "is_active": 1,
            "parent_turn": turn["parent_turn"],
            "parent_key": turn["parent_turn"] or "",
            "responds_to": answered,
            "process_id": None if made is None else made.process_id,
            "process_version": None if made is None else made.version,
            "run_id": None if made is None else made.run_id,
            "created_at": self._now,
        }
        self._store.insert(self._tx, "alternatives", row)
        if new.said is not None:
            self._store.settle(
                self._tx, self._tenant_id, self._conversation_id, alternative_id, new.said, now=self._now
            )
        self._quote(turn["turn_id"], alternative_id, new.quotes)
        return alternative_id

    def _quote(self, turn_id: str, alternative_id: str, quotes: Sequence[str]) -> None:
        """Record what an alternative takes in of other branches."""
        if not quotes:
            return
        if len(quotes) > MOST_QUOTES or len(set(quotes)) != len(quotes):
            raise InvalidInput(f"quotes must name up to {MOST_QUOTES} alternatives, each once", field="quotes")
        path = {row["turn_id"]: row for row in self._store.path(self._tx, self._tenant_id, turn_id)}
        for position, quoted_id in enumerate(quotes):
            quoted = self.alternative(quoted_id, field="quotes")
            self.refuse_unfinished(quoted_id)
            if quoted.content is None:
                raise InvalidInput(f"quotes: {quoted_id!r} failed and says nothing", field="quotes")
            if quoted.turn_id in path and path[quoted.turn_id]["alternative_id"] == quoted_id:
                raise InvalidInput(
                    f"quotes: {quoted_id!r} is on the path of this turn, which sees it already", field="quotes"
                )
            row = {
                "tenant_id": self._tenant_id,
                "conversation_id": self._conversation_id,
                "alternative_id": alternative_id,
                "position": position,
                "quoted_alternative": quoted_id,
            }
            self._store.insert(self._tx, "alternative_quotes", row)


def refuse_archived(conversation: Conversation) -> None:
    """Refuse to change a conversation that is archived."""
    if conversation.status == "archived":
        raise ConversationArchived(
            "the conversation is archived; unarchive it first",
            field="conversation_id",
            conversation_id=conversation.conversation_id,
        )
