"""Chains of calls that follow each other directly, level by level.

A chain of length n+1 is a chain of length n and the tool of the next call, so one level is known from the one before
by counting `prefix × tool` pairs: a dense table where it is small, a sort where a table would be mostly zeros (a log
may hold a million distinct tools). An upper bound comes first, the number of occurrences, because it needs no sorting;
only what survives it is grouped by chain to count sessions, instances, failures and latency exactly.

Work goes through the log in slices, so that memory above the columns stays below 40 bytes an event at any size, and
what a slice touches stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from twinraven.huginn.mining.columns import EventColumns, Flags, Ints, SmallInts
from twinraven.huginn.mining.ordering import group_starts, runs, stable_order
from twinraven.huginn.mining.search import Search, Tally, Tree
from twinraven.huginn.mining.stretches import check_size, stretch_heads, tools_of

_SLICE = 1 << 18


@dataclass(slots=True)
class _Level:
    """Every place where a chain of this length stands, sorted by chain, then by place; and each chain's sessions."""

    chains: SmallInts
    starts: SmallInts
    codes: SmallInts
    sessions: Ints
    nodes: list[Tree] | None

    @property
    def length(self) -> int:
        return self.chains.shape[1]


def mine_contiguous(columns: EventColumns, search: Search) -> list[Tally]:
    """All chains the search asks for, with their counts; in no particular order."""
    check_size(columns)
    walk = _Walk(columns, search)
    found: list[Tally] = []
    level = walk.first_level()
    while len(level.starts) and level.length < search.max_length:
        level = walk.next_level(level)
        if level.length >= search.min_length:
            search.check(len(found) + len(level.chains))
            found.extend(walk.tallies(level))
    return found


def leftmost_disjoint(starts: SmallInts, codes: SmallInts, length: int) -> Flags:
    """Which places remain when each chain takes its places from the left and no call twice.

    Places are sorted by chain, then place. Only a chain that overlaps itself (`a a`, `a b a`) loses any. Inside a
    cluster of overlapping places the survivors are those reached from its head by always jumping to the next place
    that does not overlap; the jumps are followed in doubling strides, so a run of a million equal calls takes 20
    rounds.
    """
    crowded = np.zeros(len(starts), np.bool_)
    np.less(starts[1:] - starts[:-1], length, out=crowded[1:])
    crowded[1:] &= codes[1:] == codes[:-1]
    kept = ~crowded
    if not crowded.any():
        return kept
    members = crowded.copy()
    members[:-1] |= crowded[1:]
    inside = np.flatnonzero(members)
    heads = kept[inside]
    kept[inside] = _reached(starts[inside].astype(np.int64), heads, length)
    return kept


def _reached(places: Ints, heads: Flags, length: int) -> Flags:
    cluster = np.cumsum(heads) - 1
    key = cluster * (int(places.max()) + length + 1) + places
    jump = np.searchsorted(key, key + length)
    last = np.searchsorted(cluster, cluster, side="right") - 1
    stay = jump > last
    jump[stay] = np.flatnonzero(stay)
    reached = heads.copy()
    for _ in range(int(np.bincount(cluster).max()).bit_length()):
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached


