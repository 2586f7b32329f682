"""Pools idle connections: opening one is dear, so whoever needs one gets the one that was used last.

On SQLite a new connection parses the whole schema first, on Postgres it is a log-in. As many are open as were needed at
once, however many threads take turns with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from twinraven.storage.database import Connection

C = TypeVar("C", bound=Connection)


class IdleConnections(Generic[C]):
    """Lends connections, each to one user at a time."""

    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        self._idle: deque[C] = deque()
        self._is_closed = False

    def take(self) -> C:
        """Lend a connection; it comes back by `give`."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give(self, connection: C) -> None:
        self._idle.append(connection)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()
