"""Guesses sessions for MCP clients that name none, by connection, client info, overlap and passed-on values.

Clients of the stateless revision (2026-07-28) send no session id. What is left to tell two of their conversations apart
is weak evidence, so the rules err on one side: two conversations never share a session knowingly, and where nothing
decides, a call begins a session of its own. A guessed session is called a lane here; callers of one key, client name,
client version and address may have several at a time.

In order, for a call of such a caller:

1. Its connection has asked `server/discover` since its last call: a new client, so a new lane.
2. Its connection has carried one lane: that one, also while other calls run there, unless the arguments hold values
   that only another lane was told.
3. The arguments hold values that one lane was told, more than any other was: that one.
4. Its connection has carried several lanes, or belongs to a pool: a new lane.
5. Its connection is new: if another client has greeted and not called yet, a new lane; else the only lane there is, if
   none of its calls is running; else a new lane.

A connection without a greeting belongs to a client that has another. If that one was closed a moment ago, or is held by
a subscription, the new one takes its place: HTTP clients close an idle connection when they next need one. If not, the
client is a *pool*: it sends requests over several connections, perhaps those of several conversations, and neither the
new connection nor those that were in use just now say anything any more.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, cast

from twinraven.foundation.ids import new_id

_GREETINGS: Final = frozenset({"server/discover", "initialize"})
_LISTEN: Final = "subscriptions/listen"
_MOMENT_S: Final = 0.1
"""How far apart a client closes a connection and opens the next one."""
_JUST_NOW_S: Final = 2.0
_MOST_CALLERS: Final = 2_000
_MOST_LANES: Final = 128
_MOST_REMEMBERING: Final = 2_000
_MOST_TEXT: Final = 16_384
_SHORTEST: Final = 4
_LONGEST: Final = 200
_MOST_VALUES: Final = 32

Connection = str
CallerKey = tuple[str, ...]


class ConnectionTimes(Protocol):
    """Looks up when the connections of a server were opened and closed, by the monotonic clock."""

    @property
    def closed(self) -> Mapping[Connection, float]:
        """Return when the last connections were closed."""
        ...

    def opened_at(self, name: Connection, /) -> float | None:
        """Return when a connection was opened, if it is open."""
        ...


@dataclass(frozen=True, slots=True)
class SenderHints:
    """Hints about the sender of a request besides its key: program, address and connection."""

    client: str = ""
    """`clientInfo`, as name and version."""
    host: str = ""
    connection: Connection | None = None
    """None where requests of several senders may share one, as behind a proxy."""
    connections: ConnectionTimes | None = None
    """Those of the server it came to, where they are known."""


@dataclass(slots=True, eq=False)
class GuessedSession:
    """One guessed session."""

    session_id: str
    used_at: float
    running: int = 0
    told: str = ""
    """The latest arguments and answers of its calls, as one text."""

    def learn(self, value: object) -> None:
        self.told = f"{self.told}\n{_as_text(value)}"[-_MOST_TEXT:]


@dataclass(slots=True, eq=False)
class _Wire:
    """One connection of a caller."""

    used_at: float
    lanes: list[GuessedSession] = field(default_factory=list[GuessedSession])
    is_fresh: bool = False
    """Whether a client has greeted on it and not called since."""
    is_pooled: bool = False
    """Whether a client spreads its requests over this one and others."""
    is_held: bool = False
    """Whether a subscription keeps it from carrying anything else."""
    busy: int = 0


@dataclass(slots=True, eq=False)
class _Caller:
    lanes: list[GuessedSession] = field(default_factory=list[GuessedSession])
    wires: dict[Connection, _Wire] = field(default_factory=dict[Connection, _Wire])


class GuessedSessions:
    """Assigns calls of callers that name no session to guessed sessions."""

    def __init__(self, *, gap_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """After `gap_s` seconds without a call a lane is over."""
        self._gap_s = gap_s
        self._clock = clock
        self._callers: OrderedDict[CallerKey, _Caller] = OrderedDict()
        self._remembering: OrderedDict[GuessedSession, None] = OrderedDict()

    @contextmanager
    def hearing(self, key: CallerKey, trail: SenderHints, method: str) -> Generator[None]:
        """Note any request of such a caller, for as long as it is served."""
        if trail.connection is None:
            yield
            return
        wire = self._wire(self._caller(key), trail, trail.connection, method)
        wire.is_fresh = wire.is_fresh or method in _GREETINGS
        wire.is_held = method == _LISTEN
        wire.busy += 1
        try:
            yield
        finally:
            wire.busy -= 1
            wire.used_at = self._clock()

    def enter(self, key: CallerKey, trail: SenderHints, arguments: Mapping[str, Any]) -> GuessedSession:
        """Return the guessed session of a call that begins now; the caller must `leave` it."""
        caller = self._caller(key)
        wire = None if trail.connection is None else caller.wires.get(trail.connection)
        lane = _choose(caller, wire, arguments) or self._open(caller, key)
        lane.running += 1
        self._remember(lane, arguments)
        if wire is not None:
            wire.is_fresh = False
            if lane not in wire.lanes:
                wire.lanes.append(lane)
        return lane

    def leave(self, lane: GuessedSession, output: object) -> None:
        """Note that a call of the session has ended, with its output."""
        lane.running -= 1
        self._remember(lane, output)

    def _remember(self, lane: GuessedSession, value: object) -> None:
        lane.used_at = self._clock()
        lane.learn(value)
        self._remembering[lane] = None
        self._remembering.move_to_end(lane)
        while len(self._remembering) > _MOST_REMEMBERING:
            oldest, _ = self._remembering.popitem(last=False)
            oldest.told = ""

    def _caller(self, key: CallerKey) -> _Caller:
        caller = self._callers.pop(key, None) or _Caller()
        self._callers[key] = caller
        while len(self._callers) > _MOST_CALLERS:
            self._callers.popitem(last=False)
        self._forget(caller)
        return caller

    def _forget(self, caller: _Caller) -> None:
        """Drop what has been idle for too long."""
        since = self._clock() - self._gap_s
        caller.lanes = [lane for lane in caller.lanes if lane.running or lane.used_at >= since]
        for connection, wire in list(caller.wires.items()):
            wire.lanes = [lane for lane in wire.lanes if lane in caller.lanes]
            if not wire.busy and wire.used_at < since and not wire.lanes:
                del caller.wires[connection]

    def _open(self, caller: _Caller, key: CallerKey) -> GuessedSession:
        lane = GuessedSession(f"guessed-{key[1]}-{new_id()}", self._clock())
        caller.lanes = [*caller.lanes[1 - _MOST_LANES :], lane]
        return lane

    def _wire(self, caller: _Caller, trail: SenderHints, connection: Connection, method: str) -> _Wire:
        known = caller.wires.get(connection)
        closed: Mapping[Connection, float] = {} if trail.connections is None else trail.connections.closed
        if known is not None and closed.get(connection, known.used_at) <= known.used_at:
            return known
        # Else it is new; ports are used again.
        wire = _Wire(self._clock())
        if method not in _GREETINGS:
            opened = None if trail.connections is None else trail.connections.opened_at(connection)
            wire = self._inherit(caller, wire, closed, self._clock() if opened is None else opened)
        caller.wires[connection] = wire
        return wire

    def _inherit(self, caller: _Caller, wire: _Wire, closed: Mapping[Connection, float], opened: float) -> _Wire:
        """Return what a connection without a greeting takes over from the others of its caller."""
        gone = {name for name in caller.wires if abs(closed.get(name, -_MOMENT_S) - opened) < _MOMENT_S}
        free = [name for name, one in caller.wires.items() if one.is_held or name in gone]
        if len(free) == 1:
            return _released(caller.wires.pop(free[0]))
        if free:
            # It replaces one of these, and nobody knows which.
            waiting = [name for name in free if caller.wires[name].is_fresh]
            return _released(caller.wires.pop(waiting[0])) if len(waiting) == len(free) else wire
        in_use = [one for name, one in caller.wires.items() if name not in closed]
        for one in in_use:
            one.is_pooled = one.is_pooled or bool(one.busy) or one.used_at >= opened - _JUST_NOW_S
        wire.is_pooled = bool(in_use)
        return wire


def _released(wire: _Wire) -> _Wire:
    wire.is_held = False
    return wire


def _choose(caller: _Caller, wire: _Wire | None, arguments: Mapping[str, Any]) -> GuessedSession | None:
    """Return the lane that a call belongs to; None for one of its own."""
    if wire is not None and wire.is_fresh:
        return None
    own = [] if wire is None else wire.lanes
    is_own = wire is not None and len(own) == 1 and not wire.is_pooled
    if is_own and len(caller.lanes) == 1:
        return own[0]
    told = _told_most(caller.lanes, arguments)
    if is_own:
        return own[0] if told is None or own[0] in told else told[0]
    if told is not None and len(told) == 1:
        return told[0]
    if own or (wire is not None and wire.is_pooled):
        return None
    return _only_idle(caller)


def _only_idle(caller: _Caller) -> GuessedSession | None:
    if any(wire.is_fresh for wire in caller.wires.values()):
        return None
    return caller.lanes[0] if len(caller.lanes) == 1 and not caller.lanes[0].running else None


def _told_most(lanes: list[GuessedSession], arguments: Mapping[str, Any]) -> list[GuessedSession] | None:
    """Return the lanes that were told most of the values in these arguments; None if none was told any."""
    values = list(_telling_values(arguments))
    counts = {id(lane): sum(_holds(lane.told, value) for value in values) for lane in lanes}
    most = max(counts.values(), default=0)
    return [lane for lane in lanes if counts[id(lane)] == most] if most else None


def _telling_values(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Return the texts and numbers in arguments that are long enough to mean the same thing wherever they stand."""
    telling = (text for text in _scalars(arguments) if _SHORTEST <= len(text) <= _LONGEST)
    return islice(telling, _MOST_VALUES)


def _holds(text: str, value: str) -> bool:
    """Return whether a value stands in a text as a whole word."""
    at = text.find(value)
    while at >= 0:
        after = at + len(value)
        if not text[at - 1 : at].isalnum() and not text[after : after + 1].isalnum():
            return True
        at = text.find(value, at + 1)
    return False


def _as_text(value: object) -> str:
    """Return the beginning of everything that a value says, one scalar a line."""
    said: list[str] = []
    size = 0
    for text in _scalars(value):
        said.append(text[:_MOST_TEXT])
        size += len(text) + 1
        if size > _MOST_TEXT:
            break
    return "\n".join(said)


def _scalars(value: object) -> Iterator[str]:
    """Yield every text and number inside a JSON value, in its order."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            left.extend(reversed(list(cast("Mapping[str, object]", one).values())))
        elif isinstance(one, list):
            left.extend(reversed(cast("list[object]", one)))
        elif isinstance(one, str | int | float) and not isinstance(one, bool):
            yield str(one)
