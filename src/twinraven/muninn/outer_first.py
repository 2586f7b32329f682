"""Orders rows of events so that a call is stored before the calls inside it, and holds back those that must wait.

The log takes a call inside another only of the same tenant. A trace names inner calls before outer ones where both
began in one moment, or another clock was late; if the outer call is in another tenant's log as well, because the trace
is an export of that log, the inner one can only be stored after it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from twinraven.muninn.batch import Encoded
from twinraven.muninn.columns import COLUMNS

_EVENT, _PARENT = COLUMNS.index("event_id"), COLUMNS.index("parent_event_id")
_MOST_HELD: Final = 20_000
"""Rows that wait at once; of more than these the oldest are stored as they are."""


def outer_first(items: list[Encoded]) -> list[Encoded]:
    """Return the same rows, each after the one that it lies inside of, and otherwise in their order."""
    if all(item[0][_PARENT] is None for item in items):
        return items
    by_id = {item[0][_EVENT]: item for item in items}
    if not any(item[0][_PARENT] in by_id for item in items):
        return items
    placed: dict[str, Encoded] = {}
    for item in items:
        around: dict[str, Encoded] = {}
        found: Encoded | None = item
        while found is not None and found[0][_EVENT] not in placed and found[0][_EVENT] not in around:
            around[found[0][_EVENT]] = found
            found = by_id.get(found[0][_PARENT])
        placed.update(reversed(around.items()))
    return [*placed.values(), *(item for item in items if by_id[item[0][_EVENT]] is not item)]


class HeldBackCalls:
    """Calls whose outer call has not turned up yet."""

    def __init__(self) -> None:
        self._held: list[Encoded] = []

    def missing(self, batch: list[Encoded]) -> set[str]:
        """Return the outer calls that neither a batch nor what waits holds; the log may have them."""
        items = [*self._held, *batch]
        named = {item[0][_PARENT] for item in items} - {None}
        return named - {item[0][_EVENT] for item in items} if named else named

    def admit(self, batch: list[Encoded], missing: AbstractSet[str]) -> list[Encoded]:
        """Return the calls of a batch, and those held back, that can be stored now; inner ones wait for the outer."""
        if not missing:
            ready, self._held = outer_first([*self._held, *batch]), []
            return ready
        gone = set(missing)
        ready: list[Encoded] = []
        held: list[Encoded] = []
        for item in outer_first([*self._held, *batch]):
            if item[0][_PARENT] in gone:
                gone.add(item[0][_EVENT])
                held.append(item)
            else:
                ready.append(item)
        surplus = max(0, len(held) - _MOST_HELD)
        self._held = held[surplus:]
        return [*ready, *held[:surplus]]

    def rest(self) -> list[Encoded]:
        """Return the calls that waited in vain."""
        held, self._held = self._held, []
        return held
