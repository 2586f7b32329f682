"""Mines chains of tools that agents repeat, with exact counts.

The log is read as columns (`EventColumns`), a `MiningConfig` says what to look for, and `mine` returns `Pattern`s in a
fixed order. Nothing here knows a database or a clock: the same columns and configuration always give the same result,
on one machine or added up over partitions (`mine_partitions`).
"""

from __future__ import annotations

from twinraven.huginn.mining.collapse import collapse_repeats
from twinraven.huginn.mining.columns import EventColumns, EventRow
from twinraven.huginn.mining.config import Algorithm, MiningConfig
from twinraven.huginn.mining.finder import InstanceFinder
from twinraven.huginn.mining.instances import find_instances
from twinraven.huginn.mining.links import (
    ChainLink,
    Transition,
    TransitionCounts,
    chain_links,
    merge_transitions,
    transition_counts,
)
from twinraven.huginn.mining.miner import MiningResult, mine, mine_within_budget, prepare
from twinraven.huginn.mining.partitions import (
    MinedTable,
    count_partition,
    frequent,
    merge,
    mine_partitions,
    propose_chains,
)
from twinraven.huginn.mining.patterns import Pattern

__all__ = [
    "Algorithm",
    "ChainLink",
    "EventColumns",
    "EventRow",
    "InstanceFinder",
    "MinedTable",
    "MiningConfig",
    "MiningResult",
    "Pattern",
    "Transition",
    "TransitionCounts",
    "chain_links",
    "collapse_repeats",
    "count_partition",
    "find_instances",
    "frequent",
    "merge",
    "merge_transitions",
    "mine",
    "mine_partitions",
    "mine_within_budget",
    "prepare",
    "propose_chains",
    "transition_counts",
]
