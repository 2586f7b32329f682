"""Turns spans of tool calls and model turns into calls: finds parents, numbers turns, adds what the user said.

Spans are written when they end, so an inner call comes before the call around it. They are held in a window, in which
parents are found and order is restored, before they become events. In that order each model span is a turn of its
conversation, and brings what the user said and which calls the model asked for; a tool span belongs to the last turn
before it. Where a conversation has no tool spans at all, the messages of its model spans hold the calls and the
answers: they are read like a log of growing requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from twinraven.foundation.actors import check_actor_id
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import uuid_of
from twinraven.muninn.collector import clean_text
from twinraven.muninn.formats.bounded_map import BoundedMap
from twinraven.muninn.formats.conversation import CallRequested, ConversationFacts, UserMessage
from twinraven.muninn.formats.conversation_merging import ConversationMerger, GrowingConversation, SpokenMessage
from twinraven.muninn.formats.messages import moves_of
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError
from twinraven.muninn.model import Observation, check_name, make_observation, maker_of

WINDOW = 5_000
HELD_BYTES = 64 << 20
_REMEMBERED = 100_000
"""How many spans and traces are known after they left the window; about 20 MB."""
_SESSIONS = 20_000
_ASKED = 2_000
_DEEPEST = 100
_SESSION, _PARENT, _TURN, _SAID, _ACTOR_TYPE, _ACTOR_ID = map(
    Observation._fields.index,
    ("session_id", "parent_event_id", "turn", "outside_input", "actor_type", "actor_id"),
)

SpanKey = tuple[str, str]
"""Trace and span."""
Messages = tuple[list[Any], list[Any]]
"""Those that went into a model and those that came out of it."""


class ToolSpan(NamedTuple):
    """A call, with where it stands; its session is the stated one or none."""

    key: SpanKey
    parent: SpanKey | None
    call: ForeignCall
    session: str | None
    line: int
    call_id: str | None = None
    is_complete: bool = True
    states_id: bool = False
    """Whether the span itself says the id of its event, instead of leading to one."""


make_tool_span: Final = maker_of(ToolSpan)


class ModelSpan(NamedTuple):
    """A turn of a model, with the messages that went in and came out."""

    key: SpanKey
    parent: SpanKey | None
    session: str | None
    began: int
    ended: int
    line: int
    messages: Callable[[], Messages]
    """Gives them; a span waits in the window with the text they are made of, which is less for the collector."""


make_model_span: Final = maker_of(ModelSpan)


class _Held(NamedTuple):
    """A call that waits in the window, already in the bytes that will be stored."""

    key: SpanKey
    parent: SpanKey | None
    session: str | None
    began: int
    line: int
    seen: Observation
    call_id: str | None
    incomplete: ForeignCall | None
    """The call itself, where its arguments may have to be taken from the model's request."""


_make_held: Final = maker_of(_Held)
_began: Final = itemgetter(ModelSpan._fields.index("began"))
"""When a held span began, which both kinds have at the same place."""
_make_spoken: Final = maker_of(SpokenMessage)


@dataclass(slots=True)
class Context:
    """The state of a conversation, as the spans read so far tell it."""

    turn: int = 0
    heard: int = 0
    """How many messages of the conversation were looked at; each request repeats those before it."""
    said: list[str] = field(default_factory=list[str])
    """Those since the last call."""
    requests: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    """The arguments of the calls that the model asked for, by the id of the call."""


class Contexts:
    """The conversations that were met lately; `turn_of` says how far one had come that was not."""

    def __init__(self, *, turn_of: Callable[[str], int] | None = None) -> None:
        self._known: OrderedDict[str, Context] = OrderedDict()
        self._turn_of = turn_of

    def of(self, session: str) -> Context:
        found = self._known.get(session)
        if found is None:
            found = self._known[session] = Context(0 if self._turn_of is None else self._turn_of(session))
            if len(self._known) > _SESSIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(session)
        return found


