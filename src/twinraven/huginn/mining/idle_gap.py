"""Mines gapped chains whose steps follow within a maximum idle time (GSP's maximum gap).

A chain t1 … tn is in a stretch when it has calls e1 < … < en of those tools in the stretch's order such that each
starts at most `max_gap_ms` after the one before *ended*; calls that overlap have no gap. Only calls whose time is known
take part, and a call of unknown latency ends when it starts. Sessions without known times count as sessions and
support nothing; a log without any is refused.

The leftmost match is not enough here: a later call of the same tool may be the one from which the next step is near. So
a chain keeps every event at which it can end. Of all steps before an event, the one that ended last leaves the smallest
gap: it decides alone whether the event can follow, and it is the one the event's instance goes back through (the later
one where two end at once). A stretch's instance is the one that ends first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining.columns import EventColumns, Ints, SmallInts
from twinraven.huginn.mining.last_calls import LastCalls
from twinraven.huginn.mining.ordering import group_starts, ranges, runs, stable_order
from twinraven.huginn.mining.pattern_growth import NextTools, PatternEnds, PatternGrowth
from twinraven.huginn.mining.search import Search, Tally
from twinraven.huginn.mining.stretches import Stretches, kept_tools

_NO_PARENTS = np.empty(0, np.int64)
_MANY = 1_000
"""With more tools than this, those that lead nowhere are sorted out before any is looked at."""


def mine_idle_gap(columns: EventColumns, search: Search, *, max_gap_ms: int) -> list[Tally]:
    """Mine all chains the search asks for whose steps are near each other; in no particular order."""
    usable = columns.time_known
    kept = kept_tools(columns, search, usable)
    stretches = Stretches.cut(columns, kept, respect_breaks=search.respect_breaks, usable=usable)
    return PatternGrowth(stretches, GapProjection(stretches, max_gap_ms=max_gap_ms), search).run()


def require_times(logs: Iterable[EventColumns]) -> None:
    """Refuse to look for gaps where no event of any log says when it happened."""
    events = 0
    for columns in logs:
        if columns.time_known.any():
            return
        events += len(columns)
    if events:
        raise InvalidInput(
            "none of the events has a known time, so idle gaps cannot be measured: use prefixspan or contiguous",
            field="algorithm",
        )


class GapProjection:
    """Every event at which a chain can end, under a maximum idle gap.

    Times are kept as ranks, in half the bytes: `starts` ranks a call among all by its start, `limit` says which ranks
    start soon enough after its end, and `ends` ranks it by its end. `reach` is the last event of the stretch that could
    follow a call, so that nothing beyond it is looked at.
    """

    one_end = False

    def __init__(self, stretches: Stretches, *, max_gap_ms: int) -> None:
        self._stretches = stretches
        self._stretch = stretches.stretch_at_place()
        self._failed = stretches.by_place(stretches.columns.failed)
        self._place = np.empty(len(stretches), np.int32)
        self._place[stretches.events] = np.arange(len(stretches), dtype=np.int32)
        ends = stretches.by_place(stretches.columns.end)
        self._ends = _ranks(ends, stretches.events)
        starts = stretches.by_place(stretches.columns.start)
        self._starts = _ranks(starts, stretches.events)
        starts.sort()
        ends += max_gap_ms * 1_000
        self._limit = np.searchsorted(starts, ends, side="right").astype(np.int32)
        del starts, ends
        self._reach = self._reaches()

    def roots(self, tools: Iterable[int], minimum: int) -> Iterator[PatternEnds]:
        if len(self._stretches.kept) > _MANY:
            tools = LastCalls(self._stretches).leading_on(tools, minimum)
        for tool in tools:
            places = self._stretches.places(tool)
            yield PatternEnds(tool, np.arange(places.start, places.stop, dtype=np.int64), _NO_PARENTS)

    def extensions(self, ends: PatternEnds, choice: NextTools) -> Iterator[PatternEnds]:
        at, parents = self._near(ends)
        tools = np.searchsorted(self._stretches.first_of_tool, at, side="right") - 1
        order = stable_order(tools, len(self._stretches.kept))
        at, parents, tools = at[order], parents[order], tools[order]
        for tool, begin, end in runs(tools):
            found = PatternEnds(tool, at[begin:end], parents[begin:end])
            if choice.tools is None and len(self.instances(found)) < choice.minimum:
                continue
            if choice.tools is None or tool in choice.tools:
                yield found

    def instances(self, ends: PatternEnds) -> Ints:
        return group_starts(self._stretch.take(ends.at))

    def failures(self, ends: PatternEnds, instances: Ints | None) -> int:
        last = ends.at if instances is None else ends.at[instances]
        return int(np.count_nonzero(self._failed.take(last)))

    def _reaches(self) -> SmallInts:
        """At each place the last event of the stretch from which on some event starts soon enough after the call."""
        count = np.int64(len(self._stretches))
        earliest = np.empty(count, np.int64)
        earliest[self._stretches.events] = self._stretch * count + self._starts
        # From the back, the earliest start still to come; a stretch's numbers are all below those of the next.
        np.minimum.accumulate(earliest[::-1], out=earliest[::-1])
        reach = np.searchsorted(earliest, self._stretch * count + self._limit)
        reach -= 1
        return reach.astype(np.int32)

    def _near(self, ends: PatternEnds) -> tuple[Ints, Ints]:
        """Return the places of all events that can follow, by event, and for each the number of the end it follows."""
        events = self._stretches.events.take(ends.at)
        # Events between one end and the next are looked at once, as far as any end before them reaches.
        furthest = np.maximum.accumulate(self._reach.take(ends.at))
        furthest[:-1] = np.minimum(furthest[:-1], events[1:])
        later, before = ranges(events + 1, furthest + 1)
        latest = self._latest(ends.at)[before]
        at = self._place[later].astype(np.int64)
        near = np.flatnonzero(self._starts[at] < self._limit[ends.at[latest]])
        return at[near], latest[near]

    def _latest(self, places: Ints) -> Ints:
        """For each end the number of the one that ended last, of all up to it in its stretch."""
        count = len(self._stretches)
        ended = self._ends.take(places).astype(np.int64)
        last = np.maximum.accumulate(self._stretch.take(places) * np.int64(count) + ended) % count
        number = np.empty(count, np.int32)
        number[ended] = np.arange(len(places), dtype=np.int32)
        return number[last].astype(np.int64)


def _ranks(times: Ints, events: SmallInts) -> SmallInts:
    """Return the rank of each place by time, equal times by event."""
    ranks = np.empty(len(times), np.int32)
    ranks[np.lexsort((events, times))] = np.arange(len(times), dtype=np.int32)
    return ranks
