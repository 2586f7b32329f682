"""Columns hold what was recorded, in session order, whatever the order of arrival."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.generated_log import generate_log
from tests.unit.huginn.mining.oracle import Log, columns_of, logs, plain
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining import EventColumns, EventRow, MiningConfig, collapse_repeats, mine


@given(log=logs(), chance=st.randoms(use_true_random=False))
def test_interleaved_sessions_are_told_apart(log: Log, chance: Random) -> None:
    """Events of several sessions may arrive mixed; each session keeps its own order and leads back to its rows."""
    waiting = [(f"s{number}", list(session)) for number, session in enumerate(log)]
    rows: list[EventRow] = []
    while waiting:
        number = chance.randrange(len(waiting))
        name, left = waiting[number]
        call = left.pop(0)
        rows.append((name, call.tool, call.after_input, call.failed, call.latency, call.start, call.timed))
        if not left:
            del waiting[number]
    columns = EventColumns.build(rows)
    assert len(columns) == len(rows)
    order: list[int] = columns.rows.tolist()
    for position, row in enumerate(order):
        session, tool, after_input, failed, latency, start, timed = rows[row]
        assert columns.names[columns.tools[position]] == tool
        assert bool(columns.breaks[position]) == after_input
        assert bool(columns.failed[position]) == failed
        assert columns.latency[position] == (-1 if latency is None else latency)
        assert columns.start[position] == start
        assert bool(columns.time_known[position]) == timed
        first = columns.rows[columns.offsets[columns.session_of(np.array([position]))[0]]]
        assert rows[int(first)][0] == session
    assert all(np.all(np.diff(columns.rows[begin:end]) > 0) for begin, end in _sessions(columns))


def test_tools_are_numbered_by_name_alone() -> None:
    """The order in which tools first appear leaves no trace in their numbers."""
    assert plain("zab").names == plain("baz").names == ("a", "b", "z")


def test_an_absurd_latency_is_refused() -> None:
    """A latency beyond three weeks is a wrong unit, and says so."""
    with pytest.raises(InvalidInput, match="give milliseconds"):
        EventColumns.build([("s", "a", False, False, 10**12, 0, True)])


def test_selected_sessions_keep_their_rows() -> None:
    """A split of a log still leads back to the events it came from."""
    part = plain("ab", "cde", "f").select_sessions(np.array([2, 0]))
    assert part.offsets.tolist() == [0, 1, 3]
    assert part.rows.tolist() == [5, 0, 1]
    assert [part.names[tool] for tool in part.tools] == ["f", "a", "b"]


def test_a_run_of_one_tool_becomes_one_call() -> None:
    """The call that stands for a run has the first's row and start, the last's outcome and end, and their latency."""
    rows: list[EventRow] = [
        ("s", "a", False, False, 5, 1_000, True),
        ("s", "a", False, True, 7, 9_000, True),
        ("s", "b", False, False, None, 20_000, True),
        ("s", "b", False, False, 3, 21_000, False),
        ("s", "b", True, False, 3, 22_000, True),
        ("t", "b", False, False, 3, 0, True),
    ]
    folded = collapse_repeats(EventColumns.build(rows))
    assert folded.rows.tolist() == [0, 2, 4, 5]
    assert folded.offsets.tolist() == [0, 3, 4]
    assert folded.latency.tolist() == [12, -1, 3, 3]
    assert folded.end.tolist()[:2] == [16_000, 24_000]
    assert folded.failed.tolist() == [True, False, False, False]
    assert folded.time_known.tolist() == [True, False, True, True]


def test_building_holds_no_more_than_a_batch_of_objects() -> None:
    """Two hundred thousand events from a stream cost at most 40 bytes each beyond the columns they become."""
    count = 200_000

    def stream() -> Iterator[EventRow]:
        for number in range(count):
            yield f"s{number // 20}", f"t{number % 50}", False, False, 10, number, True

    tracemalloc.start()
    try:
        columns = EventColumns.build(stream())
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns) == count
    assert (peak - kept) / count <= 40


@pytest.mark.parametrize("algorithm", ["contiguous", "prefixspan"])
def test_mining_needs_few_bytes_an_event(algorithm: str) -> None:
    """Whatever the length of the log, mining it takes at most 40 bytes an event above the columns."""
    log = generate_log(sessions=40_000)
    columns = EventColumns.from_arrays(
        log.names, log.tools, log.offsets, breaks=log.breaks, failed=log.failed, latency=log.latency
    )
    config = MiningConfig.from_dict({"algorithm": algorithm, "min_support": 0.03})
    mine(columns, config)
    tracemalloc.start()
    try:
        mine(columns, config)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / len(columns) <= 40


def test_planted_chains_stand_in_the_generated_log() -> None:
    """The log that benchmarks and selection use holds what it says was planted, the same every time."""
    one, other = generate_log(sessions=3_000), generate_log(sessions=3_000)
    assert np.array_equal(one.tools, other.tools)
    columns = EventColumns.from_arrays(one.names, one.tools, one.offsets)
    found = {pattern.tools for pattern in mine(columns, MiningConfig(min_support=0.02))}
    assert len(one.planted) == 12
    assert set(one.planted) <= found


def test_columns_of_an_empty_log_are_empty() -> None:
    """No events make no sessions and no tools."""
    columns = columns_of([])
    assert (len(columns), columns.sessions, columns.names) == (0, 0, ())


def _sessions(columns: EventColumns) -> list[tuple[int, int]]:
    offsets: list[int] = columns.offsets.tolist()
    return list(pairwise(offsets))
