"""Creates durable runs: requests, journals of steps, waits, jobs and workers.

Values (parameters, outcomes, questions) are sealed before they come here and stay in tables that are fenced by tenant.
`run_dispatch`, `engine_workers` and `engine_schedules` have no fence, because a worker looks for work of all tenants:
they hold ids, names of queues and times, and nothing a tenant said. `epoch` counts how often a run was taken up; a
claim of an earlier one was left by a worker that lost the run.
"""

from __future__ import annotations

from twinraven.storage.guards import APP_ROLE
from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse


def upgrade(ddl: Ddl) -> None:
    number = "BIGINT" if ddl.dialect == "postgres" else "INTEGER"
    ddl.run(f"ALTER TABLE idempotency_claims ADD COLUMN epoch {number}")
    _create_runs(ddl)
    _create_dispatch(ddl, number)


def _create_runs(ddl: Ddl) -> None:
    ddl.table(
        "runs",
        """
        tenant_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        target TEXT NOT NULL,
        definition {bytes} NOT NULL,
        parameters {bytes} NOT NULL,
        body_hash TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('active', 'succeeded', 'failed', 'cancelled', 'set_aside')),
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        deadline_at INTEGER,
        epoch INTEGER NOT NULL,
        answer {bytes},
        error_code TEXT,
        caller TEXT,
        actor TEXT NOT NULL,
        forked_from TEXT,
        created_at INTEGER NOT NULL,
        finished_at INTEGER,
        PRIMARY KEY (tenant_id, run_id),
        CHECK ((state IN ('active', 'set_aside')) = (finished_at IS NULL))
        """,
    )
    ddl.table(
        "run_steps",
        """
        tenant_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        place TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        outcome {bytes} NOT NULL,
        error_code TEXT,
        settled_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, run_id, place)
        """,
    )
    ddl.table(
        "run_waits",
        """
        tenant_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        place TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('person', 'event', 'moment', 'approval', 'effect', 'job')),
        subject TEXT,
        question {bytes} NOT NULL,
        asked_at INTEGER NOT NULL,
        until INTEGER,
        answered_at INTEGER,
        answered_by TEXT,
        PRIMARY KEY (tenant_id, run_id, place)
        """,
    )
    ddl.run(
        "CREATE INDEX runs_created ON runs (tenant_id, created_at, run_id)",
        "CREATE INDEX runs_finished ON runs (tenant_id, finished_at)",
        "CREATE INDEX run_waits_subject ON run_waits (tenant_id, kind, subject)",
    )
    fixed = "tenant_id, run_id, target, definition, parameters, body_hash, caller, actor, forked_from, created_at"
    refuse(ddl, "runs", f"UPDATE OF {fixed}", name="fixed")
    refuse(ddl, "runs", "UPDATE OF state", when="OLD.state = 'succeeded'", name="no_return")
    refuse(ddl, "run_steps", "UPDATE", name="fixed")


def _create_dispatch(ddl: Ddl, number: str) -> None:
    ddl.run(
        f"""CREATE TABLE run_dispatch (
        tenant_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        place TEXT NOT NULL,
        queue TEXT NOT NULL,
        priority {number} NOT NULL,
        due_at {number},
        worker TEXT,
        epoch {number} NOT NULL,
        woken {number} NOT NULL,
        strikes {number} NOT NULL,
        executing {number} NOT NULL,
        PRIMARY KEY (tenant_id, run_id, place))""",
        "CREATE INDEX run_dispatch_due ON run_dispatch (queue, priority, due_at)",
        "CREATE INDEX run_dispatch_worker ON run_dispatch (worker)",
        f"""CREATE TABLE engine_workers (
        worker TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        pools TEXT NOT NULL,
        started_at {number} NOT NULL,
        seen_at {number} NOT NULL,
        alive_until {number} NOT NULL,
        processed {number} NOT NULL,
        errors {number} NOT NULL)""",
        f"""CREATE TABLE engine_schedules (
        name TEXT PRIMARY KEY,
        next_at {number} NOT NULL)""",
    )
    if ddl.dialect == "postgres":
        tables = "run_dispatch, engine_workers, engine_schedules"
        ddl.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {APP_ROLE}")
