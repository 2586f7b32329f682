"""Collapses immediate repeats of one tool into one call.

An agent that reads five files calls `read` five times; for the shape of the work that is one step. Chains over the
folded log say so with one link instead of five different lengths.
"""

from __future__ import annotations

import numpy as np

from twinraven.huginn.mining.columns import UNKNOWN, EventColumns, Flags


def collapse_repeats(columns: EventColumns, *, respect_breaks: bool = True) -> EventColumns:
    """Collapse every run of one tool within a session into its first call.

    The call that stands for a run keeps the row, the start and the break of the first; it ends when the last of them
    ends and carries the outcome of the last; its latency is the sum, unknown if one is, and its times are known only if
    all are. Where breaks are respected, outside input ends a run.
    """
    if not len(columns):
        return columns
    first = _run_starts(columns, respect_breaks=respect_breaks)
    heads = np.flatnonzero(first)
    tails = np.append(heads[1:], len(columns)) - 1
    folded = columns.at(heads, np.searchsorted(heads, columns.offsets))
    latency = np.add.reduceat(np.maximum(columns.latency, 0), heads)
    latency[np.minimum.reduceat(columns.latency, heads) < 0] = UNKNOWN
    return EventColumns(
        names=folded.names,
        tools=folded.tools,
        offsets=folded.offsets,
        breaks=folded.breaks,
        failed=columns.failed[tails],
        latency=latency,
        start=folded.start,
        end=np.maximum.reduceat(columns.end, heads),
        time_known=np.logical_and.reduceat(columns.time_known, heads),
        rows=folded.rows,
    )


def _run_starts(columns: EventColumns, *, respect_breaks: bool) -> Flags:
    first = np.ones(len(columns), np.bool_)
    np.not_equal(columns.tools[1:], columns.tools[:-1], out=first[1:])
    first[columns.offsets[:-1][np.diff(columns.offsets) > 0]] = True
    if respect_breaks:
        first |= columns.breaks
    return first
