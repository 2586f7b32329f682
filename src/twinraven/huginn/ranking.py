"""Ranks mined chains by the savings of merging them, from the columns alone.

Support ranks nonsense first: the most frequent chains are pieces of longer ones and chance meetings of popular tools.
So a chain is set aside when a chain one step longer keeps most of its support, or when its tools meet hardly more often
than chance; the others are chosen greedily, each by the turns it saves among the calls no better chain has taken. The
value of a chain is those turns at a turn's price, less the failures, less what its schema costs every session.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinraven.huginn.mining import EventColumns, InstanceFinder, Pattern
from twinraven.huginn.mining.columns import Ints
from twinraven.huginn.selection import Prices

NEARLY_ALL = 0.8
LEAST_LIFT = 2.0
MOST_WEIGHED = 2_000
"""The most chains that are ranked, those with the most calls first."""
MOST_REMEMBERED = 1 << 24
"""Positions of instances that are kept between two looks at a chain; 128 MB."""
SCHEMA_TOKENS = 120
"""About what a learned tool adds to a model call, before it has been written."""


@dataclass(frozen=True, slots=True)
class RankedChain:
    """A chain, what it is worth, and the arithmetic."""

    pattern: Pattern
    value: float
    turns_saved: int
    lift: float
    why: str


def rank_chains(
    columns: EventColumns, patterns: Sequence[Pattern], prices: Prices, finder: InstanceFinder
) -> list[RankedChain]:
    """Return all chains, the most valuable first; what was set aside comes last and says why."""
    counts: list[int] = np.bincount(columns.tools, minlength=len(columns.names)).tolist()
    calls = dict(zip(columns.names, counts, strict=True))
    eligible, aside, lifts = _set_aside(patterns, calls, prices)
    chosen = _cover(_Cover(columns, finder), eligible, lifts, prices)
    return chosen + sorted(aside, key=_by_sessions)


def rank_counts(patterns: Sequence[Pattern], calls: Mapping[str, int], prices: Prices) -> list[RankedChain]:
    """Rank by counts alone, where the log is in parts: each chain by what it would save if no other took its calls.

    `calls` says how often each tool was called.
    """
    eligible, aside, lifts = _set_aside(patterns, calls, prices)
    total = sum(calls.values())
    chosen = [
        RankedChain(
            pattern,
            _value(pattern, _most_turns(pattern), total, prices),
            _most_turns(pattern),
            lifts[pattern.tools],
            "saves turns, by itself",
        )
        for pattern in eligible
    ]
    return sorted(chosen, key=_by_value) + sorted(aside, key=_by_sessions)


def _set_aside(
    patterns: Sequence[Pattern], calls: Mapping[str, int], prices: Prices
) -> tuple[list[Pattern], list[RankedChain], dict[tuple[str, ...], float]]:
    """Return the chains worth weighing, those with the most calls first.

    The others with a reason; and every chain's lift.
    """
    total = sum(calls.values())
    lifts = {pattern.tools: _lift(pattern, calls, total) for pattern in patterns}
    pieces = _pieces(patterns)
    unused = -SCHEMA_TOKENS * total * prices.schema_token
    eligible: list[Pattern] = []
    why: list[tuple[Pattern, str]] = []
    for pattern in patterns:
        if pattern.tools in pieces:
            why.append((pattern, f"nearly always part of {' → '.join(pieces[pattern.tools])}"))
        elif lifts[pattern.tools] < LEAST_LIFT:
            why.append((pattern, "its tools meet hardly more than by chance"))
        else:
            eligible.append(pattern)
    eligible.sort(key=lambda pattern: (-_most_turns(pattern), pattern.tools))
    why += [(pattern, f"not weighed: {MOST_WEIGHED:,} others could save more") for pattern in eligible[MOST_WEIGHED:]]
    aside = [RankedChain(pattern, unused, 0, lifts[pattern.tools], reason) for pattern, reason in why]
    return eligible[:MOST_WEIGHED], aside, lifts


def _by_value(chain: RankedChain) -> tuple[float, tuple[str, ...]]:
    return -chain.value, chain.pattern.tools


def _by_sessions(chain: RankedChain) -> tuple[int, tuple[str, ...]]:
    return -chain.pattern.sessions, chain.pattern.tools


def _pieces(patterns: Sequence[Pattern]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Chains that a chain one step longer nearly always continues, on either side."""
    sessions = {pattern.tools: pattern.sessions for pattern in patterns}
    pieces: dict[tuple[str, ...], tuple[str, ...]] = {}
    for tools, count in sessions.items():
        for shorter in (tools[:-1], tools[1:]):
            if count >= NEARLY_ALL * sessions.get(shorter, math.inf):
                pieces.setdefault(shorter, tools)
    return pieces


def _lift(pattern: Pattern, calls: Mapping[str, int], total: int) -> float:
    """Return how much more often the tools follow each other than they would by chance."""
    return pattern.occurrences / (total * math.prod(calls[tool] / total for tool in pattern.tools))


def _most_turns(pattern: Pattern) -> int:
    """Return the turns that a chain would save if no other chain took any of its calls."""
    return (len(pattern.tools) - 1) * pattern.occurrences


def _cover(
    cover: _Cover, patterns: Sequence[Pattern], lifts: dict[tuple[str, ...], float], prices: Prices
) -> list[RankedChain]:
    """Greedily by turns saved among calls not yet taken; a stale estimate is only an upper bound, so it is renewed."""
    waiting = [(-_most_turns(pattern), pattern.tools, number) for number, pattern in enumerate(patterns)]
    heapq.heapify(waiting)
    chosen: list[RankedChain] = []
    while waiting:
        _, tools, number = heapq.heappop(waiting)
        places = cover.free(tools)
        gain = (len(tools) - 1) * len(places)
        if waiting and -gain > waiting[0][0]:
            heapq.heappush(waiting, (-gain, tools, number))
            continue
        cover.take(places)
        pattern = patterns[number]
        value = _value(pattern, gain, len(cover.columns), prices)
        why = "saves turns" if value > 0 else "saves fewer turns than its place in the list of tools costs"
        chosen.append(RankedChain(pattern, value, gain, lifts[tools], why))
    return sorted(chosen, key=_by_value)


def _value(pattern: Pattern, turns: int, calls: int, prices: Prices) -> float:
    schema = SCHEMA_TOKENS * calls * prices.schema_token
    return prices.adoption * turns * prices.turn * (1 - pattern.failure_rate) - schema


class _Cover:
    """Which calls are taken by better chains already."""

    def __init__(self, columns: EventColumns, finder: InstanceFinder) -> None:
        self.columns = columns
        self._finder = finder
        self._taken = np.zeros(len(columns), np.bool_)
        self._known: dict[tuple[str, ...], Ints] = {}
        self._room = MOST_REMEMBERED

    def free(self, tools: tuple[str, ...]) -> Ints:
        """Return the instances of a chain whose calls are all still free, one a row.

        A call once taken stays taken, so what was free before is all that has to be looked at again.
        """
        known = self._known.pop(tools, None)
        if known is not None:
            self._room += known.size
        places = self._finder.every(tools) if known is None else known
        free = places[~self._taken[places].any(axis=1)]
        if free.size <= self._room:
            self._known[tools] = free
            self._room -= free.size
        return free

    def take(self, places: Ints) -> None:
        self._taken[places] = True
