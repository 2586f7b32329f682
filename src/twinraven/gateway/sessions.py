"""Finds the Muninn session of a call, from a door that hears no user speak.

A client may name its conversation, in `_meta`, in W3C baggage or in a header; else the protocol's session or the life
of a stdio process is the session; else the trace that a call belongs to. Who names nothing gets a guessed session, see
`lanes`. In a named session that outlives a long pause somebody will have said something meanwhile, so the pause counts
as input from outside.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from twinraven.gateway.callers import Caller
from twinraven.gateway.guessed_sessions import CallerKey, GuessedSessions
from twinraven.gateway.user_input import user_words

T = TypeVar("T")

GUESSED: Final = "session-guessed"
"""The tag of events whose session was guessed."""

OWN_NAME: Final = "twinraven/session_id"
"""Names a session of the log as it is; adapters send it, so that all calls of a run are in one session."""

TURN: Final = "twinraven/turn"
"""The number of the model's turn in that session."""

_CONVERSATIONS: Final = (
    "gen_ai.conversation.id",
    "conversation_id",
    "conversationId",
    "session_id",
    "sessionId",
    "session.id",
    "thread_id",
    "threadId",
    "chat_id",
    "chatId",
    "vscode.conversationId",
    "openai/session",
    "agent-session-id",
    "run_id",
    "runId",
)
_TRACE: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
_LONGEST: Final = 200
_MOST_KNOWN: Final = 20_000
_LAST_TURN: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class CallSession:
    """The session of a call, with the outside input before it."""

    session_id: str
    outside_input: str | None = None
    tags: tuple[str, ...] = ()
    turn: int | None = None


class SessionCall:
    """One call in its session, until its answer is known."""

    def __init__(self, place: CallSession, *, is_ours: bool = False) -> None:
        self.place = place
        self.is_ours = is_ours
        """Whether the client named a session of the log, as an adapter does; it is told the event's id."""
        self.output: object = None
        """The output of the call, set by its caller."""


class Sessions:
    """Finds the session of each call; remembers when each was last used."""

    def __init__(
        self, *, idle_gap_s: float, guessed_gap_s: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """A pause of `idle_gap_s` counts as input from outside; one of `guessed_gap_s` ends a guessed session."""
        self._idle_gap_s = idle_gap_s
        self._clock = clock
        self._used_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._heard: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lanes = GuessedSessions(gap_s=guessed_gap_s, clock=clock)

    @contextmanager
    def hearing(self, caller: Caller, method: str) -> Generator[None]:
        """Note a request of any kind while it is served: it tells connections of guessed sessions apart."""
        if caller.process is not None or caller.protocol is not None:
            yield
            return
        with self._lanes.hearing(_key(caller), caller.trail, method):
            yield

    @contextmanager
    def staying(self, caller: Caller, meta: Mapping[str, Any], arguments: Mapping[str, Any]) -> Generator[SessionCall]:
        """Provide the session of a call, for as long as the call runs."""
        tenant_id, told = caller.principal.tenant_id, {**caller.stated, **meta}
        named = _session_name(caller, told)
        if named is not None:
            place = self._with_words(tenant_id, self._named(tenant_id, named), told)
            yield SessionCall(place, is_ours=told.get(OWN_NAME) == named)
            return
        lane = self._lanes.enter(_key(caller), caller.trail, arguments)
        stay = SessionCall(self._with_words(tenant_id, CallSession(lane.session_id, tags=(GUESSED,)), told))
        try:
            yield stay
        finally:
            self._lanes.leave(lane, stay.output)

    def _named(self, tenant_id: str, session_id: str) -> CallSession:
        now = self._clock()
        gap = now - self._used_at.pop((tenant_id, session_id), now)
        _keep(self._used_at, (tenant_id, session_id), now)
        return CallSession(session_id, f"a pause of {gap:.0f} s" if gap > self._idle_gap_s else None)

    def _with_words(self, tenant_id: str, place: CallSession, told: Mapping[str, Any]) -> CallSession:
        """Return the place with what the user said.

        Words that a client repeats with every call of a turn count once.
        """
        turn = told.get(TURN)
        is_turn = isinstance(turn, int) and not isinstance(turn, bool) and 0 < turn <= _LAST_TURN
        place = replace(place, turn=turn) if is_turn else place
        words = user_words(told)
        if words is None:
            return place
        key, digest = (tenant_id, place.session_id), hashlib.sha256(words.encode("utf-8", "replace")).digest()
        is_repeated = self._heard.pop(key, None) == digest
        _keep(self._heard, key, digest)
        return place if is_repeated else replace(place, outside_input=words)


def _keep(known: OrderedDict[tuple[str, str], T], key: tuple[str, str], value: T) -> None:
    known[key] = value
    while len(known) > _MOST_KNOWN:
        known.popitem(last=False)


def _key(caller: Caller) -> CallerKey:
    return caller.principal.tenant_id, caller.key, caller.trail.client, caller.trail.host


def _session_name(caller: Caller, meta: Mapping[str, Any]) -> str | None:
    """Return what names the session of a call, by the first of these that does."""
    own = _usable(meta.get(OWN_NAME))
    if own is not None:
        return own
    conversation = _conversation(meta) or _conversation(_baggage(meta)) or _usable(caller.conversation)
    if conversation is not None:
        return f"conversation-{conversation}{_owner(caller)}"
    protocol = _usable(caller.protocol)
    if protocol is not None:
        return f"mcp-{protocol}"
    return caller.process or _trace(meta)


def _owner(caller: Caller) -> str:
    """Keeps equal names under different keys apart: programs that count their conversations begin at one."""
    key = caller.principal.key_id
    return "" if key is None else f"-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _conversation(named: Mapping[str, Any]) -> str | None:
    return next((value for name in _CONVERSATIONS if (value := _usable(named.get(name))) is not None), None)


def _baggage(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of W3C baggage, which travels beside `traceparent`."""
    text = meta.get("baggage")
    if not isinstance(text, str):
        return {}
    pairs = (member.partition(";")[0].partition("=") for member in text.split(","))
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def _trace(meta: Mapping[str, Any]) -> str | None:
    trace = meta.get("traceparent")
    match = _TRACE.fullmatch(trace) if isinstance(trace, str) else None
    return None if match is None else f"trace-{match[1]}"


def _usable(value: object) -> str | None:
    """Return what a client sent, if a session can be called so."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None
