"""Indexes the tools of each stretch by their last call: what can still follow, for any number of tools.

After an event, exactly those tools are still to come whose last call in the stretch lies beyond it. With a stretch's
tools listed in the order of their last calls, they are a suffix of the list, and nothing here grows with the number of
tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from twinraven.huginn.mining.columns import Ints, SmallInts
from twinraven.huginn.mining.ordering import group_starts, ranges
from twinraven.huginn.mining.stretches import Stretches

_BATCH = 1 << 20


class LastCalls:
    """For every place, the range of its stretch's list that is still to come."""

    def __init__(self, stretches: Stretches) -> None:
        repeats = stretches.repeats()
        self._stretches = stretches
        self._first = np.concatenate((np.ones(1, np.bool_), ~repeats))
        tools = np.empty(len(stretches), np.int32)
        tools[stretches.events] = stretches.tool_at_place()
        last = np.ones(len(stretches), np.bool_)
        last[stretches.events[:-1][repeats]] = False
        self._tools = tools[last]
        passed = np.concatenate((np.zeros(1, np.int32), np.cumsum(last, dtype=np.int32)))
        self._begin: SmallInts = passed[1:][stretches.events]
        self._end = np.repeat(passed[stretches.offsets[1:]], np.diff(stretches.offsets))[stretches.events]

    def first_calls(self, tool: int) -> Ints:
        """Return the places of a tool's first calls, one a stretch."""
        places = self._stretches.places(tool)
        return np.flatnonzero(self._first[places]) + places.start

    def following(self, places: Ints) -> tuple[SmallInts, Ints]:
        """Return the tools that follow each place, and for each of them the number of the place."""
        entries, owners = ranges(self._begin.take(places), self._end.take(places))
        return self._tools.take(entries), owners

    def leading_on(self, tools: Iterable[int], minimum: int) -> Iterator[int]:
        """Yield those of the tools that some tool follows in at least `minimum` stretches.

        Where tools are many, most lead nowhere often enough; a batch of them is sorted out at once, which is far
        cheaper than looking at each.
        """
        batch: list[Ints] = []
        waiting = 0
        for tool in tools:
            places = self.first_calls(tool)
            batch.append(places)
            waiting += int((self._end[places] - self._begin[places]).sum())
            if waiting >= _BATCH:
                yield from self._sorted_out(batch, minimum)
                batch, waiting = [], 0
        yield from self._sorted_out(batch, minimum)

    def _sorted_out(self, batch: list[Ints], minimum: int) -> list[int]:
        if not batch:
            return []
        places = np.concatenate(batch)
        followers, owners = self.following(places)
        from_tool = np.searchsorted(self._stretches.first_of_tool, places, side="right") - 1
        pairs = from_tool[owners] * len(self._stretches.kept) + followers
        pairs.sort()
        begins = group_starts(pairs)
        often = np.diff(np.append(begins, len(pairs))) >= minimum
        leading: NDArray[np.int64] = pairs[begins[often]] // len(self._stretches.kept)
        return leading[group_starts(leading)].tolist()
