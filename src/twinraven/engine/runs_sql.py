"""Stores runs in SQL, and what a worker needs of them; `views_sql` reads them as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from twinraven.engine.model import RunState
from twinraven.storage import Row, Transaction

_ONE = "tenant_id = :tenant AND run_id = :run"


def marked(values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Parameters for a list of values, as many as a power of two, so that a handful of statements serves all lists."""
    size = 1 << max(0, len(values) - 1).bit_length()
    named = {f"v{number}": values[min(number, len(values) - 1)] for number in range(size)}
    return ", ".join(f":{name}" for name in named), named


def marked_rows(rows: Sequence[Sequence[Any]]) -> tuple[str, dict[str, Any]]:
    """Return the same for rows, as what stands behind VALUES; the last one may be there several times."""
    size = 1 << max(0, len(rows) - 1).bit_length()
    width = range(len(rows[0]))
    marks = ", ".join(f"({', '.join(f':r{number}_{column}' for column in width)})" for number in range(size))
    return marks, {
        f"r{number}_{column}": rows[min(number, len(rows) - 1)][column] for number in range(size) for column in width
    }


class EndedRun(NamedTuple):
    """The end of a run, as its row has it."""

    run_id: str
    state: RunState
    finished_at: int
    answer: bytes
    error_code: str | None
    epoch: int


class RunStore:
    """The table of runs."""

    def add(self, tx: Transaction, row: dict[str, Any]) -> bool:
        """Add a run; False where one of this id is there."""
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        return tx.execute(f"INSERT INTO runs ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING", **row) == 1

    def material(self, tx: Transaction, tenant_id: str, run_id: str) -> Row | None:
        """Return the sealed values of a run, and what its calls need."""
        found = self.materials(tx, tenant_id, [run_id])
        return found[0] if found else None

    def materials(self, tx: Transaction, tenant_id: str, run_ids: Sequence[str]) -> list[Row]:
        """Return the same of several runs at once, of those that are there."""
        marks, named = marked(run_ids)
        return tx.fetch_all(
            "SELECT run_id, definition, parameters, answer, body_hash, state, deadline_at, time_limit, caller, actor, "
            f"priority, queue, created_at, target, lineage FROM runs WHERE tenant_id = :tenant AND run_id IN ({marks})",
            tenant=tenant_id,
            **named,
        )

    def steps(self, tx: Transaction, tenant_id: str, run_ids: Sequence[str]) -> list[Row]:
        """Return the outcomes of the steps of runs, in the order in which they ended."""
        marks, named = marked(run_ids)
        return tx.fetch_all(
            "SELECT run_id, place, tool_id, epoch, outcome, error_code, settled_at FROM run_steps "
            f"WHERE tenant_id = :tenant AND run_id IN ({marks}) ORDER BY settled_at, place",
            tenant=tenant_id,
            **named,
        )

    def end(
        self,
        tx: Transaction,
        tenant_id: str,
        run_id: str,
        state: RunState,
        *,
        now: int | None,
        answer: bytes | None = None,
        error_code: str | None = None,
    ) -> None:
        """End an active run, or set it aside (without a moment); how often it was taken up is remembered."""
        tx.execute(
            "UPDATE runs SET state = :state, finished_at = :now, answer = :answer, error_code = :code, "
            "epoch = COALESCE((SELECT d.epoch FROM run_dispatch d WHERE d.tenant_id = runs.tenant_id "
            "AND d.run_id = runs.run_id AND d.place = ''), epoch) "
            f"WHERE {_ONE} AND state IN ('active', 'set_aside')",
            state=state,
            now=now,
            answer=answer,
            code=error_code,
            tenant=tenant_id,
            run=run_id,
        )

    def end_all(self, tx: Transaction, tenant_id: str, ended: Sequence[EndedRun]) -> None:
        """End active runs of a tenant, by one statement."""
        marks, named = marked_rows(ended)
        tx.execute(
            "UPDATE runs SET state = e.column2, finished_at = e.column3, answer = e.column4, error_code = e.column5, "
            f"epoch = e.column6 FROM (VALUES {marks}) AS e "
            "WHERE tenant_id = :tenant AND run_id = e.column1 AND state IN ('active', 'set_aside')",
            tenant=tenant_id,
            **named,
        )

    def reopen(self, tx: Transaction, tenant_id: str, run_id: str, *, now: int) -> None:
        """Make an ended run active again; what time it had, it has anew."""
        tx.execute(
            "UPDATE runs SET state = 'active', finished_at = NULL, answer = NULL, error_code = NULL, "
            f"deadline_at = :now + time_limit WHERE {_ONE}",
            now=now,
            tenant=tenant_id,
            run=run_id,
        )

    def forget_failures(self, tx: Transaction, tenant_id: str, run_id: str) -> list[str]:
        """Remove the outcomes of calls that failed, so that they are made again; says where."""
        failed = [
            row["place"]
            for row in tx.fetch_all(
                f"SELECT place FROM run_steps WHERE {_ONE} AND error_code IS NOT NULL", tenant=tenant_id, run=run_id
            )
        ]
        tx.execute(f"DELETE FROM run_steps WHERE {_ONE} AND error_code IS NOT NULL", tenant=tenant_id, run=run_id)
        return failed

    def prune(self, tx: Transaction, tenant_id: str, *, before: int, most: int) -> int:
        """Delete runs that ended before a moment, with everything kept of them."""
        rows = tx.fetch_all(
            "SELECT run_id FROM runs WHERE tenant_id = :tenant AND finished_at < :before LIMIT :most",
            tenant=tenant_id,
            before=before,
            most=most,
        )
        for row in rows:
            for table in ("run_steps", "run_waits", "run_dispatch", "runs"):
                tx.execute(f"DELETE FROM {table} WHERE {_ONE}", tenant=tenant_id, run=row["run_id"])
        return len(rows)
