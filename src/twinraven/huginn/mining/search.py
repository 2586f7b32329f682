"""States a search of a mining kernel, in the integers of one set of columns.

A search either looks for every chain in at least `minimum` sessions, or counts the given chains whatever their number.
The second is how partitions are mined: the chains come from elsewhere and must be counted even where they are rare.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining.columns import EventColumns
from twinraven.huginn.mining.config import MiningConfig, fewest_sessions
from twinraven.huginn.mining.patterns import Pattern


class OverBudget(InvalidInput):
    """More chains, or more work, than the configuration allows."""


class Tree(dict[int, "Tree"]):
    """Chains of tool numbers by prefix."""

    __slots__ = ()


class Tally(NamedTuple):
    """The counts of one chain, before it gets its names."""

    chain: tuple[int, ...]
    sessions: int
    occurrences: int
    failures: int
    latency_total: int
    latency_known: int
    mergeable: int


@dataclass(frozen=True, slots=True)
class Search:
    """`wanted` is None when the threshold decides; otherwise only its chains and their prefixes are followed."""

    minimum: int
    min_length: int
    max_length: int
    limit: int
    most_work: int
    respect_breaks: bool
    wanted: Tree | None = None

    def check(self, found: int) -> None:
        """Refuse to go on once more chains were found than anyone asked to hold."""
        if self.wanted is None and found > self.limit:
            raise OverBudget(
                f"more than {self.limit} chains occur in at least {self.minimum} sessions: "
                "raise min_support or min_sessions, lower max_length, or raise max_patterns",
                field="max_patterns",
                limit=self.limit,
            )

    def check_work(self, work: int) -> None:
        """Refuse to go on once more ends of chains were looked at than the budget allows."""
        if self.wanted is None and work > self.most_work:
            raise OverBudget(
                f"to find the chains in at least {self.minimum} sessions takes more than {self.most_work} looks: "
                "raise min_support or min_sessions, lower max_length, or raise max_work",
                field="max_work",
                limit=self.most_work,
            )


def search_all(columns: EventColumns, config: MiningConfig) -> Search:
    """Return every chain that reaches the thresholds of the configuration in these columns."""
    least = max(fewest_sessions(config.min_support, columns.sessions), config.min_sessions)
    return _search(config, least, None)


def raised(search: Search, minimum: int) -> Search:
    """Return the same search with a higher threshold."""
    return replace(search, minimum=minimum)


def search_share(columns: EventColumns, config: MiningConfig) -> Search:
    """Return every chain that reaches `min_support` here, however few sessions that is: what a partition proposes."""
    return _search(config, fewest_sessions(config.min_support, columns.sessions), None)


def search_given(columns: EventColumns, config: MiningConfig, chains: Iterable[tuple[str, ...]]) -> Search:
    """Return the given chains, as far as their tools occur in these columns at all."""
    known = {name: number for number, name in enumerate(columns.names)}
    tree = Tree()
    for chain in chains:
        if all(name in known for name in chain):
            node = tree
            for name in chain:
                node = node.setdefault(known[name], Tree())
    return _search(config, 1, tree)


def as_patterns(columns: EventColumns, tallies: Iterable[Tally]) -> list[Pattern]:
    """Tallies with the names and the number of sessions that their columns know."""
    names, total = columns.names, columns.sessions
    return [
        Pattern(
            tools=tuple(names[tool] for tool in tally.chain),
            total_sessions=total,
            sessions=tally.sessions,
            occurrences=tally.occurrences,
            failures=tally.failures,
            latency_total=tally.latency_total,
            latency_known=tally.latency_known,
            mergeable=tally.mergeable,
        )
        for tally in tallies
    ]


def _search(config: MiningConfig, minimum: int, wanted: Tree | None) -> Search:
    return Search(
        minimum=minimum,
        min_length=config.min_length,
        max_length=config.max_length,
        limit=config.max_patterns,
        most_work=config.max_work,
        respect_breaks=config.respect_breaks,
        wanted=wanted,
    )
