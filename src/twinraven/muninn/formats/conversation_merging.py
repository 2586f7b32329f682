"""Joins the requests of one growing conversation into one session.

A log of requests holds each conversation many times: every request repeats all messages before it. `ConversationMerger`
recognises a list of messages that continues one it has seen, by hashes of their beginnings, and keeps the longest. A
list that shares a beginning and goes on differently is a conversation of its own. What is held is bounded: the
conversations that were continued longest ago are let go, and one that is continued after that is given out again, with
the same identities.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import xxhash

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats.conversation import CallAnswered, ConversationCalls, ConversationFacts, Move
from twinraven.muninn.formats.trace import Heard, LineError

HELD = 2_000
HELD_BYTES = 64 << 20
_REMEMBERED = 200_000


class SpokenMessage(NamedTuple):
    """A message as moves, with when it was said and how large it is."""

    moves: Sequence[Move]
    at: int | None = None
    size: int = 0
    place: int = 0
    """Its number among the messages of its line."""


@dataclass(slots=True)
class GrowingConversation:
    """One conversation as far as it is known."""

    session_id: str
    prefix: str
    facts: ConversationFacts
    line: int
    spoken: list[SpokenMessage] = field(default_factory=list[SpokenMessage])
    stated: str | None = None
    """The id that came with it, which may be that of the request alone."""
    named: str = ""
    """The id of the conversation, where it is certain to be one: conversations of two names are never one."""
    ends: list[int] = field(default_factory=list[int])
    """The hash of the beginning that ends with each message."""
    twins: list[GrowingConversation] = field(default_factory=list["GrowingConversation"])
    """Equal conversations under other ids; when this one goes on, they were the same request sent again."""

    @property
    def size(self) -> int:
        return sum(each.size for each in self.spoken)

    def is_continued_by(self, ends: list[int]) -> bool:
        return len(self.ends) <= len(ends) and (not self.ends or ends[len(self.ends) - 1] == self.ends[-1])

    def heard(self, tenant_id: str) -> Iterator[Heard]:
        """Yield the calls, and the answers that answer none."""
        conversation = ConversationCalls(self.session_id, self.prefix, self.facts)
        for each in self.spoken:
            try:
                conversation.hear(each.moves, each.at)
            except InvalidInput as error:
                yield LineError(self.line, f"messages[{each.place}]: {error.message}")
        for call in conversation.settled():
            try:
                yield call.observed_for(tenant_id)
            except InvalidInput as error:
                yield LineError(self.line, f"{call.identity}: {error.message}")


class ConversationMerger:
    """Holds conversations until they have stopped growing."""

    def __init__(self, *, held: int = HELD, held_bytes: int = HELD_BYTES) -> None:
        self._most, self._most_bytes = held, held_bytes
        self._chains: OrderedDict[int, GrowingConversation] = OrderedDict()
        self._bytes = 0
        self._ends: OrderedDict[int, GrowingConversation] = OrderedDict()

    def add(self, chain: GrowingConversation) -> Iterator[GrowingConversation]:
        """Take the messages of one request in; gives the conversations that have to go for it."""
        if not chain.spoken:
            return
        chain.ends = _rolling(chain.spoken, chain.named)
        known = next((self._ends[end] for end in reversed(chain.ends) if end in self._ends), None)
        if known is None:
            self._keep(chain)
        elif known.ends == chain.ends and chain.stated not in {each.stated for each in (known, *known.twins)}:
            known.twins.append(chain)
            self._hold(chain)
        elif known.is_continued_by(chain.ends):
            self._grow(known, chain)
        elif not chain.is_continued_by(known.ends):
            self._keep(chain)
        yield from self._let_go()

    def finish(self) -> Iterator[GrowingConversation]:
        """Yield the conversations that are left."""
        while self._chains:
            _, chain = self._chains.popitem(last=False)
            yield chain

    def _keep(self, chain: GrowingConversation) -> None:
        self._hold(chain)
        self._remember(chain)

    def _hold(self, chain: GrowingConversation) -> None:
        self._chains[id(chain)] = chain
        self._bytes += chain.size

    def _grow(self, known: GrowingConversation, chain: GrowingConversation) -> None:
        if known.ends == chain.ends:
            return
        for old_one in (known, *known.twins):
            if self._chains.pop(id(old_one), None) is not None:
                self._bytes -= old_one.size
        known.twins.clear()
        # What was said keeps the time of the request in which it was said first.
        old = known.spoken
        known.spoken = [*old, *chain.spoken[len(old) :]] if old else chain.spoken
        known.ends, known.line = chain.ends, chain.line
        self._hold(known)
        self._remember(known)

    def _remember(self, chain: GrowingConversation) -> None:
        self._ends[chain.ends[-1]] = chain
        self._ends.move_to_end(chain.ends[-1])
        while len(self._ends) > _REMEMBERED:
            self._ends.popitem(last=False)

    def _let_go(self) -> Iterator[GrowingConversation]:
        while len(self._chains) > self._most or (self._bytes > self._most_bytes and self._chains):
            _, chain = self._chains.popitem(last=False)
            self._bytes -= chain.size
            yield GrowingConversation(chain.session_id, chain.prefix, chain.facts, chain.line, chain.spoken)
            chain.spoken = []


def _rolling(spoken: Sequence[SpokenMessage], named: str) -> list[int]:
    ends: list[int] = []
    digest = named.encode("utf-8", "replace")
    for each in spoken:
        digest = xxhash.xxh3_128_digest(digest + canonical_json([_shape(move) for move in each.moves]))
        ends.append(int.from_bytes(digest[:8], "big"))
    return ends


def _shape(move: Move) -> list[Any]:
    name = type(move).__name__
    if isinstance(move, CallAnswered):
        # A tool's name beside the id of its call is left out by some.
        return [name, move.id, None if move.id is not None else move.tool, move.output]
    return [name, *move]
