"""Grows gapped chains depth first (pattern growth), tool by tool, with the positions of each.

A chain is kept as the set of events at which it ends. How the set of a longer chain follows from that of a shorter one
is the business of a `Projection`; what is counted along the way is the same for all of them and lives here. Depth
first, only the sets on the path from the first tool to the current one are alive, so memory does not grow with the
number of chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from twinraven.huginn.mining.columns import Flags, Ints, SmallInts
from twinraven.huginn.mining.search import Search, Tally, Tree
from twinraven.huginn.mining.stretches import Stretches

_NEVER = 1 << 48
"""A latency that no chain of calls can reach: where one call's latency is unknown, the sum is at least this."""


@dataclass(frozen=True, slots=True)
class NextTools:
    """The tools that a chain may grow by: the given ones, or all with at least `minimum` stretches."""

    minimum: int
    tools: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class PatternEnds:
    """The places where a chain ends, ascending, and for each the number of the step before among the parent's ends.

    `masks` and `onward` are a projection's own notes for the next step.
    """

    tool: int
    at: Ints
    parents: Ints
    masks: NDArray[np.unsignedinteger] | None = None
    onward: int = -1


class Projection(Protocol):
    """Projects the ends of a chain to the ends of a longer chain."""

    @property
    def one_end(self) -> bool:
        """Whether a chain has at most one end in a stretch."""
        ...

    def roots(self, tools: Iterable[int], minimum: int) -> Iterator[PatternEnds]:
        """Return the ends of the chains of one tool, at least where a longer one in `minimum` stretches begins with it.

        Their `parents` mean nothing.
        """
        ...

    def extensions(self, ends: PatternEnds, choice: NextTools) -> Iterator[PatternEnds]:
        """Return the ends of the chains one tool longer, as far as the choice allows; lazily, one after the other."""
        ...

    def instances(self, ends: PatternEnds) -> Ints | None:
        """Return which ends close an instance, being the first of their stretch; None when all do."""
        ...

    def failures(self, ends: PatternEnds, instances: Ints | None) -> int:
        """Count the instances that end in a failed call."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Trail:
    """What each end of a chain carries from its earlier steps."""

    latency: Ints | None
    breaks: SmallInts | None


class PatternGrowth:
    """One depth-first search."""

    def __init__(self, stretches: Stretches, projection: Projection, search: Search) -> None:
        columns = stretches.columns
        self._projection = projection
        self._search = search
        self._kept: list[int] = stretches.kept.tolist()
        self._number = {tool: number for number, tool in enumerate(self._kept)}
        self._latency = _latencies(stretches)
        # With breaks respected no stretch holds one, and there is nothing to look at.
        self._breaks: SmallInts | None = None
        if not search.respect_breaks and columns.breaks.any():
            self._breaks = stretches.by_place(np.cumsum(columns.breaks, dtype=np.int32))
        self._session = stretches.session
        if self._session is None and not projection.one_end:
            self._session = stretches.stretch_at_place()
        self._found: list[Tally] = []
        self._work = 0

    def run(self) -> list[Tally]:
        tree = self._search.wanted
        first = range(len(self._kept)) if tree is None else sorted(self._number[tool] for tool in tree)
        for ends in self._projection.roots(first, self._search.minimum):
            if self._count_sessions(ends.at) >= self._search.minimum:
                chain = (self._kept[ends.tool],)
                self._grow(chain, ends, self._begin(ends), None if tree is None else tree[chain[0]])
        return self._found

    def _grow(self, chain: tuple[int, ...], ends: PatternEnds, trail: _Trail, tree: Tree | None) -> None:
        search = self._search
        choice = NextTools(search.minimum, None if tree is None else tuple(self._number[tool] for tool in sorted(tree)))
        self._work += len(ends.at)
        for longer in self._projection.extensions(ends, choice):
            self._work += len(longer.at)
            search.check_work(self._work)
            sessions = self._count_sessions(longer.at)
            if sessions < search.minimum:
                continue
            tool = self._kept[longer.tool]
            following = (*chain, tool)
            carried = self._carry(trail, longer)
            if len(following) >= search.min_length:
                self._found.append(self._tally(following, sessions, longer, carried))
                search.check(len(self._found))
            if len(following) < search.max_length and (tree is None or tree[tool]):
                self._grow(following, longer, carried, None if tree is None else tree[tool])

    def _begin(self, ends: PatternEnds) -> _Trail:
        latency = None if self._latency is None else self._latency.take(ends.at).astype(np.int64)
        return _Trail(latency, None if self._breaks is None else self._breaks.take(ends.at))

    def _carry(self, trail: _Trail, ends: PatternEnds) -> _Trail:
        latency = breaks = None
        if trail.latency is not None and self._latency is not None:
            latency = trail.latency.take(ends.parents)
            latency += self._latency.take(ends.at)
        if trail.breaks is not None:
            breaks = trail.breaks.take(ends.parents)
        return _Trail(latency, breaks)

    def _tally(self, chain: tuple[int, ...], sessions: int, ends: PatternEnds, trail: _Trail) -> Tally:
        instances = self._projection.instances(ends)
        count = len(ends.at) if instances is None else len(instances)
        total = known = 0
        if trail.latency is not None:
            latency = trail.latency if instances is None else trail.latency[instances]
            total, known = _measured(latency)
        mergeable = count
        if trail.breaks is not None and self._breaks is not None:
            unbroken: Flags = self._breaks.take(ends.at) == trail.breaks
            mergeable = int(np.count_nonzero(unbroken if instances is None else unbroken[instances]))
        failures = self._projection.failures(ends, instances)
        return Tally(chain, sessions, count, failures, total, known, mergeable)

    def _count_sessions(self, ends: Ints) -> int:
        if self._session is None or len(ends) < 2:
            return len(ends)
        session = self._session.take(ends)
        return 1 + int(np.count_nonzero(session[1:] != session[:-1]))


def _latencies(stretches: Stretches) -> NDArray[np.signedinteger] | None:
    """Latencies by place, as they are summed up, in the fewest bytes; None where nothing was measured."""
    latency = stretches.columns.latency
    if not np.any(latency >= 0):
        return None
    if np.all(latency >= 0) and int(latency.max()) <= np.iinfo(np.int32).max:
        return stretches.by_place(latency.astype(np.int32))
    chosen = stretches.by_place(latency)
    chosen[chosen < 0] = _NEVER
    return chosen


def _measured(latency: Ints) -> tuple[int, int]:
    """Return the sum of what is known, and how many are."""
    known = latency < _NEVER
    count = int(np.count_nonzero(known))
    return int(latency.sum() if count == len(latency) else latency[known].sum()), count
