"""Takes episodes into a knowledge graph behind their storing: one run of the engine at a time for each group.

The run is started in the transaction that stores an episode, so that none is forgotten and nobody waits. How far a
group has come is one row; an episode that was added before a crash and not counted is added again, which changes
nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from twinraven.foundation.ids import new_id
from twinraven.knowledge.graph.model import KnowledgeGraph
from twinraven.knowledge.model import Episode
from twinraven.knowledge.sql import find_episode
from twinraven.storage import Database, Row, Transaction

GRAPH_WORK: Final = "house:graph"
RUN_PREFIX: Final = "graph-"

StartWork = Callable[[Transaction, str, str, str], None]
"""Starts the run that takes a group's episodes in: tenant, group, run id."""


class EndedRun(Protocol):
    """What is told of a run that ended."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def state(self) -> str: ...


class GraphProgress:
    """How far the graph has come in each group."""

    def __init__(self, database: Database, graph: KnowledgeGraph, start: StartWork) -> None:
        self._database = database
        self._graph = graph
        self._start = start

    def on_stored(self, tx: Transaction, tenant_id: str, group_id: str) -> None:
        """Start the run that takes in what is new, unless one is under way."""
        columns = ("tenant_id", "group_id", "next_seq")
        tx.insert_missing("graph_progress", columns, [(tenant_id, group_id, 0)])
        row = _progress(tx, tenant_id, group_id)
        if row is not None and row["run_id"] is None:
            self._begin(tx, tenant_id, group_id)

    def _begin(self, tx: Transaction, tenant_id: str, group_id: str) -> None:
        run_id = f"{RUN_PREFIX}{hashlib.sha256(group_id.encode()).hexdigest()[:16]}-{new_id()}"
        self._start(tx, tenant_id, group_id, run_id)
        _set_run(tx, tenant_id, group_id, run_id)

    async def take_in(self, tenant_id: str, group_id: str) -> dict[str, Any]:
        """Add one episode after another until there is none left; says how many."""
        added = 0
        while True:
            found = await self._database.read(tenant_id, lambda tx: _next(tx, tenant_id, group_id))
            if found is None:
                return {"group_id": group_id, "episodes": added}
            seq, episode = found
            await self._graph.add(tenant_id, episode)
            await self._database.write(tenant_id, lambda tx, done=seq: _count(tx, tenant_id, group_id, done))
            added += 1

    def on_end(self, tx: Transaction, end: EndedRun) -> None:
        """Let the next run begin; after a failure, with the next episode that is stored."""
        row = tx.fetch_one(
            "SELECT group_id FROM graph_progress WHERE tenant_id = :tenant AND run_id = :run",
            tenant=end.tenant_id,
            run=end.run_id,
        )
        if row is None:
            return
        _set_run(tx, end.tenant_id, row["group_id"], None)
        if end.state == "succeeded" and _next(tx, end.tenant_id, row["group_id"]) is not None:
            self._begin(tx, end.tenant_id, row["group_id"])


def _progress(tx: Transaction, tenant_id: str, group_id: str) -> Row | None:
    return tx.fetch_one(
        "SELECT next_seq, run_id FROM graph_progress WHERE tenant_id = :tenant AND group_id = :group",
        tenant=tenant_id,
        group=group_id,
    )


def _set_run(tx: Transaction, tenant_id: str, group_id: str, run_id: str | None) -> None:
    tx.execute(
        "UPDATE graph_progress SET run_id = :run WHERE tenant_id = :tenant AND group_id = :group",
        tenant=tenant_id,
        group=group_id,
        run=run_id,
    )


def _count(tx: Transaction, tenant_id: str, group_id: str, seq: int) -> None:
    tx.execute(
        "UPDATE graph_progress SET next_seq = :next WHERE tenant_id = :tenant AND group_id = :group",
        tenant=tenant_id,
        group=group_id,
        next=seq + 1,
    )


def _next(tx: Transaction, tenant_id: str, group_id: str) -> tuple[int, Episode] | None:
    """The first episode that the graph lacks, whole, and the number of its first part."""
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
