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
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from twinraven.gateway.callers import Caller
from twinraven.gateway.lanes import CallerKey, Lane, Lanes

GUESSED: Final = "session-guessed"
"""The tag of events whose session nobody named."""

OWN_NAME: Final = "twinraven/session_id"
"""Names a session of the log as it is; adapters send it, so that all calls of a run are in one session."""

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


@dataclass(frozen=True, slots=True)
class Place:
    """The session of a call, and what came from outside before it."""

    session_id: str
    outside_input: str | None = None
    tags: tuple[str, ...] = ()


class Stay:
    """One call in its session, from its beginning until its answer is known."""

    def __init__(self, place: Place, lane: Lane | None = None) -> None:
        self.place = place
        self.lane = lane
        self.output: object = None
        """What the call gave; whoever makes the call sets it."""


class Sessions:
    """Finds the session of each call; remembers when each was last used."""

    def __init__(
        self, *, idle_gap_s: float, guessed_gap_s: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """A pause of `idle_gap_s` counts as input from outside; one of `guessed_gap_s` ends a guessed session."""
        self._idle_gap_s = idle_gap_s
        self._clock = clock
        self._used_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._lanes = Lanes(gap_s=guessed_gap_s, clock=clock)

    @contextmanager
    def hearing(self, caller: Caller, method: str) -> Generator[None]:
        """Note a request of any kind while it is served: it tells connections of guessed sessions apart."""
        if caller.process is not None or caller.protocol is not None:
            yield
            return
        with self._lanes.hearing(_key(caller), caller.trail, method):
            yield

    @contextmanager
    def staying(self, caller: Caller, meta: Mapping[str, Any], arguments: Mapping[str, Any]) -> Generator[Stay]:
        """The session of a call, for as long as the call runs."""
        named = _session_name(caller, meta)
        if named is not None:
            yield Stay(self._named(caller.principal.tenant_id, named))
            return
        lane = self._lanes.enter(_key(caller), caller.trail, arguments)
        stay = Stay(Place(lane.session_id, tags=(GUESSED,)), lane)
        try:
            yield stay
        finally:
            self._lanes.leave(lane, stay.output)

    def _named(self, tenant_id: str, session_id: str) -> Place:
        now = self._clock()
        gap = now - self._used_at.pop((tenant_id, session_id), now)
        self._used_at[tenant_id, session_id] = now
        while len(self._used_at) > _MOST_KNOWN:
            self._used_at.popitem(last=False)
        return Place(session_id, f"a pause of {gap:.0f} s" if gap > self._idle_gap_s else None)


def _key(caller: Caller) -> CallerKey:
    return caller.principal.tenant_id, caller.key, caller.trail.client, caller.trail.host


def _session_name(caller: Caller, meta: Mapping[str, Any]) -> str | None:
    """What names the session of a call, by the first of these that does."""
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
    """The members of W3C baggage, which travels beside `traceparent`."""
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
    """What a client sent, if a session can be called so."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None
