"""Dispatches runs by a table of the house's own database, for any number of processes and machines on it.

The table has no tenant's fence and holds ids and times only. Postgres lets takers skip what others have locked; SQLite
lets one writer in at a time. Leases are compared with one clock: the database's own on Postgres.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from twinraven.engine.dispatch import Lease
from twinraven.engine.errors import RunSuperseded
from twinraven.engine.runs_sql import marked, marked_rows
from twinraven.foundation.clock import now_micros
from twinraven.storage import Connection, Database, Transaction, Work

_DATABASE_CLOCK = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now"
_AGAIN_AFTER = 1_000_000
_MINE = "tenant_id = :tenant AND run_id = :run AND place = :place"


class EmbeddedDispatcher:
    """Dispatches by a table of the house's own database, for any number of processes on it."""

    def __init__(self, database: Database, *, micros: Callable[[], int] = now_micros) -> None:
        self._database = database
        self._micros = micros
        self._connection: Connection | None = None
        self._busy = Lock()
        self._listeners: list[Callable[[], None]] = []
        self._found_work = False

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call this, on any thread, when work of this process may have become due."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.remove(listener)

    def announce(self) -> None:
        """Tell workers of this process to look, after what made work due was committed."""
        for listener in self._listeners:
            listener()

    def now(self, tx: Transaction) -> int:
        if tx.dialect == "sqlite":
            return self._micros()
        # Clocks of machines differ, and all of them ask this one.
        row = tx.fetch_one(_DATABASE_CLOCK)
        return self._micros() if row is None else int(row["now"])

    def enqueue(
        self,
        tx: Transaction,
        tenant_id: str,
        run_id: str,
        *,
        place: str = "",
        queue: str,
        priority: int,
        epoch: int = 0,
        due: int | None = None,
    ) -> None:
        tx.execute(
            "INSERT INTO run_dispatch "
            "(tenant_id, run_id, place, queue, priority, due_at, epoch, woken, strikes, executing) "
            "VALUES (:tenant, :run, :place, :queue, :priority, :now, :epoch, 0, 0, 0) ON CONFLICT DO NOTHING",
            tenant=tenant_id,
            run=run_id,
            place=place,
            queue=queue,
            priority=priority,
            now=self.now(tx) if due is None else due,
            epoch=epoch,
        )

    def wake(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        tx.execute(
            "UPDATE run_dispatch SET due_at = :now, woken = woken + 1 "
            "WHERE tenant_id = :tenant AND run_id = :run AND place = ''",
            now=self.now(tx),
            tenant=tenant_id,
            run=run_id,
        )

    def hold(self, tx: Transaction, lease: Lease) -> None:
        if tx.dialect == "sqlite" and self._executes(tx, lease):
            return  # nobody else writes meanwhile, so a look will do, and no page has to be written again
        # An update, not a look: two transactions that both change this row cannot both commit.
        held = tx.execute(
            f"UPDATE run_dispatch SET executing = 1 WHERE {_MINE} AND worker = :worker AND epoch = :epoch",
            **lease.row,
            worker=lease.worker,
            epoch=lease.epoch,
        )
        if not held:
            raise RunSuperseded(f"run {lease.run_id!r} was taken over or ended", run_id=lease.run_id)

    def holds(self, tx: Transaction, lease: Lease) -> bool:
        found = tx.fetch_one(
            f"SELECT 1 AS held FROM run_dispatch WHERE {_MINE} AND worker = :worker AND epoch = :epoch",
            **lease.row,
            worker=lease.worker,
            epoch=lease.epoch,
        )
        return found is not None

    @staticmethod
    def _executes(tx: Transaction, lease: Lease) -> bool:
        """Return whether the worker still has the run, which is marked as being worked at."""
        found = tx.fetch_one(
            "SELECT 1 AS executing FROM run_dispatch "
            f"WHERE {_MINE} AND worker = :worker AND epoch = :epoch AND executing = 1",
            **lease.row,
            worker=lease.worker,
            epoch=lease.epoch,
        )
        return found is not None

    def rest(self, tx: Transaction, lease: Lease, until: int | None) -> None:
        self.hold(tx, lease)
        tx.execute(
            "UPDATE run_dispatch SET worker = NULL, strikes = 0, executing = 0, "
            f"due_at = CASE WHEN woken = :seen THEN :until ELSE :now END WHERE {_MINE}",
            seen=lease.woken,
            until=until,
            now=self.now(tx),
            **lease.row,
        )

    def give_back(self, tx: Transaction, lease: Lease) -> None:
        tx.execute(
            "UPDATE run_dispatch SET worker = NULL, executing = 0, strikes = strikes + 1, due_at = :due "
            f"WHERE {_MINE} AND worker = :worker AND epoch = :epoch",
            due=self.now(tx) + _AGAIN_AFTER,
            **lease.row,
            worker=lease.worker,
            epoch=lease.epoch,
        )

    def let_go(self, tx: Transaction, leases: Sequence[Lease]) -> set[Lease]:
        tenant_id = leases[0].tenant_id
        runs, named = marked([lease.run_id for lease in leases])
        held, whose = marked_rows([(lease.run_id, lease.worker, lease.epoch) for lease in leases])
        # A deletion, not a look: two transactions that both change a row cannot both commit.
        rows = tx.fetch_all(
            f"DELETE FROM run_dispatch WHERE tenant_id = :tenant AND run_id IN ({runs}) AND place = '' "
            f"AND (run_id, worker, epoch) IN (VALUES {held}) RETURNING run_id, worker, epoch",
            tenant=tenant_id,
            **named,
            **whose,
        )
        gone = {(row["run_id"], row["worker"], row["epoch"]) for row in rows}
        standing = {lease for lease in leases if (lease.run_id, lease.worker, lease.epoch) in gone}
        if standing:
            runs, named = marked([lease.run_id for lease in standing])
            tx.execute(
                f"DELETE FROM run_dispatch WHERE tenant_id = :tenant AND run_id IN ({runs})", tenant=tenant_id, **named
            )
        return standing

    def drop(self, tx: Transaction, tenant_id: str, run_id: str, *, place: str | None = None) -> None:
        which = "" if place is None else " AND place = :place"
        named = {} if place is None else {"place": place}
        tx.execute(
            f"DELETE FROM run_dispatch WHERE tenant_id = :tenant AND run_id = :run{which}",
            tenant=tenant_id,
            run=run_id,
            **named,
        )

    async def take(self, worker: str, free: Mapping[str, int]) -> list[Lease]:
        def work(tx: Transaction) -> list[Lease]:
            now, ahead = self._now_and_ahead(tx)
            taken = [lease for queue in self._queues(tx, now, free) for lease in _take(tx, worker, queue, free, now)]
            return [lease._replace(ahead=ahead) for lease in taken]

        if max(free.values(), default=0) <= 0:
            return []
        if self._database.dialect == "sqlite":
            # Most looks find nothing: they read, and leave the one writer's place to others. Where there was work a
            # moment ago there is likely more.
            if not self._found_work and not await self._has_work(free):
                return []
            taken = await self._database.write("", work)
            self._found_work = bool(taken)
            return taken
        return await asyncio.to_thread(self._on_own_connection, work)

    async def take_one(self, worker: str, tenant_id: str, run_id: str, place: str) -> Lease | None:
        """Lease this run or job if it is due and no living worker has it, for a worker that was notified."""
        named = {"tenant": tenant_id, "run": run_id, "place": place}

        def work(tx: Transaction) -> Lease | None:
            now, ahead = self._now_and_ahead(tx)
            row = tx.fetch_one(f"{_TAKE} WHERE {_MINE} AND {_FREE} {_TAKEN}", me=worker, now=now, **named)
            return None if row is None else Lease(**row, ahead=ahead)

        return await self._database.write("", work)

    async def due(self, queues: Sequence[str]) -> list[Lease]:
        """Return due work on these queues that no living worker has."""
        marks = {f"q{number}": name for number, name in enumerate(queues)}
        sql = (
            "SELECT tenant_id, run_id, place, queue, COALESCE(worker, '') AS worker, epoch, woken, strikes "
            f"FROM run_dispatch d WHERE queue IN ({', '.join(f':{mark}' for mark in marks)}) AND {_FREE} "
            "ORDER BY priority, due_at LIMIT 500"
        )
        rows = await self._database.read("", lambda tx: tx.fetch_all(sql, now=self.now(tx), **marks))
        return [Lease(**row) for row in rows]

    async def next_look(self, tenant_id: str, run_id: str, place: str) -> tuple[float | None, bool]:
        """In how many seconds work is due (None: when it is woken), and whether there is none any more."""

        def work(tx: Transaction) -> tuple[float | None, bool]:
            row = tx.fetch_one(
                f"SELECT due_at FROM run_dispatch WHERE {_MINE}", tenant=tenant_id, run=run_id, place=place
            )
            if row is None:
                return None, True
            due = row["due_at"]
            return (None if due is None else max(0.0, (due - self.now(tx)) / 1_000_000)), False

        return await self._database.read("", work)

    def close(self) -> None:
        with self._busy:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _now_and_ahead(self, tx: Transaction) -> tuple[int, int]:
        """Return the moment, and by how much it is ahead of this machine's clock."""
        now = self.now(tx)
        return now, 0 if tx.dialect == "sqlite" else now - self._micros()

    async def _has_work(self, free: Mapping[str, int]) -> bool:
        return bool(await self._database.read("", lambda tx: self._queues(tx, self.now(tx), free)))

    def _queues(self, tx: Transaction, now: int, free: Mapping[str, int]) -> list[str]:
        """Return the queues with due work that this worker has a free slot for."""
        names = [queue for queue, slots in free.items() if slots > 0]
        if not names:
            return []
        marks = {f"q{number}": name for number, name in enumerate(names)}
        rows = tx.fetch_all(
            f"SELECT DISTINCT queue FROM run_dispatch d WHERE queue IN ({', '.join(f':{mark}' for mark in marks)}) "
            f"AND {_FREE}",
            now=now,
            **marks,
        )
        return [row["queue"] for row in rows]

    def _on_own_connection(self, work: Work[list[Lease]]) -> list[Lease]:
        """Take without serializable isolation: the rows are locked, and others skip what is locked."""
        with self._busy:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.transaction("", write=True) as tx:
                return work(tx)


_TAKE = """UPDATE run_dispatch AS d SET worker = :me, epoch = epoch + 1, executing = 0,
    strikes = strikes + CASE WHEN worker IS NULL OR worker = :me THEN 0 ELSE 1 END"""
# Who takes its own run again was late with its heartbeat and did not die.
_TAKEN = "RETURNING tenant_id, run_id, place, queue, worker, epoch, woken, strikes"
_FREE = """due_at <= :now AND (worker IS NULL OR NOT EXISTS (
    SELECT 1 FROM engine_workers w WHERE w.worker = d.worker AND w.alive_until > :now))"""


def _take(tx: Transaction, worker: str, queue: str, free: Mapping[str, int], now: int) -> list[Lease]:
    skip = "FOR UPDATE SKIP LOCKED" if tx.dialect == "postgres" else ""
    rows: list[dict[str, Any]] = tx.fetch_all(
        f"{_TAKE} WHERE (tenant_id, run_id, place) IN ("
        f"SELECT tenant_id, run_id, place FROM run_dispatch d WHERE queue = :queue AND {_FREE} "
        f"ORDER BY priority, due_at LIMIT :most {skip}) "
        f"{_TAKEN}",
        me=worker,
        queue=queue,
        now=now,
        most=free[queue],
    )
    return [Lease(**row) for row in rows]