class _Walk:
    """One pass through the levels over fixed columns."""

    def __init__(self, columns: EventColumns, search: Search) -> None:
        self._columns = columns
        self._search = search
        self._kept = kept = self._kept_tools()
        number = np.full(len(columns.names), len(kept), np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        self._number = number
        # The tool that a chain goes on to at each event. One number more than there are tools says that it cannot go
        # on: the event is after the end, begins a stretch, or calls a tool too rare to matter.
        self._width = len(kept) + 1
        self._onward = np.full(len(columns) + 1, len(kept), np.int32)
        self._onward[:-1] = number[columns.tools]
        self._onward[:-1][stretch_heads(columns, respect_breaks=search.respect_breaks)] = len(kept)
        self._session = np.repeat(np.arange(columns.sessions, dtype=np.int32), np.diff(columns.offsets))
        self._latency_known = bool(np.any(columns.latency >= 0))

    def first_level(self) -> _Level:
        codes = self._number[self._columns.tools]
        starts = np.arange(len(codes), dtype=np.int32)
        if len(self._kept) < len(self._columns.names):
            starts = starts[codes < len(self._kept)]
            codes = codes[starts]
        wanted = self._search.wanted
        nodes = None if wanted is None else [wanted.get(tool, Tree()) for tool in self._kept.tolist()]
        chains = self._kept.astype(np.int32).reshape(-1, 1)
        return _Level(chains, starts, codes, np.zeros(len(chains), np.int64), nodes)

    def next_level(self, level: _Level) -> _Level:
        """The chains one tool longer that are frequent, or wanted and present."""
        keys = self._frequent_keys(level) if level.nodes is None else self._wanted_keys(level, level.nodes)
        numbered = _numbering(keys, len(level.chains) * self._width)
        starts: list[SmallInts] = []
        codes: list[SmallInts] = []
        for part in _slices(len(level.starts) if len(keys) else 0):
            code = numbered(self._keys(level, part))
            going_on = np.flatnonzero(code >= 0)
            starts.append(level.starts[part][going_on])
            codes.append(code[going_on])
        longer = _grouped(self._lengthened(level, keys), starts, codes)
        longer.sessions = self._sessions(longer)
        return longer if longer.nodes is not None else self._without_rare(longer)

    def tallies(self, level: _Level) -> Iterator[Tally]:
        """Exact counts of every chain of a level."""
        count = len(level.chains)
        sums = np.zeros((5, count), np.int64)
        kept = leftmost_disjoint(level.starts, level.codes, level.length)
        for part in _slices(len(kept)):
            chosen = np.flatnonzero(kept[part])
            starts, codes = level.starts[part][chosen].astype(np.int64), level.codes[part][chosen]
            sums[0] += np.bincount(codes, minlength=count)
            sums[1] += np.bincount(codes[self._columns.failed[starts + (level.length - 1)]], minlength=count)
            if self._latency_known:
                millis, known = self._latency(starts, level.length)
                sums[2] += np.bincount(codes[known], weights=millis[known], minlength=count).astype(np.int64)
                sums[3] += np.bincount(codes[known], minlength=count)
            if not self._search.respect_breaks:
                sums[4] += np.bincount(codes[self._unbroken(starts, level.length)], minlength=count)
        if self._search.respect_breaks:
            sums[4] = sums[0]
        counts = np.vstack((level.sessions, sums)).T
        for chain, numbers in zip(level.chains.tolist(), counts.tolist(), strict=True):
            yield Tally(tuple(chain), *numbers)

    def _kept_tools(self) -> Ints:
        if self._search.wanted is not None:
            return np.array(sorted(tools_of(self._search.wanted)), np.int64)
        counts = np.bincount(self._columns.tools, minlength=len(self._columns.names))
        return np.flatnonzero(counts >= self._search.minimum)

    def _keys(self, level: _Level, part: slice) -> Ints:
        """The number of (chain, next tool) at every place of a slice."""
        keys = level.codes[part].astype(np.int64)
        keys *= self._width
        keys += self._onward[level.starts[part] + level.length]
        return keys

    def _frequent_keys(self, level: _Level) -> Ints:
        """The keys that occur often enough to be worth grouping, ascending."""
        size = len(level.chains) * self._width
        if size <= max(_SLICE, len(level.starts) // 4):
            table = np.zeros(size, np.int64)
            for part in _slices(len(level.starts), max(_SLICE, size)):
                table += np.bincount(self._keys(level, part), minlength=size)
            keys = np.flatnonzero(table >= self._search.minimum)
        else:
            occurring = np.concatenate([self._keys(level, part) for part in _slices(len(level.starts))])
            occurring.sort()
            begins = group_starts(occurring)
            keys = occurring[begins[np.diff(np.append(begins, len(occurring))) >= self._search.minimum]]
        return keys[keys % self._width != self._width - 1]

    def _wanted_keys(self, level: _Level, nodes: list[Tree]) -> Ints:
        number: list[int] = self._number.tolist()
        keys = [code * self._width + number[tool] for code, _, _ in runs(level.codes) for tool in nodes[code]]
        return np.array(sorted(keys), np.int64)

    def _lengthened(self, level: _Level, keys: Ints) -> _Level:
        """The chains of these keys, at no place yet."""
        parents, numbers = np.divmod(keys, self._width)
        tools = self._kept[numbers]
        chains = np.column_stack((level.chains[parents], tools)).astype(np.int32)
        nodes = None
        if level.nodes is not None:
            pairs: list[tuple[int, int]] = list(zip(parents.tolist(), tools.tolist(), strict=True))
            nodes = [level.nodes[parent][tool] for parent, tool in pairs]
        return _Level(chains, np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), nodes)

    def _without_rare(self, level: _Level) -> _Level:
        """Occurrences are only an upper bound of sessions: what several in one session carried is dropped here."""
        frequent = level.sessions >= self._search.minimum
        if frequent.all():
            return level
        number = np.cumsum(frequent, dtype=np.int32) - 1
        staying = np.flatnonzero(frequent[level.codes])
        codes = number[level.codes[staying]]
        return _Level(level.chains[frequent], level.starts[staying], codes, level.sessions[frequent], None)

    def _sessions(self, level: _Level) -> Ints:
        """In how many sessions each chain stands; its places are ascending, so neighbours tell."""
        sessions = np.zeros(len(level.chains), np.int64)
        for part in _slices(len(level.starts)):
            before = slice(max(part.start - 1, 0), part.stop)
            codes, session = level.codes[before], self._session[level.starts[before]]
            new = np.ones(len(codes), np.bool_)
            np.not_equal(codes[1:], codes[:-1], out=new[1:])
            new[1:] |= session[1:] != session[:-1]
            new[0] = part.start == 0
            sessions += np.bincount(codes[new], minlength=len(sessions))
        return sessions

    def _latency(self, starts: Ints, length: int) -> tuple[Ints, Flags]:
        """What the calls from each start on took together, and whether all of it is known."""
        total = self._columns.latency[starts]
        known = total >= 0
        for step in range(1, length):
            millis = self._columns.latency[starts + step]
            known &= millis >= 0
            total += millis
        return total, known

    def _unbroken(self, starts: Ints, length: int) -> Flags:
        broken = self._columns.breaks[starts + 1]
        for step in range(2, length):
            broken |= self._columns.breaks[starts + step]
        return ~broken


def _grouped(level: _Level, starts: list[SmallInts], codes: list[SmallInts]) -> _Level:
    """The level at the places collected, sorted by chain."""
    if not starts:
        return level
    places, chain = np.concatenate(starts), np.concatenate(codes)
    starts.clear()
    codes.clear()
    order = stable_order(chain, len(level.chains))
    return _Level(level.chains, places[order], chain[order], level.sessions, level.nodes)


def _numbering(keys: Ints, size: int) -> Callable[[Ints], SmallInts]:
    """The place of a key in the ascending `keys`, or -1; by table where one is small."""
    if size <= max(_SLICE, 4 * len(keys)):
        table = np.full(size, -1, np.int32)
        table[keys] = np.arange(len(keys), dtype=np.int32)
        return table.__getitem__

    def search(candidates: Ints) -> SmallInts:
        places = np.minimum(np.searchsorted(keys, candidates), len(keys) - 1)
        return np.where(keys[places] == candidates, places, -1).astype(np.int32)

    return search


def _slices(count: int, size: int = _SLICE) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))
