"""Which Muninn session a call belongs to, seen from a door that hears no user speak.

It is the life of a stdio process; else the protocol's own session; else a conversation or trace that the client names
in `_meta`; else all calls under one key without a long pause between them. In a session that outlives such a pause
somebody will have said something meanwhile, so the pause counts as input from outside.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twinraven.foundation.ids import new_id

_CONVERSATIONS: Final = (
    "twinraven/session_id",
    "gen_ai.conversation.id",
    "conversation_id",
    "conversationId",
    "session_id",
    "sessionId",
    "thread_id",
    "threadId",
)
_TRACE: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
_LONGEST: Final = 200
_MOST_KNOWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class Place:
    """The session of a call, and what came from outside before it."""

    session_id: str
    outside_input: str | None = None


@dataclass(slots=True)
class _Known:
    session_id: str
    used_at: float


class Sessions:
    """Finds the session of each call; remembers when each was last used."""

    def __init__(self, *, idle_gap_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_gap_s = idle_gap_s
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def place(
        self, tenant_id: str, *, process: str | None, protocol: str | None, meta: Mapping[str, Any] | None, key: str
    ) -> Place:
        """Where a call belongs, by the first of these that is known."""
        now = self._clock()
        named = process or _named("mcp", protocol) or _conversation(meta or {})
        known = self._known.pop((tenant_id, named or f"key {key}"), None)
        gap = 0.0 if known is None else now - known.used_at
        is_idle = gap > self._idle_gap_s
        if known is None or (is_idle and named is None):
            known = _Known(named or f"key-{key}-{new_id()}", now)
            is_idle = False
        known.used_at = now
        self._remember((tenant_id, named or f"key {key}"), known)
        return Place(known.session_id, f"a pause of {gap:.0f} s" if is_idle else None)

    def _remember(self, key: tuple[str, str], known: _Known) -> None:
        self._known[key] = known
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def _conversation(meta: Mapping[str, Any]) -> str | None:
    for name in _CONVERSATIONS:
        value = meta.get(name)
        if isinstance(value, str) and _named("", value) is not None:
            return _named("conversation", value)
    trace = meta.get("traceparent")
    match = _TRACE.fullmatch(trace) if isinstance(trace, str) else None
    return None if match is None else f"trace-{match[1]}"


def _named(kind: str, value: str | None) -> str | None:
    """A session id made of what a client sent, if it can be one."""
    if value is None or not 0 < len(value) <= _LONGEST or not value.isprintable():
        return None
    return f"{kind}-{value}"
