"""Remembers the latest entries of a long stream in bounded memory, at the cost of a plain dictionary.

Entries are kept in two generations. When the younger one is full it becomes the older one, and the older one goes: no
entry is ever removed alone, which an ordered dictionary pays for with twice the memory and a step for each entry. The
map itself is the younger one, so that to look up what came lately calls no Python.
"""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(dict[K, "V | None"]):
    """Holds at most `most` entries, and at least the last half as many; `map[key]` is None where a key is unknown."""

    __slots__ = ("_half", "_older")

    def __init__(self, most: int) -> None:
        super().__init__()
        self._half = most // 2
        self._older: dict[K, V | None] = {}

    def put(self, key: K, value: V) -> None:
        """Note the latest value of a key."""
        self[key] = value
        if len(self) >= self._half:
            self._older = self.copy()
            self.clear()

    def __missing__(self, key: K) -> V | None:
        return self._older.get(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._older
