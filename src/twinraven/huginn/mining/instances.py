"""Finds the instances of a chain in the columns: the calls of each, for samples and for wiring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining.columns import EventColumns, Ints
from twinraven.huginn.mining.disjoint import sharing_calls
from twinraven.huginn.mining.idle_gap import GapProjection
from twinraven.huginn.mining.pattern_growth import NextTools, PatternEnds, Projection
from twinraven.huginn.mining.prefix_span import project
from twinraven.huginn.mining.stretches import Stretches, stretch_heads


def find_instances(
    columns: EventColumns,
    tools: Sequence[str],
    *,
    gapped: bool = False,
    respect_breaks: bool = True,
    max_gap_ms: int | None = None,
) -> Ints:
    """Find the positions in `columns` of the calls of every instance, one instance a row, ascending.

    These are the instances that mining counts: contiguous ones from the left without sharing a call, gapped ones one a
    stretch, and with `max_gap_ms` those of `gsp`. `columns.rows[positions]` leads back to the caller's events. A chain
    mined with repeats collapsed is looked up in the collapsed columns (`prepare`).
    """
    if not tools:
        raise InvalidInput("give the tools of the chain", field="tools")
    ids = columns.tool_ids(tools)
    if ids is None or not len(columns):
        return np.empty((0, len(tools)), np.int64)
    if not gapped:
        return _contiguous(columns, ids, respect_breaks=respect_breaks)
    kept = np.array(sorted(set(ids)), np.int64)
    usable = None if max_gap_ms is None else columns.time_known
    stretches = Stretches.cut(columns, kept, respect_breaks=respect_breaks, usable=usable)
    projection = project(stretches) if max_gap_ms is None else GapProjection(stretches, max_gap_ms=max_gap_ms)
    return _traced(stretches, projection, np.searchsorted(kept, ids).tolist())


def _contiguous(columns: EventColumns, ids: list[int], *, respect_breaks: bool) -> Ints:
    length = len(ids)
    heads = stretch_heads(columns, respect_breaks=respect_breaks)
    starts = np.flatnonzero(columns.tools[: max(len(columns) - length + 1, 0)] == ids[0])
    for step in range(1, length):
        at = starts + step
        starts = starts[(columns.tools[at] == ids[step]) & ~heads[at]]
    near = np.flatnonzero(np.diff(starts) < length)
    apart = np.delete(starts, sharing_calls(starts, near, length))
    return apart[:, None] + np.arange(length)


def _traced(stretches: Stretches, projection: Projection, tools: list[int]) -> Ints:
    """Follow the chain forwards, then every instance back from its end."""
    path: list[PatternEnds] = list(projection.roots(tools[:1], 1))
    for tool in tools[1:] if path else ():
        longer = next(iter(projection.extensions(path[-1], NextTools(1, (tool,)))), None)
        if longer is None:
            return np.empty((0, len(tools)), np.int64)
        path.append(longer)
    chosen = projection.instances(path[-1])
    number = np.arange(len(path[-1].at)) if chosen is None else chosen
    positions = np.empty((len(number), len(tools)), np.int64)
    for step in range(len(tools) - 1, -1, -1):
        events = stretches.events[path[step].at[number]]
        positions[:, step] = events if stretches.positions is None else stretches.positions[events]
        number = path[step].parents[number] if step else number
    return positions
