"""Closes connections on which a request has begun and not arrived in whole in time.

The server library waits for ever for the rest of a head or a body, so a handful of bytes would hold a connection, and
a server that ends would wait for it. Looking at all connections every few seconds costs a request nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final

ARRIVAL_S: Final = 60.0
"""How long a request may take to arrive."""


class SlowRequestReaper:
    """Watches the connections of a server."""

    def __init__(
        self,
        connections: Collection[Any],
        *,
        patience_s: float = ARRIVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._patience_s = patience_s
        self._clock = clock
        self._since: dict[Any, float] = {}

    def look(self) -> None:
        """Close where a request has been arriving for too long."""
        now = self._clock()
        before, self._since = self._since, {}
        for connection in list(self._connections):
            arriving = _arriving(connection)
            if arriving is None:
                continue
            since = self._since[arriving] = before.get(arriving, now)
            if now - since > self._patience_s:
                connection.transport.close()

    def cut(self) -> None:
        """Close connections on which a request is still arriving: it will not be answered."""
        for connection in list(self._connections):
            if _arriving(connection) is not None:
                connection.transport.close()


def _arriving(connection: Any) -> object | None:
    """Return what stands for the request that has not arrived in whole yet, if there is one."""
    if not hasattr(connection, "cycle") or getattr(connection, "pipeline", None):
        # Not HTTP, or one that we ourselves do not read on before another is answered.
        return None
    cycle = connection.cycle
    if cycle is not None and not cycle.response_complete:
        return cycle if cycle.more_body else None
    # Between two requests the library has a timer of its own, until the next one's first byte.
    if connection.timeout_keep_alive_task is not None:
        return None
    return connection if cycle is None else cycle
