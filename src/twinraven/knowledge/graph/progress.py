"""Takes episodes into a knowledge graph behind their storing: one run of the engine at a time for each group.

How far a group has come is one row; an episode that was added before a crash and not counted is added again, which
changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from twinraven.knowledge.graph.model import KnowledgeGraph
from twinraven.knowledge.group_progress_sql import GroupProgress, ReaderRunEnd, StartWork
from twinraven.knowledge.model import Episode
from twinraven.knowledge.sql import find_episode
from twinraven.storage import Database, Transaction

GRAPH_WORK: Final = "house:graph"


class GraphProgress:
    """Tracks the progress of the graph in each group."""

    def __init__(self, database: Database, graph: KnowledgeGraph, start: StartWork) -> None:
        self._database = database
        self._graph = graph
        self._progress = GroupProgress("graph_progress", prefix="graph-", start=start)

    def on_stored(self, tx: Transaction, tenant_id: str, group_id: str) -> None:
        """Start the run that takes in what is new; a group that the graph lacks is taken in from its beginning."""
        self._progress.on_stored(tx, tenant_id, group_id, first=0)

    async def take_in(self, tenant_id: str, group_id: str) -> dict[str, Any]:
        """Add one episode after another until there is none left; says how many."""
        added = 0
        while True:
            found = await self._database.read(tenant_id, lambda tx: _next(tx, tenant_id, group_id))
            if found is None:
                return {"group_id": group_id, "episodes": added}
            seq, episode = found
            await self._graph.add(tenant_id, episode)
            await self._database.write(
                tenant_id, lambda tx, done=seq: self._progress.save(tx, tenant_id, group_id, next_seq=done + 1)
            )
            added += 1

    def on_end(self, tx: Transaction, end: ReaderRunEnd) -> None:
        """Let the next run begin."""
        self._progress.on_end(
            tx, end, has_more=lambda tx, tenant_id, group_id: _next(tx, tenant_id, group_id) is not None
        )


def _next(tx: Transaction, tenant_id: str, group_id: str) -> tuple[int, Episode] | None:
    """Return the first episode that the graph lacks, whole, and the number of its first part."""
    row = tx.fetch_one(
        "SELECT e.seq AS seq, e.episode_id AS episode_id FROM episodes e JOIN graph_progress p "
        "ON p.tenant_id = e.tenant_id AND p.group_id = e.group_id "
        "WHERE e.tenant_id = :tenant AND e.group_id = :group AND e.part = 0 AND e.seq >= p.next_seq "
        "ORDER BY e.seq LIMIT 1",
        tenant=tenant_id,
        group=group_id,
    )
    if row is None:
        return None
    found = find_episode(tx, tenant_id, episode_id=row["episode_id"])
    assert found is not None
    return row["seq"], found
