"""Limits how many live streams one user has open at once, at all doors of a process together.

A stream costs a connection as long as it lasts. Without a limit, one client that opens streams and leaves them open
takes every connection that the process may have, and nobody else is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from twinraven.foundation.errors import TwinRavenError
from twinraven.tenancy import Principal

MOST_STREAMS: Final = 256


class TooManyStreams(TwinRavenError):
    """The user has as many live streams open as one may; close some, or ask for a higher `serving.max_streams`."""

    code = "TOO_MANY_STREAMS"
    acts = "caller"


class StreamLimit:
    """Counts open streams by user."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._open: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def place(self, who: Principal) -> Generator[None]:
        """Hold a place for one stream of a user as long as the block lasts; TooManyStreams where none is left."""
        user = (who.tenant_id, who.user_id)
        if self._open[user] >= self._most:
            raise TooManyStreams(
                f"you have {self._most} live streams open, as many as one user may; close some first",
                most=self._most,
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]
