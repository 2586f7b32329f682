"""Parts of a log, mined alone and added up, say exactly what the whole says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.huginn.mining.oracle import Log, columns_of, logs, plain
from tests.unit.huginn.mining.test_mine import ALGORITHMS, configs, is_minable
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining import (
    Algorithm,
    EventColumns,
    MiningConfig,
    count_partition,
    frequent,
    merge,
    mine,
    mine_partitions,
    propose_chains,
)


def parts_of(data: st.DataObject, columns: EventColumns) -> list[EventColumns]:
    """The sessions of a log dealt out to up to four parts, some of them perhaps empty."""
    dealt = np.array([data.draw(st.integers(0, 3)) for _ in range(columns.sessions)], np.int64)
    return [columns.select_sessions(np.flatnonzero(dealt == part)) for part in range(4)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
def test_parts_add_up_to_the_whole(algorithm: Algorithm, data: st.DataObject) -> None:
    """However the sessions are dealt out, the chains, their counts and their order are those of the whole log."""
    log = data.draw(logs())
    config = data.draw(configs(algorithm))
    if is_minable(log, config):
        columns = columns_of(log)
        assert mine_partitions(parts_of(data, columns), config) == mine(columns, config)


@given(log=logs(), fresh=logs(), data=st.data())
def test_new_sessions_are_added_without_mining_the_old_again(log: Log, fresh: Log, data: st.DataObject) -> None:
    """An old part is counted only for chains it has no counts of, and the result is that of mining everything."""
    config = data.draw(configs("prefixspan"))
    old, new = columns_of(log), columns_of(fresh)
    table = count_partition(old, config, propose_chains(old, config))
    proposed = propose_chains(new, config)
    table = table.joined(count_partition(old, config, table.missing(proposed)))
    added = count_partition(new, config, table.counts.keys())
    assert frequent(merge([table, added]), config) == mine(columns_of(log + fresh), config)


def test_a_chain_that_does_not_occur_is_counted_as_such() -> None:
    """Zero is a count: a part that lacks a chain, or even its tools, says so."""
    table = count_partition(plain("ab", "ab", "c"), MiningConfig(), [("a", "b"), ("b", "a"), ("a", "nowhere")])
    assert {chain: found.sessions for chain, found in table.counts.items()} == {
        ("a", "b"): 2,
        ("b", "a"): 0,
        ("a", "nowhere"): 0,
    }
    assert table.total_sessions == 3


def test_tables_of_different_chains_are_not_added() -> None:
    """Adding counts of a chain that one part never counted would be a lie, so it is refused."""
    config = MiningConfig()
    one = count_partition(plain("ab"), config, [("a", "b")])
    other = count_partition(plain("ba"), config, [("b", "a")])
    with pytest.raises(InvalidInput, match="count what is missing"):
        merge([one, other])


def test_tables_over_different_sessions_are_not_joined() -> None:
    """Joining is for more chains over the same sessions; other sessions are merged."""
    config = MiningConfig()
    one = count_partition(plain("ab"), config, [("a", "b")])
    other = count_partition(plain("ab", "ba"), config, [("b", "a")])
    with pytest.raises(InvalidInput, match="merge them"):
        one.joined(other)


def test_a_chain_of_a_length_not_mined_is_refused() -> None:
    """Counting a single tool, or a chain beyond max_length, is not what the configuration describes."""
    with pytest.raises(InvalidInput) as refused:
        count_partition(plain("ab"), MiningConfig(), [("a",)])
    assert refused.value.details["field"] == "chains"


def test_no_parts_hold_no_chains() -> None:
    """Nothing added up is nothing."""
    assert mine_partitions([], MiningConfig()) == []
