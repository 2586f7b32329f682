"""Finding the instances of many chains finds those of each, and a budget bounds what any log can ask for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.huginn.mining.oracle import columns_of, logs
from tests.unit.huginn.mining.test_mine import ALGORITHMS, configs, is_minable
from twinraven.foundation.clock import utc_now
from twinraven.huginn import mine_chains
from twinraven.huginn.mining import (
    Algorithm,
    EventColumns,
    InstanceFinder,
    MiningConfig,
    find_instances,
    mine,
    mine_within_budget,
    prepare,
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
def test_the_finder_agrees_with_a_search_of_the_whole_log(algorithm: Algorithm, data: st.DataObject) -> None:
    """Every chain has the instances that one pass over the log gives it, in the same order, also the first few."""
    log = data.draw(logs())
    config = data.draw(configs(algorithm))
    if not is_minable(log, config):
        return
    prepared = prepare(columns_of(log), config)
    finder = InstanceFinder(prepared, config)
    for found in mine(columns_of(log), config):
        expected = find_instances(
            prepared,
            found.tools,
            gapped=config.gapped,
            respect_breaks=config.respect_breaks,
            max_gap_ms=config.max_gap_ms,
        )
        assert finder.every(found.tools).tolist() == expected.tolist()
        assert finder.first(found.tools, 2).tolist() == expected[:2].tolist()


def _crowded() -> EventColumns:
    """A log in which everything follows everything about equally often, so that no threshold prunes much."""
    random = np.random.default_rng(2)
    names = [f"t{number:02d}" for number in range(30)]
    return EventColumns.from_arrays(
        names, random.integers(0, 30, 60_000), np.arange(0, 60_001, 10), start=np.arange(60_000)
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("budget", [{"max_patterns": 300}, {"max_work": 200_000}])
def test_a_log_beyond_the_budget_is_cut_and_says_so(algorithm: Algorithm, budget: dict[str, int]) -> None:
    """The result is that of the higher threshold it names, within the budget, and a reason comes with it."""
    gap = 10_000 if algorithm == "gsp" else None
    config = MiningConfig.from_dict({"algorithm": algorithm, "min_support": 0.001, "max_gap_ms": gap, **budget})
    mined = mine_within_budget(_crowded(), config)
    if algorithm == "contiguous" and "max_work" in budget:
        assert mined.cut is None, "contiguous chains take one pass a length, whatever the log"
        return
    assert mined.cut is not None
    assert f"at least {mined.minimum} sessions" in mined.cut
    raised = MiningConfig(
        algorithm=algorithm, min_support=0.001, min_sessions=mined.minimum, max_gap_ms=gap, max_patterns=10**6
    )
    assert mined.patterns == mine(_crowded(), raised)
    assert len(mined.patterns) <= config.max_patterns


def test_what_was_cut_is_told_to_whoever_asked_for_chains() -> None:
    """Chains of a run that its budget cut come with a note; a run within its budget has none."""
    notes: list[str] = []
    config = MiningConfig(min_support=0.001, max_patterns=100)
    mine_chains(_crowded(), config, now=utc_now(), note=notes.append)
    assert len(notes) == 1
    assert notes[0].startswith("cut to the chains in at least")
    mine_chains(_crowded(), MiningConfig(min_support=0.2), now=utc_now(), note=notes.append)
    assert len(notes) == 1


def test_a_chain_below_the_least_confidence_is_no_candidate() -> None:
    """`min_confidence` bounds the mean transition probability of every chain."""
    columns = _crowded()
    every = mine_chains(columns, MiningConfig(min_support=0.005), now=utc_now())
    bound = sorted(item.chain.confidence for item in every)[len(every) // 2]
    sure = mine_chains(columns, MiningConfig(min_support=0.005, min_confidence=bound), now=utc_now())
    assert {item.chain.tools for item in sure} == {item.chain.tools for item in every if item.chain.confidence >= bound}