class SpanLog:
    """Holds spans until their parents had a chance to turn up."""

    def __init__(self, tenant_id: str, prefix: str, *, window: int = WINDOW, contexts: Contexts | None = None) -> None:
        self._tenant_id = tenant_id
        self._prefix = prefix
        self._size = window
        self._contexts = contexts or Contexts()
        self._window: list[_Held | ModelSpan] = []
        self._bytes = 0
        self._events: BoundedMap[SpanKey, UUID | bool] = BoundedMap(_REMEMBERED)
        """Of calls the id that they state, or True for the one they lead to; False of models."""
        self._parents: BoundedMap[SpanKey, str] = BoundedMap(_REMEMBERED)
        self._sessions: BoundedMap[str, str] = BoundedMap(_REMEMBERED)
        self._users: BoundedMap[str, str] = BoundedMap(_REMEMBERED)
        self._has_users = False
        self._with_tools: BoundedMap[str, bool] = BoundedMap(_REMEMBERED)
        self._growth = ConversationMerger()

    def state_session(self, trace: str, session: str) -> None:
        """Note the conversation that a trace belongs to, as one of its spans states it."""
        if self._sessions[trace] is None:
            self._sessions.put(trace, session)

    def state_user(self, trace: str, user: str) -> None:
        """Note the user for whom a trace ran, as one of its spans states it; what can be no id is passed over."""
        if self._users[trace] is None:
            with suppress(InvalidInput):
                self._users.put(trace, check_actor_id(user, field="user"))
                self._has_users = True

    def state_parent(self, key: SpanKey, parent: str) -> None:
        """Note the span of the same trace that is around one that is no call, such as an agent inside a tool."""
        self._parents.put(key, parent)

    def has_met(self, key: SpanKey) -> bool:
        """Return whether a span was held before."""
        return key in self._events

    def join(self, spans: Iterable[ToolSpan | ModelSpan]) -> Iterator[Heard]:
        """Yield the calls of spans that belong together, and of whatever else is held."""
        for span in spans:
            yield from self.hold(span)
        yield from self.finish()

    def hold(self, span: ToolSpan | ModelSpan) -> Iterable[Heard]:
        """Take a span in; gives the calls that have to go for it."""
        if isinstance(span, ToolSpan):
            refusal = self._hold_call(span)
            if refusal is not None:
                return (refusal,)
        else:
            self._window.append(span)
            self._events.put(span.key, False)
        return self._release(self._size) if len(self._window) >= 2 * self._size else ()

    def _hold_call(self, span: ToolSpan) -> LineError | None:
        key, parent, call, session, line, call_id, is_complete, states_id = span[:]
        try:
            seen = call.observed_for(self._tenant_id)
        except TwinRavenError as error:
            if parent is not None:
                # What is inside it belongs to what is around it.
                self.state_parent(key, parent[1])
            return LineError(line, f"{call.identity}: {error.message}")
        incomplete = None if is_complete else call
        self._window.append(_make_held((key, parent, session, call.timestamp, line, seen, call_id, incomplete)))
        self._events.put(key, seen.event_id if states_id else True)
        with_tools = self._with_tools
        if with_tools[key[0]] is None:
            with_tools.put(key[0], True)
        if session is not None and with_tools[session] is None:
            with_tools.put(session, True)
        return None

    def weigh(self, size: int) -> Iterator[Heard]:
        """Note how much was read; gives the calls that have to go for it."""
        self._bytes += size
        if self._bytes > HELD_BYTES:
            yield from self._release(len(self._window) // 2)
            self._bytes //= 2

    def finish(self) -> Iterator[Heard]:
        yield from self._release(len(self._window))
        for chain in self._growth.finish():
            yield from self._told(chain)

    def _release(self, count: int) -> Iterator[Heard]:
        """Yield the spans that began first, in order."""
        self._window.sort(key=_began)
        ready, self._window = self._window[:count], self._window[count:]
        for span in ready:
            if isinstance(span, _Held):
                yield self._call(span)
            elif (messages := self._take_turn(span)) is not None:
                yield from self._grow(span, *messages)

    def _call(self, span: _Held) -> Heard:
        session, seen, parent = self._session(span), span.seen, span.parent
        context = self._contexts.of(session)
        outer = seen.parent_event_id or (None if parent is None else self._around(parent))
        try:
            if span.incomplete is not None and span.call_id in context.requests:
                params = context.requests[span.call_id]
                seen = span.incomplete._replace(params=params).observed_for(self._tenant_id)
            facts: list[Any] = list(seen[:])  # A plain tuple is copied, a named one walked.
            if seen.session_id != session:
                facts[_SESSION] = check_name(session, field="session_id")
            user = self._users[span.key[0]] if self._has_users else None
            if user is not None and seen.actor_type is None:
                facts[_ACTOR_TYPE], facts[_ACTOR_ID] = "person", user
            if outer is not None:
                facts[_PARENT] = outer
            else:
                if seen.turn is None and context.turn:
                    facts[_TURN] = context.turn
                if seen.outside_input is None and context.said:
                    facts[_SAID] = clean_text("\n".join(context.said))
                    context.said.clear()
        except TwinRavenError as error:
            return LineError(span.line, f"{seen.source_key}: {error.message}")
        return make_observation(facts)

    def _around(self, key: SpanKey) -> UUID | None:
        """Return the call around a span: its parent, or what is around that, as far as it is known."""
        for _ in range(_DEEPEST):
            found = self._events[key]
            if found:
                return derived_id(self._prefix, key) if found is True else found
            outer = self._parents[key]
            if outer is None:
                return None
            key = (key[0], outer)
        return None

    def _take_turn(self, span: ModelSpan) -> Messages | None:
        """Note a turn, with what was said and asked for; gives its messages where they alone tell of calls."""
        if span.parent is not None and self._events[span.parent] is False:
            return None  # A model span inside another is the same turn, seen by a second instrumentation.
        session = self._session(span)
        context = self._contexts.of(session)
        context.turn += 1
        asked, answered = span.messages()
        # A shorter request is that of another agent, whose words are not the user's.
        new = asked[context.heard :]
        for each in spoken_of([*new, *answered] if answered else new):
            for move in each.moves:
                if isinstance(move, UserMessage):
                    context.said.append(move.text)
                elif isinstance(move, CallRequested) and move.id is not None:
                    _remember(context.requests, move.id, move.params, _ASKED)
        context.heard = max(context.heard, len(asked))
        return None if session in self._with_tools or span.key[0] in self._with_tools else (asked, answered)

    def _grow(self, span: ModelSpan, asked: list[Any], answered: list[Any]) -> Iterator[Heard]:
        """Yield the calls that the messages of a conversation without tool spans tell of."""
        session = self._session(span)
        spoken = [*spoken_of(asked), *(each._replace(at=span.ended) for each in spoken_of(answered))]
        # An answer that is met here first came before this turn began.
        timed = [each if each.at is not None else each._replace(at=span.began) for each in spoken]
        named = session if span.session is not None else ""
        for ready in self._growth.add(
            GrowingConversation(session, self._prefix, ConversationFacts(), span.line, timed, session, named)
        ):
            yield from self._told(ready)

    def _told(self, chain: GrowingConversation) -> Iterator[Heard]:
        if chain.session_id not in self._with_tools:
            yield from chain.heard(self._tenant_id)

    def _session(self, span: _Held | ModelSpan) -> str:
        return span.session or self._sessions[span.key[0]] or span.key[0]


def derived_id(format: str, key: SpanKey) -> UUID:
    """Return the id of a span's event: it follows from the span, so that a span that is read twice is one event."""
    return uuid_of(sha256(f"twinraven.{format}\0{key[0]}\0{key[1]}".encode()).digest()[:16])


def spoken_of(messages: list[Any]) -> list[SpokenMessage]:
    """Return the messages of a model span as moves; what cannot be understood is passed over."""
    found: list[SpokenMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, dict):
            try:
                found.append(_make_spoken((moves_of(message), None, 200, place)))  # pyright: ignore[reportUnknownArgumentType]
            except TwinRavenError:
                continue
    return found


def _remember(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]
