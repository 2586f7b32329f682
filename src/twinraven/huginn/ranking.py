"""Ranking mined chains by what merging them would save, from the columns alone.

Support ranks nonsense first: the most frequent chains are pieces of longer ones and chance meetings of popular tools.
So a chain is set aside when a chain one step longer keeps most of its support, or when its tools meet hardly more often
than chance; the others are chosen greedily, each by the turns it saves among the calls no better chain has taken. The
value of a chain is those turns at a turn's price, less the failures, less what its schema costs every session.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinraven.huginn.mining import EventColumns, MiningConfig, Pattern, find_instances
from twinraven.huginn.mining.columns import Ints
from twinraven.huginn.selection import Prices

NEARLY_ALL = 0.8
LEAST_LIFT = 2.0
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
    columns: EventColumns, patterns: Sequence[Pattern], prices: Prices, config: MiningConfig
) -> list[RankedChain]:
    """All chains, the most valuable first; what was set aside comes last and says why."""
    lifts = {pattern.tools: _lift(columns, pattern) for pattern in patterns}
    pieces = _pieces(patterns)
    eligible: list[Pattern] = []
    unused = -SCHEMA_TOKENS * len(columns) * prices.schema_token
    aside: list[RankedChain] = []
    for pattern in patterns:
        if pattern.tools in pieces:
            longer = " → ".join(pieces[pattern.tools])
            aside.append(RankedChain(pattern, unused, 0, lifts[pattern.tools], f"nearly always part of {longer}"))
        elif lifts[pattern.tools] < LEAST_LIFT:
            aside.append(
                RankedChain(pattern, unused, 0, lifts[pattern.tools], "its tools meet hardly more than by chance")
            )
        else:
            eligible.append(pattern)
    chosen = _cover(_Cover(columns, config), eligible, lifts, prices)
    return chosen + sorted(aside, key=lambda chain: (-chain.pattern.sessions, chain.pattern.tools))


def _pieces(patterns: Sequence[Pattern]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Chains that a chain one step longer nearly always continues, on either side."""
    sessions = {pattern.tools: pattern.sessions for pattern in patterns}
    pieces: dict[tuple[str, ...], tuple[str, ...]] = {}
    for tools, count in sessions.items():
        for shorter in (tools[:-1], tools[1:]):
            if count >= NEARLY_ALL * sessions.get(shorter, math.inf):
                pieces.setdefault(shorter, tools)
    return pieces


def _lift(columns: EventColumns, pattern: Pattern) -> float:
    """How much more often the tools follow each other than they would by chance."""
    ids = columns.tool_ids(pattern.tools)
    total = len(columns)
    if ids is None or not total:
        return 0.0
    shares = np.bincount(columns.tools, minlength=len(columns.names))[ids] / total
    return float(pattern.occurrences / (total * np.prod(shares)))


def _cover(
    cover: _Cover, patterns: Sequence[Pattern], lifts: dict[tuple[str, ...], float], prices: Prices
) -> list[RankedChain]:
    """Greedily by turns saved among calls not yet taken; a stale estimate is only an upper bound, so it is renewed."""
    waiting = [(-(len(p.tools) - 1) * p.occurrences, p.tools, number) for number, p in enumerate(patterns)]
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
        chosen.append(RankedChain(pattern, value, gain, lifts[tools], "saves turns"))
    return sorted(chosen, key=lambda chain: (-chain.value, chain.pattern.tools))


def _value(pattern: Pattern, turns: int, calls: int, prices: Prices) -> float:
    schema = SCHEMA_TOKENS * calls * prices.schema_token
    return prices.adoption * turns * prices.turn * (1 - pattern.failure_rate) - schema


class _Cover:
    """Which calls are taken by better chains already."""

    def __init__(self, columns: EventColumns, config: MiningConfig) -> None:
        self.columns = columns
        self._config = config
        self._taken = np.zeros(len(columns), np.bool_)

    def free(self, tools: Sequence[str]) -> Ints:
        """The instances of a chain whose calls are all still free, one a row."""
        config = self._config
        places = find_instances(
            self.columns,
            tools,
            gapped=config.gapped,
            respect_breaks=config.respect_breaks,
            max_gap_ms=config.max_gap_ms,
        )
        return places[~self._taken[places].any(axis=1)]

    def take(self, places: Ints) -> None:
        self._taken[places] = True
