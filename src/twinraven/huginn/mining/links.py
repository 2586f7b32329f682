"""Counts transitions: the probability that one tool follows another, from the log itself.

P(to | from) is the share of the calls of `from` that have a next call in their session and whose next call is `to`;
what a user said between does not change what came next, so breaks do not matter here. A session's last call leads
nowhere and is left out. Counts add up over partitions, as everything in mining does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining.columns import EventColumns, Flags, Ints
from twinraven.huginn.mining.ordering import group_starts


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One transition within a chain; `avg_gap_ms` is None where no gap was measured."""

    from_tool: str
    to_tool: str
    transition_probability: float
    avg_gap_ms: int | None


@dataclass(frozen=True, slots=True)
class Transition:
    """Counts how often one tool directly followed another; `gap_total` is in µs over the `gap_known` measured gaps."""

    count: int
    gap_total: int
    gap_known: int

    def plus(self, other: Transition) -> Transition:
        return Transition(self.count + other.count, self.gap_total + other.gap_total, self.gap_known + other.gap_known)


_NEVER = Transition(0, 0, 0)


class TransitionCounts:
    """Every transition that occurs, and how many leave each tool."""

    def __init__(self, transitions: dict[tuple[str, str], Transition]) -> None:
        self.transitions = transitions
        self._leaving: dict[str, int] = {}
        for (from_tool, _), transition in transitions.items():
            self._leaving[from_tool] = self._leaving.get(from_tool, 0) + transition.count

    def probability(self, from_tool: str, to_tool: str) -> float:
        """P(to | from), 0 where `from` never led anywhere."""
        leaving = self._leaving.get(from_tool, 0)
        return self.transitions.get((from_tool, to_tool), _NEVER).count / leaving if leaving else 0.0

    def link(self, from_tool: str, to_tool: str) -> ChainLink:
        seen = self.transitions.get((from_tool, to_tool), _NEVER)
        gap = round(seen.gap_total / seen.gap_known / 1_000) if seen.gap_known else None
        return ChainLink(from_tool, to_tool, self.probability(from_tool, to_tool), gap)

    def links(self, tools: Sequence[str]) -> list[ChainLink]:
        """Return the links of a chain, in order."""
        if len(tools) < 2:
            raise InvalidInput("a chain has at least two tools", field="tools")
        return [self.link(*pair) for pair in pairwise(tools)]

    def confidence(self, tools: Sequence[str]) -> float:
        """Return the average transition probability across a chain's links."""
        links = self.links(tools)
        return sum(link.transition_probability for link in links) / len(links)


def transition_counts(columns: EventColumns) -> TransitionCounts:
    """Return all transitions between neighbouring calls of a session.

    The gap runs from the end of one call to the start of the next; calls that overlap have none. It is known where both
    times and the first call's latency are.
    """
    first = np.flatnonzero(_has_next(columns))
    keys = columns.tools[first].astype(np.int64) * len(columns.names) + columns.tools[first + 1]
    order = np.argsort(keys)
    keys, first = keys[order], first[order]
    begins = group_starts(keys)
    if not len(begins):
        return TransitionCounts({})
    known = columns.time_known[first] & columns.time_known[first + 1] & (columns.latency[first] >= 0)
    gaps = np.maximum(columns.start[first + 1] - columns.end[first], 0) * known
    counts = np.diff(np.append(begins, len(keys)))
    totals, measured = np.add.reduceat(gaps, begins), np.add.reduceat(known, begins, dtype=np.int64)
    found = zip(_pairs(columns, keys[begins]), counts.tolist(), totals.tolist(), measured.tolist(), strict=True)
    return TransitionCounts({pair: Transition(count, total, times) for pair, count, total, times in found})


def merge_transitions(parts: Iterable[TransitionCounts]) -> TransitionCounts:
    """Merge the transitions of several sets of sessions as those of all of them."""
    merged: dict[tuple[str, str], Transition] = {}
    for part in parts:
        for pair, transition in part.transitions.items():
            merged[pair] = merged.get(pair, _NEVER).plus(transition)
    return TransitionCounts(merged)


def chain_links(log: EventColumns | TransitionCounts, tools: Sequence[str]) -> list[ChainLink]:
    """Return the links of one chain. For many chains, count the transitions once and pass those."""
    counts = transition_counts(log) if isinstance(log, EventColumns) else log
    return counts.links(tools)


def _has_next(columns: EventColumns) -> Flags:
    """Return which calls are followed by another in their session."""
    followed = np.ones(len(columns), np.bool_)
    followed[columns.offsets[1:][np.diff(columns.offsets) > 0] - 1] = False
    return followed


def _pairs(columns: EventColumns, keys: Ints) -> list[tuple[str, str]]:
    names = columns.names
    return [(names[key // len(names)], names[key % len(names)]) for key in keys.tolist()]
