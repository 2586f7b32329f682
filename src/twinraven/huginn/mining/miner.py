"""Mines a log: the configuration picks the kernel, the result is one sorted list."""

from __future__ import annotations

from typing import NamedTuple

from twinraven.huginn.mining.collapse import collapse_repeats
from twinraven.huginn.mining.columns import EventColumns
from twinraven.huginn.mining.config import MiningConfig
from twinraven.huginn.mining.contiguous import mine_contiguous
from twinraven.huginn.mining.idle_gap import mine_idle_gap, require_times
from twinraven.huginn.mining.patterns import Pattern, in_order
from twinraven.huginn.mining.prefix_span import mine_prefix_span
from twinraven.huginn.mining.search import OverBudget, Search, as_patterns, raised, search_all


def mine(columns: EventColumns, config: MiningConfig) -> list[Pattern]:
    """Return every chain that the configuration asks for, best supported first. An empty log holds none."""
    if config.algorithm == "gsp":
        require_times([columns])
    prepared = prepare(columns, config)
    return in_order(run_search(prepared, config, search_all(prepared, config)))


class MiningResult(NamedTuple):
    """The result of a mining run within its budget: every chain in at least `minimum` sessions."""

    patterns: list[Pattern]
    minimum: int
    cut: str | None
    """Why the threshold was raised to `minimum`; None where it was not."""


def mine_within_budget(columns: EventColumns, config: MiningConfig) -> MiningResult:
    """Like `mine`, but a log that holds more than the budget allows is mined with a higher threshold.

    The threshold doubles until the chains above it fit, so the result is exactly that of the threshold it ends with. A
    log made to defeat pruning costs a few times the budget and no more.
    """
    if config.algorithm == "gsp":
        require_times([columns])
    prepared = prepare(columns, config)
    search = search_all(prepared, config)
    asked, cut = search.minimum, None
    while True:
        try:
            return MiningResult(in_order(run_search(prepared, config, search)), search.minimum, cut)
        except OverBudget as error:
            limit, unit = error.details["limit"], "chains" if error.details["field"] == "max_patterns" else "looks"
            search = raised(search, search.minimum * 2)
            cut = (
                f"cut to the chains in at least {search.minimum} sessions: those in at least {asked} "
                f"take more than {limit:,} {unit}"
            )


def prepare(columns: EventColumns, config: MiningConfig) -> EventColumns:
    """Return the log as the configuration mines it; links and instances are looked up in these columns."""
    return collapse_repeats(columns, respect_breaks=config.respect_breaks) if config.collapse_repeats else columns


def run_search(prepared: EventColumns, config: MiningConfig, search: Search) -> list[Pattern]:
    """Run a search in prepared columns; the order of the result is undefined."""
    if not len(prepared):
        return []
    if config.algorithm == "gsp":
        assert config.max_gap_ms is not None
        tallies = mine_idle_gap(prepared, search, max_gap_ms=config.max_gap_ms)
    elif config.algorithm == "prefixspan":
        tallies = mine_prefix_span(prepared, search)
    else:
        tallies = mine_contiguous(prepared, search)
    return as_patterns(prepared, tallies)
