"""Finds the instances of many chains in one log, each at the cost of its rarest tool.

`find_instances` reads the whole log for one chain, which is right for one. Ranking asks for thousands. Here the calls
are put in order of their tools once; a chain is then looked for only where its rarest tool was called: around those
calls if it is contiguous, in their sessions if other calls may stand between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinraven.huginn.mining.columns import EventColumns, Ints
from twinraven.huginn.mining.config import MiningConfig
from twinraven.huginn.mining.disjoint import sharing_calls
from twinraven.huginn.mining.instances import find_instances
from twinraven.huginn.mining.ordering import group_starts, stable_order
from twinraven.huginn.mining.stretches import stretch_heads

_FEW_SESSIONS = 64


class InstanceFinder:
    """The instances that mining counts, of any chain of prepared columns."""

    def __init__(self, columns: EventColumns, config: MiningConfig) -> None:
        self._columns = columns
        self._config = config
        self._by_tool = stable_order(columns.tools, len(columns.names))
        counts = np.bincount(columns.tools, minlength=len(columns.names))
        self._first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        self._heads = stretch_heads(columns, respect_breaks=config.respect_breaks)

    def every(self, tools: Sequence[str]) -> Ints:
        """Return the positions of the calls of every instance, one instance a row, ascending."""
        ids = self._columns.tool_ids(tools)
        if ids is None:
            return np.empty((0, len(tools)), np.int64)
        if not self._config.gapped:
            return self._contiguous(ids)
        return self._within(tools, self._sessions_of(ids))

    def first(self, tools: Sequence[str], count: int) -> Ints:
        """Return the first so many instances."""
        ids = self._columns.tool_ids(tools)
        if ids is None or not self._config.gapped:
            return self.every(tools)[:count]
        sessions = self._sessions_of(ids)
        looked = _FEW_SESSIONS
        while True:
            found = self._within(tools, sessions[:looked])
            if len(found) >= count or looked >= len(sessions):
                return found[:count]
            looked *= 4

    def _calls(self, tool: int) -> Ints:
        return self._by_tool[self._first[tool] : self._first[tool + 1]]

    def _rarest(self, ids: list[int]) -> int:
        """Return which step of the chain is the rarest tool."""
        return min(range(len(ids)), key=lambda step: int(self._first[ids[step] + 1] - self._first[ids[step]]))

    def _contiguous(self, ids: list[int]) -> Ints:
        length, pivot, tools = len(ids), self._rarest(ids), self._columns.tools
        starts = self._calls(ids[pivot]) - pivot
        starts = starts[(starts >= 0) & (starts + length <= len(tools))]
        for step in range(length):
            at = starts + step
            fits = tools[at] == ids[step]
            starts = starts[fits & ~self._heads[at] if step else fits]
        near = np.flatnonzero(np.diff(starts) < length)
        apart = np.delete(starts, sharing_calls(starts, near, length))
        return apart[:, None] + np.arange(length)

    def _sessions_of(self, ids: list[int]) -> Ints:
        sessions = self._columns.session_of(self._calls(ids[self._rarest(ids)]))
        return sessions[group_starts(sessions)]

    def _within(self, tools: Sequence[str], sessions: Ints) -> Ints:
        positions, offsets = self._columns.places_of(sessions)
        found = find_instances(
            self._columns.at(positions, offsets),
            tools,
            gapped=True,
            respect_breaks=self._config.respect_breaks,
            max_gap_ms=self._config.max_gap_ms,
        )
        return positions[found]
