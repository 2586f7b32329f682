"""Remembers when client connections were opened and closed, for doors that tell clients apart by them."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Final

CONNECTIONS: Final = "twinraven.connections"
"""Where a request finds, in its scope, the connections of its server."""

_MOST_REMEMBERED: Final = 1_000


class Connections(set[Any]):
    """The open connections of an HTTP server, and the last ones that were closed; times are of the monotonic clock."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: OrderedDict[str, float] = OrderedDict()
        """When each was closed, by its name."""
        self._opened: dict[Any, float] = {}

    def add(self, element: Any) -> None:
        """Add a connection; the server library calls it when one is made, before its peer is known."""
        super().add(element)
        self._opened[element] = time.monotonic()

    def discard(self, element: Any) -> None:
        """Remove a connection; the server library calls it when one is lost."""
        super().discard(element)
        self._opened.pop(element, None)
        name = _name_of(element)
        if name is None:
            return
        self.closed[name] = time.monotonic()
        self.closed.move_to_end(name)
        while len(self.closed) > _MOST_REMEMBERED:
            self.closed.popitem(last=False)

    def opened_at(self, name: str) -> float | None:
        """Return when the connection of this name was made, if it is open."""
        return next((at for element, at in self._opened.items() if _name_of(element) == name), None)


def connection_name(peer: tuple[str, int]) -> str:
    """Return the name of a connection: its client's address."""
    return f"{peer[0]} {peer[1]}"


def _name_of(element: Any) -> str | None:
    peer: tuple[str, int] | None = getattr(element, "client", None)
    return None if peer is None else connection_name(peer)
