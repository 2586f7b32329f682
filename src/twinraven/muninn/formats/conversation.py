"""Follows one conversation between a model and its tools, whatever format it was written in, and collects its calls.

A format turns each of its messages into moves: the user said something, the model took a turn, the model asked for a
call, a call was answered. `ConversationCalls` hears the moves in order, matches answers with calls, numbers the model's
turns and notes what came from outside before each call.

A call without an answer was given up if the conversation went on; the last one may still be under way and is left for a
later import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats.trace import ForeignCall


class UserMessage(NamedTuple):
    """A user's message; it ends the model's turn."""

    text: str


class ModelTurn(NamedTuple):
    """An answer of the model. `joins` where it may be a further part of the turn that is under way."""

    text: str = ""
    joins: bool = False


class CallRequested(NamedTuple):
    """A call that the model asked for."""

    id: str | None
    tool: str
    params: dict[str, Any]


class CallAnswered(NamedTuple):
    """The result of a call, known by its id, else by its tool, else the oldest that waits."""

    id: str | None
    tool: str | None
    output: Any
    raised: bool = False


class UnreadablePart(NamedTuple):
    """A part of a message that cannot be understood, beside parts that can."""

    reason: str


Move = UserMessage | ModelTurn | CallRequested | CallAnswered | UnreadablePart


@dataclass(slots=True)
class PendingCall:
    """A call that was asked for, and what came of it."""

    asked: CallRequested
    turn: int
    outside_input: str | None
    began: int | None
    ended: int | None = None
    answer: CallAnswered | None = None
    is_settled: bool = False


@dataclass(slots=True)
class ConversationFacts:
    """Metadata of a conversation: outcome and task."""

    outcome: str | None = None
    task_id: str | None = None


@dataclass(slots=True)
class ConversationCalls:
    """Follows the moves of a conversation and collects its calls; `prefix` begins the identity of each."""

    session_id: str
    prefix: str
    facts: ConversationFacts = field(default_factory=ConversationFacts)
    turn: int = 0
    calls: list[PendingCall] = field(default_factory=list[PendingCall])
    _said: list[str] = field(default_factory=list[str])
    _waiting: list[PendingCall] = field(default_factory=list[PendingCall])
    _is_in_turn: bool = False

    def hear(self, moves: Iterable[Move], at: int | None = None) -> None:
        """Follow the moves of one message; raises InvalidInput after all of them if one is unclear."""
        fault: InvalidInput | None = None
        for move in moves:
            if isinstance(move, CallAnswered):
                try:
                    self._answer(move, at)
                except InvalidInput as error:
                    fault = fault or error
            elif isinstance(move, CallRequested):
                self._ask(move, at)
            elif isinstance(move, ModelTurn):
                self._begin_turn(move)
            elif isinstance(move, UnreadablePart):
                fault = fault or InvalidInput(move.reason)
            else:
                self._give_up()
                self._is_in_turn = False
                self._said.append(move.text)
        if fault is not None:
            raise fault

    def settled(self) -> Iterator[ForeignCall]:
        """Yield the calls that are complete, by their place in the conversation."""
        for place, pending in enumerate(self.calls):
            if pending.is_settled:
                yield self._call(pending, place)

    def _begin_turn(self, move: ModelTurn) -> None:
        if move.joins and self._is_in_turn:
            return
        self._give_up()
        self.turn += 1
        self._is_in_turn = True

    def _ask(self, move: CallRequested, at: int | None) -> None:
        if not self._is_in_turn:
            self._begin_turn(ModelTurn())
        heard = "\n".join(self._said) if self._said else None
        self._said.clear()
        pending = PendingCall(move, self.turn, heard, at)
        self.calls.append(pending)
        self._waiting.append(pending)

    def _answer(self, move: CallAnswered, at: int | None) -> None:
        self._is_in_turn = False
        found = self._waiting
        if move.id is not None:
            found = [pending for pending in found if pending.asked.id == move.id]
        elif move.tool is not None:
            found = [pending for pending in found if pending.asked.tool == move.tool]
        if not found:
            raise InvalidInput(
                f"answers no call that waits for an answer (tool_call_id {move.id!r}, name {move.tool!r})"
            )
        pending = found[0]
        pending.answer, pending.ended, pending.is_settled = move, at, True
        self._waiting = [each for each in self._waiting if each is not pending]

    def _give_up(self) -> None:
        """Give up the calls that were not answered by now."""
        for pending in self._waiting:
            pending.is_settled = True
        self._waiting.clear()

    def _call(self, pending: PendingCall, place: int) -> ForeignCall:
        began, ended = pending.began, pending.ended
        is_timed = began is not None and ended is not None and ended >= began
        return ForeignCall(
            identity=f"{self.prefix}:{self.session_id}:{place}",
            session_id=self.session_id,
            tool_id=pending.asked.tool,
            params=pending.asked.params,
            timestamp=place if began is None else began,
            time_known=is_timed,
            output=None if pending.answer is None else pending.answer.output,
            latency_ms=(ended - began) // 1000 if is_timed and began is not None and ended is not None else 0,
            raised=pending.answer is not None and pending.answer.raised,
            outcome=self.facts.outcome,
            turn=pending.turn,
            task_id=self.facts.task_id,
            outside_input=pending.outside_input,
        )
