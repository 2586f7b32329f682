"""Transition probabilities and gaps come from neighbouring calls of the log."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from tests.unit.huginn.mining.oracle import Log, columns_of, logs, plain
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining import (
    ChainLink,
    EventColumns,
    MiningConfig,
    chain_links,
    merge_transitions,
    mine,
    transition_counts,
)


@pytest.mark.req("TR-14")
@given(log=logs())
def test_links_are_what_neighbouring_calls_say(log: Log) -> None:
    """P(to | from) and the mean gap equal those counted call by call."""
    counts = transition_counts(columns_of(log))
    steps = [step for session in log for step in pairwise(session)]
    for one in "abc":
        leaving = [step for step in steps if step[0].tool == one]
        for other in "abc":
            taken = [step for step in leaving if step[1].tool == other]
            gaps = [
                max(later.start - earlier.end, 0)
                for earlier, later in taken
                if earlier.timed and later.timed and earlier.latency is not None
            ]
            expected = ChainLink(
                one,
                other,
                len(taken) / len(leaving) if leaving else 0.0,
                round(sum(gaps) / len(gaps) / 1_000) if gaps else None,
            )
            assert counts.link(one, other) == expected


@pytest.mark.req("TR-11", "TR-14")
def test_confidence_is_the_average_over_the_links() -> None:
    """Of three ways on from a two lead to b, and b always leads to c: confidence is the mean of the two shares."""
    counts = transition_counts(plain("abc", "abc", "ac"))
    links = counts.links(("a", "b", "c"))
    assert [link.transition_probability for link in links] == [2 / 3, 1.0]
    assert counts.confidence(("a", "b", "c")) == pytest.approx(5 / 6)


@pytest.mark.req("TR-13", "TR-14")
@given(log=logs())
def test_every_mined_chain_has_links(log: Log) -> None:
    """Each chain decomposes into one link per step, with probabilities between 0 and 1."""
    columns = columns_of(log)
    counts = transition_counts(columns)
    for pattern in mine(columns, MiningConfig(min_support=0.01, min_sessions=1)):
        links = chain_links(counts, pattern.tools)
        assert [(link.from_tool, link.to_tool) for link in links] == list(pairwise(pattern.tools))
        assert all(0 < link.transition_probability <= 1 for link in links)
        assert 0 <= pattern.support <= 1
        assert 0 <= pattern.failure_rate <= 1


@given(log=logs(), fresh=logs())
def test_transitions_of_parts_add_up(log: Log, fresh: Log) -> None:
    """Counting two parts and adding gives what counting both at once gives."""
    parts = [transition_counts(columns_of(part)) for part in (log, fresh)]
    assert merge_transitions(parts).transitions == transition_counts(columns_of(log + fresh)).transitions


def test_a_single_tool_has_no_links() -> None:
    """Links are asked of chains; fewer than two tools is the caller's mistake."""
    with pytest.raises(InvalidInput, match="at least two tools"):
        chain_links(plain("ab"), ("a",))


def test_an_empty_log_has_no_transitions() -> None:
    """Nothing follows anything, and asking is no error."""
    assert transition_counts(EventColumns.build([])).probability("a", "b") == 0.0
