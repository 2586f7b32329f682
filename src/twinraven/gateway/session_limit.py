"""Limits open protocol sessions per user, so that none of them can take all of the HTTP door's.

A client opens a session by its first request, and many never end theirs: a session stays until nobody has used it for
half an hour. A user may open another one while they have fewer than the places that are still free. One user alone
gets half of all places; whoever comes next finds the other half, and is not refused because of the first.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from twinraven.foundation.errors import TwinRavenError
from twinraven.tenancy import Principal

MOST_SESSIONS: Final = 10_000
IDLE_S: Final = 1_800.0

_User = tuple[str, str]


class TooManySessions(TwinRavenError):
    """The user has more MCP sessions open than their share; end some with DELETE, or wait until unused ones end."""

    code = "TOO_MANY_SESSIONS"
    acts = "caller"


class SessionLimit:
    """Counts open protocol sessions by user."""

    def __init__(
        self, most: int = MOST_SESSIONS, *, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._idle_s = idle_s
        self._clock = clock
        self._open: OrderedDict[str, tuple[_User, float]] = OrderedDict()
        """The least recently used first."""
        self._count: Counter[_User] = Counter()

    def refuse_greedy(self, who: Principal) -> None:
        """Raise TooManySessions if a user has as many sessions open as there are places left."""
        self._forget_idle()
        own = self._count[_user(who)]
        if own >= self._most - len(self._open):
            raise TooManySessions(
                f"you have {own} MCP sessions open, as many as there are places left; end some first", most=own
            )

    def opened(self, who: Principal, session_id: str) -> None:
        """Note a session that was opened."""
        self._open[session_id] = (_user(who), self._clock())
        self._count[_user(who)] += 1

    def used(self, session_id: str) -> None:
        """Note that a session is in use."""
        known = self._open.get(session_id)
        if known is not None:
            self._open[session_id] = (known[0], self._clock())
            self._open.move_to_end(session_id)

    def ended(self, session_id: str) -> None:
        """Note that a session is over."""
        known = self._open.pop(session_id, None)
        if known is not None:
            self._count[known[0]] -= 1
            if not self._count[known[0]]:
                del self._count[known[0]]

    def _forget_idle(self) -> None:
        since = self._clock() - self._idle_s
        while self._open:
            session_id, (_, used_at) = next(iter(self._open.items()))
            if used_at > since:
                return
            self.ended(session_id)


def _user(who: Principal) -> _User:
    return who.tenant_id, who.user_id
