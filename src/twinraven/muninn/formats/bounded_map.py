"""Remembers the latest entries of a long stream in bounded memory, at the cost of a plain dictionary.

Entries are kept in two generations. When the younger one is full it becomes the older one, and the older one goes: no
entry is ever removed alone, which an ordered dictionary pays for with twice the memory and a step for each entry.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Final = object()


class BoundedMap(Generic[K, V]):
    """Holds at most `most` entries, and at least the last half as many."""

    __slots__ = ("_half", "_older", "_younger")

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._younger: dict[K, V] = {}
        self._older: dict[K, V] = {}

    def __setitem__(self, key: K, value: V) -> None:
        self._younger[key] = value
        if len(self._younger) >= self._half:
            self._older, self._younger = self._younger, {}

    def __contains__(self, key: K) -> bool:
        return key in self._younger or key in self._older

    def get(self, key: K) -> V | None:
        """Return the latest value of a key, None where it is unknown."""
        found = self._younger.get(key, _ABSENT)
        return self._older.get(key) if found is _ABSENT else found  # pyright: ignore[reportReturnType]
