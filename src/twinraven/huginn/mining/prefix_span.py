"""Mines gapped chains with PrefixSpan: tools that follow each other within a stretch, whatever is called between.

A chain is in a stretch when its leftmost match is, so one end a stretch is all there is to remember (PrefixSpan's
pseudo-projection), and a tool extends the chain exactly where the tool's *last* call in the stretch lies beyond that
end. Two projections put this to work.

`MaskProjection`, for up to 63 tools that matter: each event carries one word, a bit per tool that is still to come in
its stretch, and a bit for failure. The support of all extensions of a chain is then a column sum of bits over its ends,
a few nanoseconds an end for all tools together; where the next call of a tool is, a rank index answers (the calls of a
tool before each block of 32 events, and a bitmap of the block).

`ListProjection`, for any number of tools: each stretch has the list of its tools by last call, and the extensions at an
end are a suffix of that list. Slower by a constant, but nothing in it grows with the number of tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from twinraven.huginn.mining.columns import EventColumns, Flags, Ints, SmallInts
from twinraven.huginn.mining.last_calls import LastCalls
from twinraven.huginn.mining.ordering import group_starts, runs, stable_order
from twinraven.huginn.mining.pattern_growth import NextTools, PatternEnds, PatternGrowth, Projection
from twinraven.huginn.mining.search import Search, Tally
from twinraven.huginn.mining.stretches import Stretches, kept_tools

MOST_MASKED = 63
_BLOCK_BITS = 5
_BLOCK = 1 << _BLOCK_BITS
_NO_PARENTS = np.empty(0, np.int64)

Masks = NDArray[np.uint32] | NDArray[np.uint64]


def mine_prefix_span(columns: EventColumns, search: Search) -> list[Tally]:
    """Mine all gapped chains the search asks for, with their counts; in no particular order."""
    stretches = Stretches.cut(columns, kept_tools(columns, search), respect_breaks=search.respect_breaks)
    return PatternGrowth(stretches, project(stretches), search).run()


def project(stretches: Stretches) -> Projection:
    """Return the projection that suits the number of tools."""
    return MaskProjection(stretches) if len(stretches.kept) <= MOST_MASKED else ListProjection(stretches)


class MaskProjection:
    """Up to 63 tools: what is to come after an event is one machine word."""

    one_end = True

    def __init__(self, stretches: Stretches) -> None:
        self._stretches = stretches
        self._tools = len(stretches.kept)
        # Little-endian by name, so that the bits of a word unpack in the order of the tools on every machine.
        self._word = np.dtype("<u4" if self._tools < 32 else "<u8")
        self._bits = self._word.itemsize * 8
        self._bit = [self._word.type(1 << tool) for tool in range(self._bits)]
        repeats = stretches.repeats()
        self._masks = self._still_to_come(repeats)
        self._first = np.concatenate((np.ones(1, np.bool_), ~repeats))
        self._rank = self._index()

    def roots(self, tools: Iterable[int], minimum: int) -> Iterator[PatternEnds]:
        for tool in tools:
            places = self._stretches.places(tool)
            at = np.flatnonzero(self._first[places]) + places.start
            if len(at) >= minimum:
                yield PatternEnds(tool, at, _NO_PARENTS, self._masks.take(at))

    def extensions(self, ends: PatternEnds, choice: NextTools) -> Iterator[PatternEnds]:
        assert ends.masks is not None
        masks = ends.masks & self._word.type(ends.onward & (1 << self._tools) - 1)
        if choice.tools is not None:
            tools, onward = list(choice.tools), -1
        elif np.count_nonzero(masks) < choice.minimum:
            return
        else:
            tools = np.flatnonzero(self._count(masks) >= choice.minimum).tolist()
            # A tool too rare after this chain is too rare after every chain that begins with it.
            onward = sum(1 << tool for tool in tools)
        events = self._stretches.events.take(ends.at).astype(np.int64)
        for tool in tools:
            parents = np.flatnonzero((masks & self._bit[tool]) != 0)
            at = self._next(tool, events.take(parents))
            yield PatternEnds(tool, at, parents, self._masks.take(at), onward)

    def instances(self, ends: PatternEnds) -> Ints | None:  # noqa: ARG002 - every end closes one
        return None

    def failures(self, ends: PatternEnds, instances: Ints | None) -> int:  # noqa: ARG002
        assert ends.masks is not None
        return int(np.count_nonzero(ends.masks >= self._bit[-1]))

    def _still_to_come(self, repeats: Flags) -> Masks:
        """At each place a bit for every tool called later in the stretch, and the top bit if the call failed.

        A tool is still to come until its last call, and every tool has one last call a stretch: the running XOR of the
        last calls' bits, against its value at the end of the stretch, leaves exactly the tools between.
        """
        stretches = self._stretches
        last = np.array(self._bit[: self._tools], self._word)[stretches.tool_at_place()]
        last[:-1][repeats] = 0
        masks = np.empty_like(last)
        masks[stretches.events] = last
        del last
        np.bitwise_xor.accumulate(masks, out=masks)
        masks ^= np.repeat(masks[stretches.offsets[1:] - 1], np.diff(stretches.offsets))
        masks = masks[stretches.events]
        masks[stretches.by_place(stretches.columns.failed)] |= self._bit[-1]
        return masks

    def _index(self) -> Ints:
        """For each tool and block of events, the tool's first place in or after the block, and a bitmap of the block.

        The place is in the upper half of a word and the bitmap in the lower, so that one look-up fetches both.
        """
        index = np.zeros((self._tools, len(self._stretches) // _BLOCK + 1), np.int64)
        for tool in range(self._tools):
            places = self._stretches.places(tool)
            events = self._stretches.events[places]
            block = events >> _BLOCK_BITS
            begins = group_starts(block)
            if len(begins):
                index[tool, block[begins]] = np.add.reduceat(np.int64(1) << (events & (_BLOCK - 1)), begins)
            counts = np.bitwise_count(index[tool])
            index[tool] |= (np.cumsum(counts, dtype=np.int64) - counts + places.start) << _BLOCK
        return index

    def _count(self, masks: Masks) -> Ints:
        """Return how many masks have each tool's bit.

        Bits are unpacked to bytes and added up in at most 255 long rows at a time, which is as fast as memory; NumPy's
        own sum over short rows is not.
        """
        width = -(-len(masks) // 255)
        rows = len(masks) // width
        bits = np.unpackbits(masks.view(np.uint8), bitorder="little")
        whole = rows * width * self._bits
        sums = np.add.reduce(bits[:whole].reshape(rows, width * self._bits), axis=0, dtype=np.uint8)
        counts = sums.reshape(width, self._bits).sum(axis=0, dtype=np.int64)
        counts += bits[whole:].reshape(-1, self._bits).sum(axis=0, dtype=np.int64)
        return counts[: self._tools]

    def _next(self, tool: int, after: Ints) -> Ints:
        """Return the place of the next call of a tool after each event, given that there is one in its stretch."""
        found = self._rank[tool].take(after >> _BLOCK_BITS)
        passed = (_BLOCK - 1) - (after & (_BLOCK - 1))
        np.left_shift(found, passed, out=passed)
        passed &= (1 << _BLOCK) - 1
        found >>= _BLOCK
        found += np.bitwise_count(passed)
        return found


class ListProjection:
    """Any number of tools: what is to come after an event is a suffix of its stretch's list of last calls."""

    one_end = True

    def __init__(self, stretches: Stretches) -> None:
        self._stretches = stretches
        self._failed = stretches.by_place(stretches.columns.failed)
        self._last_calls = LastCalls(stretches)

    def roots(self, tools: Iterable[int], minimum: int) -> Iterator[PatternEnds]:
        for tool in self._last_calls.leading_on(tools, minimum):
            yield PatternEnds(tool, self._last_calls.first_calls(tool), _NO_PARENTS)

    def extensions(self, ends: PatternEnds, choice: NextTools) -> Iterator[PatternEnds]:
        tools, owners = self._last_calls.following(ends.at)
        if choice.tools is not None:
            chosen = np.flatnonzero(np.isin(tools, np.array(choice.tools)))
            tools, owners = tools[chosen], owners[chosen]
        order = stable_order(tools, len(self._stretches.kept))
        tools, owners = tools[order], owners[order]
        events = self._stretches.events.take(ends.at)
        for tool, begin, end in runs(tools):
            if end - begin >= choice.minimum:
                parents = owners[begin:end]
                yield PatternEnds(tool, self._next(tool, events.take(parents)), parents)

    def instances(self, ends: PatternEnds) -> Ints | None:  # noqa: ARG002 - every end closes one
        return None

    def failures(self, ends: PatternEnds, instances: Ints | None) -> int:  # noqa: ARG002
        return int(np.count_nonzero(self._failed.take(ends.at)))

    def _next(self, tool: int, after: SmallInts) -> Ints:
        places = self._stretches.places(tool)
        return np.searchsorted(self._stretches.events[places], after, side="right") + places.start
