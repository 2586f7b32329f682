"""Reads runs, jobs and workers as they are shown. The state is computed where rows are read, so no two readers can
disagree about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinraven.engine.model import RunState
from twinraven.engine.views import Job, Run, Worker
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.storage import Row, Transaction

_STATE = """CASE WHEN r.state <> 'active' THEN r.state
    WHEN d.worker IS NOT NULL AND w.alive_until > :now THEN 'running'
    WHEN d.worker IS NULL AND (d.due_at IS NULL OR d.due_at > :now) THEN 'waiting'
    ELSE 'queued' END"""

_RUNS = f"""SELECT r.tenant_id, r.run_id, r.target, {_STATE} AS state, r.queue, r.priority, r.caller, r.actor,
    r.created_at, r.finished_at, r.deadline_at, d.due_at, d.worker, COALESCE(d.epoch, r.epoch) AS epoch,
    r.error_code, r.forked_from
    FROM runs r
    LEFT JOIN run_dispatch d ON d.tenant_id = r.tenant_id AND d.run_id = r.run_id AND d.place = ''
    LEFT JOIN engine_workers w ON w.worker = d.worker"""

_MOMENTS = ("created_at", "finished_at", "deadline_at", "due_at")


class RunViews:
    """Reads runs, jobs and workers at one moment."""

    def find(self, tx: Transaction, tenant_id: str, run_id: str, *, now: int) -> Run | None:
        row = tx.fetch_one(
            f"{_RUNS} WHERE r.tenant_id = :tenant AND r.run_id = :run", tenant=tenant_id, run=run_id, now=now
        )
        return None if row is None else _to_run(row)

    def listing(
        self,
        tx: Transaction,
        tenant_id: str,
        *,
        now: int,
        limit: int,
        state: RunState | None,
        caller: str | None,
        target: str | None = None,
        older_than: tuple[int, str] | None,
    ) -> list[Run]:
        """List runs, the newest first."""
        where, given = ["r.tenant_id = :tenant"], dict[str, Any]()
        if state is not None:
            where.append(f"{_STATE} = :state")
            given["state"] = state
        if caller is not None:
            where.append("r.caller = :caller")
            given["caller"] = caller
        if target is not None:
            where.append("r.target = :target")
            given["target"] = target
        if older_than is not None:
            where.append("(r.created_at, r.run_id) < (:created, :last)")
            given |= {"created": older_than[0], "last": older_than[1]}
        sql = f"{_RUNS} WHERE {' AND '.join(where)} ORDER BY r.created_at DESC, r.run_id DESC LIMIT :limit"
        return [_to_run(row) for row in tx.fetch_all(sql, tenant=tenant_id, now=now, limit=limit, **given)]

    def jobs(self, tx: Transaction, tenant_id: str, run_id: str, *, now: int) -> list[Job]:
        """Return the work on queues that a run has at this moment."""
        rows = tx.fetch_all(
            "SELECT d.tenant_id, d.run_id, d.place, d.queue, d.executing, "
            "CASE WHEN w.alive_until > :now THEN d.worker END AS worker FROM run_dispatch d "
            "LEFT JOIN engine_workers w ON w.worker = d.worker WHERE d.tenant_id = :tenant AND d.run_id = :run "
            # What rests is no work: it is on a queue again when it is due or woken.
            "AND (d.worker IS NOT NULL OR d.due_at <= :now)",
            tenant=tenant_id,
            run=run_id,
            now=now,
        )
        return [_to_job(row) for row in rows]

    def workers(self, tx: Transaction, *, now: int) -> list[Worker]:
        """Return every slot of every process, those of processes that are no longer heard as offline."""
        rows = tx.fetch_all("SELECT * FROM engine_workers ORDER BY started_at, worker")
        busy = tx.fetch_all("SELECT worker, queue, run_id, place FROM run_dispatch WHERE worker IS NOT NULL")
        return [worker for row in rows for worker in _to_workers(row, busy, now)]


def job_id(run_id: str, place: str) -> str:
    """Return the id of a job: the run, and the step if it is one."""
    return f"{run_id}/{place}" if place else run_id


def new_run(row: Mapping[str, Any], due: int) -> Run:
    """Return a run as it is right after its row was added.

    Reading it back would look at workers and queues, and make the transaction conflict with every worker's on Postgres.
    """
    names = ("tenant_id", "run_id", "target", "queue", "priority", "caller", "actor")
    deadline, created = row["deadline_at"], row["created_at"]
    return Run(
        **{name: row[name] for name in names},
        state="queued" if due <= created else "waiting",
        created_at=from_micros(created),
        deadline_at=None if deadline is None else from_micros(deadline),
        due_at=from_micros(due),
    )


def _to_run(row: Row) -> Run:
    facts: dict[str, Any] = {**row}
    facts |= {name: None if row[name] is None else from_micros(row[name]) for name in _MOMENTS}
    return Run(**facts)


def _to_job(row: Row) -> Job:
    worker = row["worker"]
    state = "queued" if worker is None else "executing" if row["executing"] else "assigned"
    name = job_id(row["run_id"], row["place"])
    return Job(name, row["tenant_id"], row["run_id"], row["place"], row["queue"], state, worker)


_Counts = dict[str, list[tuple[int, int]] | int]


def _to_workers(row: Row, busy: list[Row], now: int) -> list[Worker]:
    is_alive = row["alive_until"] > now
    workers: list[Worker] = []
    pools: _Counts = parse_json(row["pools"], field="pools")
    for queue, counts in pools.items():
        # A process of an earlier version states the number of its slots alone.
        slots = [(row["processed"], row["errors"])] * counts if isinstance(counts, int) else counts
        jobs = [
            job_id(each["run_id"], each["place"])
            for each in busy
            if is_alive and each["worker"] == row["worker"] and each["queue"] == queue
        ]
        for number, (processed, errors) in enumerate(slots):
            job = jobs[number] if number < len(jobs) else None
            workers.append(
                Worker(
                    worker_id=f"{row['worker']}/{queue}/{number}",
                    type=queue,
                    status="offline" if not is_alive else "idle" if job is None else "busy",
                    current_job_id=job,
                    last_heartbeat=from_micros(row["seen_at"]),
                    processed_count=processed,
                    error_count=errors,
                    created_at=from_micros(row["started_at"]),
                )
            )
    return workers
