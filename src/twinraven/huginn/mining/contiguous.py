"""Mines contiguous chains, calls that follow each other directly, level by level.

A chain of length n+1 is a chain of length n and the tool of the next call, so one level is known from the one before
by counting `prefix × tool` pairs: a dense table where it is small, a sort where a table would be mostly zeros (a log
may hold a million distinct tools). That count is an upper bound of the sessions. What it leaves is surveyed once more
for the exact figures: a chain's sessions are its places less those that follow another in the same session, and only
places that had such a twin at the level before can have one now.

Both passes go through the log in slices that end where sessions end. A slice stays in the processor's cache, and memory
above the columns does not depend on how much of the log survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from twinraven.huginn.mining.columns import EventColumns, Flags, Ints, SmallInts
from twinraven.huginn.mining.disjoint import sharing_calls
from twinraven.huginn.mining.ordering import group_starts, stable_order
from twinraven.huginn.mining.search import Search, Tally, Tree
from twinraven.huginn.mining.stretches import check_size, kept_tools, stretch_heads

_SLICE = 1 << 17
_SPARSE = 4
"""Once fewer than one place in so many still bears a chain, the others are dropped from the arrays."""


def mine_contiguous(columns: EventColumns, search: Search) -> list[Tally]:
    """Mine all chains the search asks for, with their counts; in no particular order."""
    check_size(columns)
    walk = _Walk(columns, search)
    found: list[Tally] = []
    for length in range(2, search.max_length + 1):
        walk.next_level()
        if length >= search.min_length:
            search.check(len(found) + walk.chains_found)
            found.extend(walk.tallies())
        if not walk.chains_found:
            break
    return found


class _Walk:
    """One way through the levels. `codes` holds at each place the chain that begins there, or one beyond the last."""

    def __init__(self, columns: EventColumns, search: Search) -> None:
        self._columns = columns
        self._search = search
        kept = kept_tools(columns, search)
        self._kept = kept
        self._number = np.full(len(columns.names), len(kept), np.int32)
        self._number[kept] = np.arange(len(kept), dtype=np.int32)
        # The tool that a chain goes on to at each event. One number more than there are tools says that it cannot go
        # on: the event is after the end, begins a stretch, or calls a tool too rare to matter.
        self._width = len(kept) + 1
        self._codes: NDArray[np.signedinteger] = self._number[columns.tools]
        self._onward = np.full(len(columns) + search.max_length, len(kept), np.int32)
        self._onward[: len(columns)] = self._codes
        self._onward[: len(columns)][stretch_heads(columns, respect_breaks=search.respect_breaks)] = len(kept)
        self._session = np.repeat(np.arange(columns.sessions, dtype=np.int32), np.diff(columns.offsets))
        self._measured = bool(np.any(columns.latency >= 0))
        # With breaks respected no chain crosses one, and there is nothing to look at.
        self._broken = not search.respect_breaks and bool(columns.breaks.any())
        self._starts: SmallInts | None = None
        self._twins = np.zeros(len(columns), np.bool_)
        self._chains = kept.astype(np.int32).reshape(-1, 1)
        self._live = np.ones(len(kept), np.bool_)
        self._counts = np.zeros((6, len(kept)), np.int64)
        wanted = search.wanted
        self._nodes = None if wanted is None else [wanted.get(tool, Tree()) for tool in _numbers(kept)]

    @property
    def chains_found(self) -> int:
        """The number of chains of the current length."""
        return int(np.count_nonzero(self._live))

    def tallies(self) -> list[Tally]:
        chains: list[list[int]] = self._chains[self._live].tolist()
        figures: list[list[int]] = self._counts[:, self._live].T.tolist()
        return [Tally(tuple(chain), *numbers) for chain, numbers in zip(chains, figures, strict=True)]

    def next_level(self) -> None:
        """Go on to the chains one tool longer, those that are frequent or wanted, and count them."""
        size = (len(self._chains) + 1) * self._width
        if size > np.iinfo(self._codes.dtype).max:
            self._codes = self._codes.astype(np.int64)
        keys = self._frequent_keys(size) if self._nodes is None else self._wanted_keys(self._nodes)
        numbered = _numbering(keys, size)
        self._counts = counts = np.zeros((6, len(keys)), np.int64)
        length = self._chains.shape[1] + 1
        bearing = 0
        for part in self._slices():
            self._codes[part] = numbered(self._codes[part])
            bearing += self._survey(part, length, counts)
        self._lengthen(keys)
        self._live = counts[0] >= self._search.minimum
        if bearing * _SPARSE < len(self._codes):
            self._compact()

    def _frequent_keys(self, size: int) -> Ints:
        """Turn codes into keys; those of live chains that occur often enough to be worth a survey, ascending."""
        minimum = self._search.minimum
        if size <= max(_SLICE, len(self._codes) // 4):
            table = np.zeros(size, np.int64)
            for part in self._slices():
                table += np.bincount(self._as_keys(part), minlength=size)
            keys = np.flatnonzero(table >= minimum)
        else:
            occurring = np.concatenate([self._as_keys(part) for part in self._slices()])
            occurring.sort()
            begins = group_starts(occurring)
            keys = occurring[begins[np.diff(np.append(begins, len(occurring))) >= minimum]].astype(np.int64)
        parents, tools = np.divmod(keys, self._width)
        return keys[np.append(self._live, False)[parents] & (tools < len(self._kept))]

    def _wanted_keys(self, nodes: list[Tree]) -> Ints:
        """Turn codes into keys; those of live chains that are wanted, ascending."""
        for part in self._slices():
            self._as_keys(part)
        number: list[int] = self._number.tolist()
        live: list[int] = np.flatnonzero(self._live).tolist()
        return np.array(sorted(code * self._width + number[tool] for code in live for tool in nodes[code]), np.int64)

    def _as_keys(self, part: slice) -> NDArray[np.signedinteger]:
        """Replace the chain at every place of a slice by the number of (chain, next tool)."""
        keys = self._codes[part]
        keys *= self._width
        length = self._chains.shape[1]
        if self._starts is None:
            keys += self._onward[part.start + length : part.stop + length]
        else:
            keys += self._onward[length:][self._starts[part]]
        return keys

    def _survey(self, part: slice, length: int, counts: Ints) -> int:
        """Add what a slice holds of the chains just numbered to their counts; how many places still bear a chain."""
        places = np.flatnonzero(self._codes[part] < counts.shape[1])
        if not len(places):
            return 0
        places += part.start
        figures = self._figures(self._codes[places], self._events(places), length, counts.shape[1])
        counts[0] += figures[0]
        counts[1:] += figures
        crowd = places if length == 2 else places[self._twins[places]]
        self._twins[part] = False
        if len(crowd) > 1:
            self._take_back(crowd[stable_order(self._codes[crowd], counts.shape[1])], length, counts)
        return len(places)

    def _take_back(self, places: Ints, length: int, counts: Ints) -> None:
        """Of places sorted by chain, take from the counts those whose session, or one of whose calls, was counted."""
        codes, starts = self._codes[places], self._events(places)
        session = self._session[starts]
        follows = codes[1:] == codes[:-1]
        follows &= session[1:] == session[:-1]
        twins = np.flatnonzero(follows)
        counts[0] -= np.bincount(codes[twins], minlength=counts.shape[1])
        self._twins[places[twins]] = True
        self._twins[places[twins + 1]] = True
        near = twins[starts[twins + 1] - starts[twins] < length]
        if len(near):
            shared = sharing_calls(starts, near, length)
            counts[1:] -= self._figures(codes[shared], starts[shared], length, counts.shape[1])

    def _figures(self, codes: NDArray[np.signedinteger], starts: Ints, length: int, size: int) -> Ints:
        """For each chain its places, those that failed, their latency, those it is known of, those without a break."""
        figures = np.zeros((5, size), np.int64)
        pairs = codes.astype(np.int64)
        pairs += pairs
        pairs += self._columns.failed[length - 1 :][starts]
        by_outcome = np.bincount(pairs, minlength=2 * size).reshape(size, 2)
        figures[1] = by_outcome[:, 1]
        figures[0] = by_outcome[:, 0] + figures[1]
        if self._measured:
            millis, known = self._latency(starts, length)
            figures[2] = np.bincount(codes, weights=millis, minlength=size)
            figures[3] = np.bincount(codes[known], minlength=size)
        figures[4] = figures[0]
        if self._broken:
            figures[4] -= np.bincount(codes[self._crosses_break(starts, length)], minlength=size)
        return figures

    def _latency(self, starts: Ints, length: int) -> tuple[Ints, Flags]:
        """Return what the calls from each start on took together, 0 where not all of it is known, and where it is."""
        total = self._columns.latency[starts]
        known = total >= 0
        for step in range(1, length):
            millis = self._columns.latency[step:][starts]
            known &= millis >= 0
            total += millis
        total *= known
        return total, known

    def _crosses_break(self, starts: Ints, length: int) -> Flags:
        broken = self._columns.breaks[1:][starts]
        for step in range(2, length):
            broken |= self._columns.breaks[step:][starts]
        return broken

    def _events(self, places: Ints) -> Ints:
        """Return the event at each place."""
        return places if self._starts is None else self._starts[places].astype(np.int64)

    def _lengthen(self, keys: Ints) -> None:
        """Let the chains be those of these keys."""
        parents, numbers = np.divmod(keys, self._width)
        tools = self._kept[numbers]
        self._chains = np.column_stack((self._chains[parents], tools)).astype(np.int32)
        if self._nodes is not None:
            pairs = zip(_numbers(parents), _numbers(tools), strict=True)
            self._nodes = [self._nodes[parent][tool] for parent, tool in pairs]

    def _compact(self) -> None:
        bearing = np.flatnonzero(self._codes < len(self._chains))
        self._starts = (bearing if self._starts is None else self._starts[bearing]).astype(np.int32)
        self._codes = self._codes[bearing]
        self._twins = self._twins[bearing]

    def _slices(self) -> Iterator[slice]:
        """Yield the places in slices, none of which parts a session."""
        offsets = self._columns.offsets
        begin = 0
        while begin < len(self._codes):
            beyond = min(begin + _SLICE, len(self._codes)) - 1
            event = beyond if self._starts is None else int(self._starts[beyond])
            limit = offsets[self._session[event] + 1]
            end = int(limit) if self._starts is None else int(np.searchsorted(self._starts, limit))
            yield slice(begin, end)
            begin = end


def _numbering(keys: Ints, size: int) -> Callable[[NDArray[np.signedinteger]], NDArray[np.signedinteger]]:
    """Return the place of a key in the ascending `keys`, or their number for one that is not there.

    By table where small.
    """
    if size <= max(_SLICE, 4 * len(keys)):
        table = np.full(size, len(keys), np.int32)
        table[keys] = np.arange(len(keys), dtype=np.int32)
        return table.take

    def search(candidates: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
        places = np.searchsorted(keys, candidates)
        places[np.append(keys, -1)[places] != candidates] = len(keys)
        return places

    return search


def _numbers(values: Ints) -> list[int]:
    return values.tolist()
