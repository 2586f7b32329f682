"""Mines a log in partitions: by machine, by month, or as new sessions arrive.

Support is additive over sessions, so parts are counted alone and their counts added. What a part cannot know is which
chains matter elsewhere. A chain in a given share of all sessions is in that share of the sessions of at least one part;
hence two passes give exactly what mining the whole gives (Savasere, Omiecinski and Navathe, 1995): every part proposes
the chains frequent in it, then every part counts all proposals.

Incrementally the same: keep each part's table. A new part proposes its own chains and counts all known ones; an old
part is read again only for the proposals that its table has not counted (`missing`, `count_partition`, `joined`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining.columns import EventColumns
from twinraven.huginn.mining.config import MiningConfig, fewest_sessions
from twinraven.huginn.mining.idle_gap import require_times
from twinraven.huginn.mining.miner import prepare, run_search
from twinraven.huginn.mining.patterns import Pattern, in_order, unseen
from twinraven.huginn.mining.search import search_given, search_share

Chain = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MinedTable:
    """The exact counts of some chains over some sessions; a chain counted and not found is there with zeros."""

    total_sessions: int
    counts: dict[Chain, Pattern]

    def missing(self, chains: Iterable[Chain]) -> set[Chain]:
        """Return the chains that this table has not counted."""
        return set(chains) - self.counts.keys()

    def joined(self, other: MinedTable) -> MinedTable:
        """More chains counted over the same sessions."""
        if other.total_sessions != self.total_sessions:
            raise InvalidInput("tables over different sessions cannot be joined: merge them", field="total_sessions")
        return MinedTable(self.total_sessions, self.counts | other.counts)


def propose_chains(columns: EventColumns, config: MiningConfig) -> set[Chain]:
    """Return the chains in at least `min_support` of these sessions, however few that makes."""
    prepared = prepare(columns, config)
    return {found.tools for found in run_search(prepared, config, search_share(prepared, config))}


def count_partition(columns: EventColumns, config: MiningConfig, chains: Iterable[Chain]) -> MinedTable:
    """Return the counts of these chains over these sessions."""
    asked = set(chains)
    for chain in asked:
        if not config.min_length <= len(chain) <= config.max_length:
            raise InvalidInput(f"chain {chain} is not of a length that this configuration counts", field="chains")
    prepared = prepare(columns, config)
    found = run_search(prepared, config, search_given(prepared, config, asked))
    counts = {pattern.tools: pattern for pattern in found if pattern.tools in asked}
    empty = {chain: unseen(chain, columns.sessions) for chain in asked - counts.keys()}
    return MinedTable(columns.sessions, counts | empty)


def merge(tables: Sequence[MinedTable]) -> MinedTable:
    """Merge the counts over all sessions of tables that counted the same chains over disjoint sessions."""
    if not tables:
        return MinedTable(0, {})
    return reduce(_merged, tables)


def frequent(table: MinedTable, config: MiningConfig) -> list[Pattern]:
    """Return the chains of a table that reach the thresholds, best supported first."""
    least = max(fewest_sessions(config.min_support, table.total_sessions), config.min_sessions)
    return in_order(found for found in table.counts.values() if found.sessions >= least)


def mine_partitions(partitions: Sequence[EventColumns], config: MiningConfig) -> list[Pattern]:
    """Exactly what `mine` finds in all partitions together, given that none of them shares a session with another."""
    if config.algorithm == "gsp":
        require_times(partitions)
    proposed: set[Chain] = set()
    for columns in partitions:
        proposed |= propose_chains(columns, config)
    return frequent(merge([count_partition(columns, config, proposed) for columns in partitions]), config)


def _merged(one: MinedTable, other: MinedTable) -> MinedTable:
    if one.counts.keys() != other.counts.keys():
        raise InvalidInput("tables that counted different chains do not add up: count what is missing", field="chains")
    counts = {chain: found.plus(other.counts[chain]) for chain, found in one.counts.items()}
    return MinedTable(one.total_sessions + other.total_sessions, counts)
