"""The three algorithms against their definitions, and what they do with logs that teach nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.huginn.mining.oracle import Log, columns_of, counted, logs, mined_slowly, plain
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining import Algorithm, EventColumns, MiningConfig, find_instances, mine, prepare
from twinraven.huginn.mining.pattern_growth import PatternGrowth
from twinraven.huginn.mining.prefix_span import ListProjection, MaskProjection
from twinraven.huginn.mining.search import search_all
from twinraven.huginn.mining.stretches import Stretches, kept_tools

ALGORITHMS: list[Algorithm] = ["contiguous", "prefixspan", "gsp"]


@st.composite
def configs(draw: st.DrawFn, algorithm: Algorithm) -> MiningConfig:
    shortest = draw(st.integers(2, 3))
    return MiningConfig(
        algorithm=algorithm,
        min_support=draw(st.sampled_from([0.01, 0.3, 0.5, 1.0])),
        min_sessions=draw(st.integers(1, 3)),
        min_length=shortest,
        max_length=draw(st.integers(shortest, 5)),
        max_gap_ms=draw(st.integers(0, 6)) if algorithm == "gsp" else None,
        collapse_repeats=draw(st.booleans()),
        respect_breaks=draw(st.booleans()),
    )


def is_minable(log: Log, config: MiningConfig) -> bool:
    return config.algorithm != "gsp" or any(call.timed for session in log for call in session)


@pytest.mark.req("TR-11", "TR-13")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
def test_every_count_is_the_one_its_definition_gives(algorithm: Algorithm, data: st.DataObject) -> None:
    """Chains, sessions, instances, failures, latencies and mergeability equal those of plain enumeration."""
    log = data.draw(logs())
    config = data.draw(configs(algorithm))
    if is_minable(log, config):
        assert counted(mine(columns_of(log), config)) == mined_slowly(log, config)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
def test_the_instances_found_are_the_instances_counted(algorithm: Algorithm, data: st.DataObject) -> None:
    """A mined chain has as many instances as were counted, and each reads as the chain does."""
    log = data.draw(logs())
    config = data.draw(configs(algorithm))
    if not is_minable(log, config):
        return
    columns = columns_of(log)
    prepared = prepare(columns, config)
    for pattern in mine(columns, config):
        found = find_instances(
            prepared,
            pattern.tools,
            gapped=config.gapped,
            respect_breaks=config.respect_breaks,
            max_gap_ms=config.max_gap_ms,
        )
        assert len(found) == pattern.occurrences
        assert len(set(prepared.session_of(found[:, 0]).tolist())) == pattern.sessions
        assert np.all(np.diff(found, axis=1) > 0)
        assert np.count_nonzero(prepared.failed[found[:, -1]]) == pattern.failures
        called: list[list[int]] = prepared.tools[found].tolist()
        assert all(tuple(prepared.names[tool] for tool in row) == pattern.tools for row in called)


@given(log=logs(tools="abcde"), respect_breaks=st.booleans())
def test_both_projections_of_gapped_chains_agree(log: Log, respect_breaks: bool) -> None:
    """The list of last calls, made for many tools, counts what the bit masks count for few."""
    columns = columns_of(log)
    config = MiningConfig(algorithm="prefixspan", min_support=0.01, min_sessions=1, respect_breaks=respect_breaks)
    search = search_all(columns, config)
    stretches = Stretches.cut(columns, kept_tools(columns, search), respect_breaks=respect_breaks)
    masked = PatternGrowth(stretches, MaskProjection(stretches), search).run()
    listed = PatternGrowth(stretches, ListProjection(stretches), search).run()
    assert sorted(masked) == sorted(listed)


@pytest.mark.parametrize("tools", [31, 32, 63, 64, 300])
def test_the_number_of_tools_changes_no_count(tools: int) -> None:
    """Counts are right on both sides of every word size that the kernels choose between."""
    random = np.random.default_rng(tools)
    sessions: list[list[int]] = random.integers(0, tools, (200, 6)).tolist()
    names = [f"t{number:03d}" for number in range(tools)]
    offsets = np.arange(0, 6 * 200 + 1, 6)
    columns = EventColumns.from_arrays(names, np.array(sessions).ravel(), offsets)
    expected: dict[tuple[str, ...], int] = {}
    for session in sessions:
        pairs = {(names[session[i]], names[session[j]]) for j in range(6) for i in range(j)}
        for pair in pairs:
            expected[pair] = expected.get(pair, 0) + 1
    config = MiningConfig(algorithm="prefixspan", min_support=0.001, min_sessions=1, max_length=2)
    assert {found.tools: found.sessions for found in mine(columns, config)} == expected


@pytest.mark.req("TR-12")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
def test_the_same_events_and_snapshot_give_the_same_list(algorithm: Algorithm, data: st.DataObject) -> None:
    """Mining again from the stored snapshot, with the sessions read in another order, repeats chains and order."""
    log = data.draw(logs())
    config = data.draw(configs(algorithm))
    if not is_minable(log, config):
        return
    shuffled = data.draw(st.permutations(log))
    again = MiningConfig.from_dict(config.as_dict())
    assert mine(columns_of(shuffled), again) == mine(columns_of(log), config)


def test_results_are_sorted_by_sessions_then_instances_then_length_then_name() -> None:
    """The order says what matters most first and leaves no tie open."""
    found = mine(plain("abab", "ab", "cd", "cd", "abab"), MiningConfig(min_support=0.1))
    assert ["".join(pattern.tools) for pattern in found] == ["ab", "ba", "cd", "aba", "bab", "abab"]
    assert [(pattern.sessions, pattern.occurrences) for pattern in found[:2]] == [(3, 5), (2, 2)]


def test_a_chain_of_one_tool_takes_each_call_once() -> None:
    """A run of a million equal calls holds half a million pairs, found without a step for each."""
    columns = EventColumns.from_arrays(["a"], np.zeros(1_000_001, np.int32), np.array([0, 1_000_001]))
    found = mine(columns, MiningConfig(min_sessions=1, max_length=3))
    assert [(len(pattern.tools), pattern.occurrences) for pattern in found] == [(2, 500_000), (3, 333_333)]


def test_nothing_merges_across_what_a_user_said() -> None:
    """A chain interrupted by outside input is not one, whatever the algorithm."""
    rows = [(f"s{n}", tool, tool == "b", False, 5, at, True) for n in range(3) for at, tool in enumerate("ab")]
    columns = EventColumns.build(rows)
    for algorithm in ALGORITHMS:
        gap = 1_000 if algorithm == "gsp" else None
        assert mine(columns, MiningConfig(algorithm=algorithm, max_gap_ms=gap)) == []
        across = mine(columns, MiningConfig(algorithm=algorithm, max_gap_ms=gap, respect_breaks=False))
        assert [(found.tools, found.sessions, found.mergeable) for found in across] == [(("a", "b"), 3, 0)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_logs_that_teach_nothing_give_nothing(algorithm: Algorithm) -> None:
    """No events, one session, and sessions of a single call hold no chain, and that is no error."""
    config = MiningConfig(algorithm=algorithm, max_gap_ms=10 if algorithm == "gsp" else None)
    timed = [("only", tool, False, False, 1, at, True) for at, tool in enumerate("abcabc")]
    single = [(f"s{number}", "a", False, False, 1, 0, True) for number in range(50)]
    for rows in ([], timed, single):
        assert mine(EventColumns.build(rows), config) == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_million_distinct_tools_are_no_burden(algorithm: Algorithm) -> None:
    """Where every tool is called once, nothing repeats and nothing is built for it."""
    count = 1_000_000
    columns = EventColumns.from_arrays(
        [f"t{number:07d}" for number in range(count)],
        np.arange(count),
        np.arange(0, count + 1, 10),
        start=np.arange(count),
    )
    gap = 10 if algorithm == "gsp" else None
    assert mine(columns, MiningConfig(algorithm=algorithm, min_support=1e-6, max_gap_ms=gap)) == []


def test_of_thousands_of_tools_those_that_lead_nowhere_cost_nothing_and_change_nothing() -> None:
    """Pairs among 4,000 tools equal those of plain sets, and a gap longer than the log changes none of them."""
    random = np.random.default_rng(3)
    rows: list[list[int]] = random.integers(0, 4_000, (60, 200)).tolist()
    names = [f"t{number:04d}" for number in range(4_000)]
    columns = EventColumns.from_arrays(
        names, np.array(rows).ravel(), np.arange(0, 60 * 200 + 1, 200), start=np.arange(60 * 200)
    )
    seen = Counter(
        pair for row in rows for pair in {(one, other) for at, one in enumerate(row) for other in row[at + 1 :]}
    )
    expected = {(names[one], names[other]): count for (one, other), count in seen.items() if count >= 3}
    config = MiningConfig(algorithm="prefixspan", min_support=0.05, max_length=2)
    assert {found.tools: found.sessions for found in mine(columns, config)} == expected
    assert mine(columns, replace(config, algorithm="gsp", max_gap_ms=1_000)) == mine(columns, config)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_too_many_chains_are_refused_by_name(algorithm: Algorithm) -> None:
    """A threshold that lets everything through ends in an error that says what to change, not in a full memory."""
    random = np.random.default_rng(1)
    columns = EventColumns.from_arrays(
        [f"t{number:03d}" for number in range(500)],
        random.integers(0, 500, 100_000),
        np.arange(0, 100_001, 20),
        start=np.arange(100_000),
    )
    gap = 10_000 if algorithm == "gsp" else None
    config = MiningConfig(algorithm=algorithm, min_support=1e-6, min_sessions=1, max_gap_ms=gap, max_patterns=1_000)
    with pytest.raises(InvalidInput, match="raise min_support") as refused:
        mine(columns, config)
    assert refused.value.details["field"] == "max_patterns"


def test_idle_gaps_need_times() -> None:
    """A log without known times is refused for gsp, with the algorithms that can take it."""
    with pytest.raises(InvalidInput, match="use prefixspan or contiguous"):
        mine(plain("ab", "ab"), MiningConfig(algorithm="gsp", max_gap_ms=5))


def test_a_log_longer_than_a_slice_is_counted_whole() -> None:
    """Slices are an inner matter: counts over 400,000 events equal those of one plain pass, for few tools and many."""
    for tools in (7, 3_000):
        random = np.random.default_rng(tools)
        ids = random.integers(0, tools, 400_000)
        offsets = np.arange(0, 400_001, 8)
        names = [f"t{number:04d}" for number in range(tools)]
        seen: dict[tuple[str, str], set[int]] = {}
        for session, row in enumerate(ids.reshape(-1, 8).tolist()):
            for one, other in pairwise(row):
                seen.setdefault((names[one], names[other]), set()).add(session)
        config = MiningConfig(min_support=1e-9, max_length=2)
        found = mine(EventColumns.from_arrays(names, ids, offsets), config)
        expected = {pair: len(sessions) for pair, sessions in seen.items() if len(sessions) >= 2}
        assert {pattern.tools: pattern.sessions for pattern in found} == expected
