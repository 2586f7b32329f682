"""Stores campaigns, goals, budgets, tasks, their specs and their dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import NotFound, StaleState
from twinraven.foundation.ids import new_id
from twinraven.governance.effect_model import Budget
from twinraven.governance.model import Campaign, Goal, SpecVersion, Task
from twinraven.governance.states import check_transition
from twinraven.storage import Row, Transaction

_TASK_COLUMNS: Final = (
    "t.tenant_id, t.task_id, t.campaign_id, t.goal_id, t.task_type, t.priority, t.status, t.spec_version, "
    "s.spec_json, t.idempotency_key, t.attempts, t.spent, t.due_at, t.state_version, t.owner_id, t.created_by, "
    "t.created_at, t.updated_at"
)
_TASKS: Final = (
    f"SELECT {_TASK_COLUMNS} FROM tasks t JOIN task_specs s ON s.tenant_id = t.tenant_id AND s.task_id = t.task_id "
    "AND s.spec_version = t.spec_version WHERE t.tenant_id = :tenant"
)
_PLAIN: Final = (
    "tenant_id",
    "task_id",
    "campaign_id",
    "goal_id",
    "task_type",
    "priority",
    "status",
    "spec_version",
    "idempotency_key",
    "attempts",
    "spent",
    "state_version",
)
_KINDS: Final = {"campaign": "campaigns", "goal": "goals", "budget": "budgets", "task": "tasks"}
_ALL: Final = {
    "campaign": "SELECT * FROM campaigns",
    "goal": "SELECT * FROM goals",
    "budget": "SELECT * FROM budgets",
}
_SHARED: Final = {"campaign": Campaign, "goal": Goal, "budget": Budget}
_AFTER: Final = "(created_at, {key}) > (:created, :last)"

Place = tuple[int, str]
"""Where a page ended: when the last one was created, and its id."""


def missing(kind: str, subject_id: str) -> NotFound:
    return NotFound(f"there is no {kind} {subject_id!r}", subject=kind, subject_id=subject_id)


class PlanStore:
    """The tables of plans; every statement names its tenant."""

    def add(self, tx: Transaction, kind: str, row: dict[str, Any]) -> None:
        """Add a campaign, a goal, a budget or a task."""
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO {_KINDS[kind]} ({columns}) VALUES ({marks})", **row)

    def campaign(self, tx: Transaction, tenant_id: str, campaign_id: str) -> Campaign:
        return self._shared(tx, "campaign", tenant_id, campaign_id)

    def goal(self, tx: Transaction, tenant_id: str, goal_id: str) -> Goal:
        return self._shared(tx, "goal", tenant_id, goal_id)

    def budget(self, tx: Transaction, tenant_id: str, budget_id: str) -> Budget:
        return self._shared(tx, "budget", tenant_id, budget_id)

    def _shared(self, tx: Transaction, kind: str, tenant_id: str, subject_id: str) -> Any:
        row = tx.fetch_one(
            f"{_ALL[kind]} WHERE tenant_id = :tenant AND {kind}_id = :id",
            tenant=tenant_id,
            id=subject_id,
        )
        if row is None:
            raise missing(kind, subject_id)
        return _SHARED[kind](**_with_times(row))

    def listing(
        self,
        tx: Transaction,
        kind: str,
        tenant_id: str,
        *,
        limit: int,
        after: Place | None = None,
        **where: str | None,
    ) -> list[Any]:
        """Campaigns, goals or budgets in the order of their creation."""
        given = {name: value for name, value in where.items() if value is not None}
        rules = ["tenant_id = :tenant", *(f"{name} = :{name}" for name in given)]
        place = {} if after is None else {"created": after[0], "last": after[1]}
        if after is not None:
            rules.append(_AFTER.format(key=f"{kind}_id"))
        rows = tx.fetch_all(
            f"{_ALL[kind]} WHERE {' AND '.join(rules)} ORDER BY created_at, {kind}_id LIMIT :limit",
            tenant=tenant_id,
            limit=limit,
            **given,
            **place,
        )
        return [_SHARED[kind](**_with_times(row)) for row in rows]

    def change(
        self,
        tx: Transaction,
        kind: str,
        tenant_id: str,
        subject_id: str,
        *,
        seen: int,
        before: str,
        now: int,
        **values: Any,
    ) -> None:
        """Change shared state that stands at the version `seen`; a stale change is told the current version."""
        status = values.get("status")
        if status is not None and status != before:
            check_transition(kind, subject_id, before, status)
        changed = tx.execute(
            f"UPDATE {_KINDS[kind]} SET {''.join(f'{name} = :{name}, ' for name in values)}"
            "updated_at = :now, state_version = state_version + 1 "
            f"WHERE tenant_id = :tenant AND {kind}_id = :id AND state_version = :seen",
            tenant=tenant_id,
            id=subject_id,
            seen=seen,
            now=now,
            **values,
        )
        if not changed:
            raise stale(kind, subject_id, seen, self.version(tx, kind, tenant_id, subject_id))

    def version(self, tx: Transaction, kind: str, tenant_id: str, subject_id: str) -> int:
        row = tx.fetch_one(
            f"SELECT state_version FROM {_KINDS[kind]} WHERE tenant_id = :tenant AND {kind}_id = :id",
            tenant=tenant_id,
            id=subject_id,
        )
        if row is None:
            raise missing(kind, subject_id)
        return int(row["state_version"])

    def task(self, tx: Transaction, tenant_id: str, task_id: str) -> Task:
        row = tx.fetch_one(f"{_TASKS} AND t.task_id = :task", tenant=tenant_id, task=task_id)
        if row is None:
            raise missing("task", task_id)
        return _to_task(row)

    def task_ids(self, tx: Transaction, tenant_id: str, goal_id: str, *, limit: int) -> list[str]:
        """Return the tasks of a goal."""
        rows = tx.fetch_all(
            "SELECT task_id FROM tasks WHERE tenant_id = :tenant AND goal_id = :goal ORDER BY created_at LIMIT :limit",
            tenant=tenant_id,
            goal=goal_id,
            limit=limit,
        )
        return [row["task_id"] for row in rows]

    def lineage(self, tx: Transaction, tenant_id: str, task_id: str) -> dict[str, Any]:
        """Return the campaign and the goal of a task, with its id, as audit entries name them.

        Empty where it is not there.
        """
        row = tx.fetch_one(
            "SELECT campaign_id, goal_id, task_id FROM tasks WHERE tenant_id = :tenant AND task_id = :task",
            tenant=tenant_id,
            task=task_id,
        )
        return row or {}

    def has_campaign(self, tx: Transaction, tenant_id: str, campaign_id: str) -> bool:
        found = tx.fetch_one(
            "SELECT 1 AS found FROM campaigns WHERE tenant_id = :tenant AND campaign_id = :campaign",
            tenant=tenant_id,
            campaign=campaign_id,
        )
        return found is not None

    def has_task(self, tx: Transaction, tenant_id: str, task_id: str) -> bool:
        found = tx.fetch_one(
            "SELECT 1 AS found FROM tasks WHERE tenant_id = :tenant AND task_id = :task",
            tenant=tenant_id,
            task=task_id,
        )
        return found is not None

    def task_of_key(self, tx: Transaction, tenant_id: str, key: str) -> Task | None:
        row = tx.fetch_one(f"{_TASKS} AND t.idempotency_key = :key", tenant=tenant_id, key=key)
        return None if row is None else _to_task(row)

    def tasks(
        self,
        tx: Transaction,
        tenant_id: str,
        *,
        limit: int,
        after: Place | None = None,
        **where: str | None,
    ) -> list[Task]:
        """Tasks in the order of their creation, by goal, campaign or status."""
        given = {name: value for name, value in where.items() if value is not None}
        rules = "".join(f" AND t.{name} = :{name}" for name in given)
        place = {} if after is None else {"created": after[0], "last": after[1]}
        if after is not None:
            rules += " AND (t.created_at, t.task_id) > (:created, :last)"
        sql = f"{_TASKS}{rules} ORDER BY t.created_at, t.task_id LIMIT :limit"
        return [_to_task(row) for row in tx.fetch_all(sql, tenant=tenant_id, limit=limit, **given, **place)]

    def ready(self, tx: Transaction, tenant_id: str, *, now: int, limit: int) -> list[Task]:
        """Tasks that a worker outside may take now: whose dependencies are complete, the most urgent first."""
        sql = (
            f"{_TASKS} AND t.status = 'pending' AND (t.due_at IS NULL OR t.due_at <= :now) "
            "AND EXISTS (SELECT 1 FROM campaigns c WHERE c.tenant_id = t.tenant_id "
            "AND c.campaign_id = t.campaign_id AND c.status = 'active') "
            "AND NOT EXISTS (SELECT 1 FROM worker_runs w WHERE w.tenant_id = t.tenant_id "
            "AND w.task_id = t.task_id AND w.status = 'queued') "
            f"AND NOT EXISTS ({_OPEN_DEPENDENCY}) "
            "ORDER BY CASE t.priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'normal' THEN 2 ELSE 3 END, "
            "t.created_at, t.task_id LIMIT :limit"
        )
        return [_to_task(row) for row in tx.fetch_all(sql, tenant=tenant_id, now=now, limit=limit)]

    def has_open_dependency(self, tx: Transaction, tenant_id: str, task_id: str) -> bool:
        found = tx.fetch_one(
            f"SELECT 1 AS found FROM tasks t WHERE t.tenant_id = :tenant AND t.task_id = :task "
            f"AND EXISTS ({_OPEN_DEPENDENCY})",
            tenant=tenant_id,
            task=task_id,
        )
        return found is not None

    def add_task(self, tx: Transaction, task: Task) -> None:
        """Add a task; its spec is added apart."""
        names = (*_PLAIN, "created_by", "owner_id")
        row: dict[str, Any] = {name: getattr(task, name) for name in names}
        row |= {"created_at": to_micros(task.created_at), "updated_at": to_micros(task.updated_at)}
        row["due_at"] = None if task.due_at is None else to_micros(task.due_at)
        self.add(tx, "task", row)

    def add_spec(self, tx: Transaction, tenant_id: str, row: dict[str, Any], depends_on: Sequence[str]) -> None:
        """Add a version of a spec, with what it depends on."""
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO task_specs (tenant_id, {columns}) VALUES (:tenant, {marks})", tenant=tenant_id, **row)
        for other in depends_on:
            tx.execute(
                "INSERT INTO task_dependencies (tenant_id, id, task_id, spec_version, depends_on_task_id) "
                "VALUES (:tenant, :id, :task, :version, :other)",
                tenant=tenant_id,
                id=new_id(),
                task=row["task_id"],
                version=row["spec_version"],
                other=other,
            )

    def specs(self, tx: Transaction, tenant_id: str, task_id: str) -> list[SpecVersion]:
        """Return all versions of a task's spec, the newest first."""
        rows = tx.fetch_all(
            "SELECT task_id, spec_version, spec_json, spec_hash, envelope_id, created_by, created_at FROM task_specs "
            "WHERE tenant_id = :tenant AND task_id = :task ORDER BY spec_version DESC",
            tenant=tenant_id,
            task=task_id,
        )
        return [_to_spec(row) for row in rows]

    def dependencies(self, tx: Transaction, tenant_id: str, task_id: str) -> list[str]:
        """Return the dependencies of a task, by the spec in force."""
        rows = tx.fetch_all(
            "SELECT d.depends_on_task_id FROM task_dependencies d JOIN tasks t ON t.tenant_id = d.tenant_id "
            "AND t.task_id = d.task_id AND t.spec_version = d.spec_version "
            "WHERE d.tenant_id = :tenant AND d.task_id = :task ORDER BY d.depends_on_task_id",
            tenant=tenant_id,
            task=task_id,
        )
        return [row["depends_on_task_id"] for row in rows]

    def dependents(self, tx: Transaction, tenant_id: str, task_id: str) -> list[str]:
        """Return the tasks that depend on this one by the spec in force."""
        rows = tx.fetch_all(
            "SELECT d.task_id FROM task_dependencies d JOIN tasks t ON t.tenant_id = d.tenant_id "
            "AND t.task_id = d.task_id AND t.spec_version = d.spec_version "
            "WHERE d.tenant_id = :tenant AND d.depends_on_task_id = :task ORDER BY d.task_id",
            tenant=tenant_id,
            task=task_id,
        )
        return [row["task_id"] for row in rows]

    def counts(self, tx: Transaction, tenant_id: str, goal_id: str) -> dict[str, int]:
        """Count the tasks of a goal by status."""
        rows = tx.fetch_all(
            "SELECT status, COUNT(*) AS number FROM tasks WHERE tenant_id = :tenant AND goal_id = :goal "
            "GROUP BY status",
            tenant=tenant_id,
            goal=goal_id,
        )
        return {row["status"]: int(row["number"]) for row in rows}


_OPEN_DEPENDENCY = (
    "SELECT 1 FROM task_dependencies d JOIN tasks o ON o.tenant_id = d.tenant_id AND o.task_id = d.depends_on_task_id "
    "WHERE d.tenant_id = t.tenant_id AND d.task_id = t.task_id AND d.spec_version = t.spec_version "
    "AND o.status <> 'complete'"
)


def stale(kind: str, subject_id: str, seen: int, current: int) -> StaleState:
    """Build the error for a writer who saw an older version."""
    return StaleState(
        f"{kind} {subject_id!r} is at state_version {current}, not {seen}; read it again before you change it",
        subject=kind,
        subject_id=subject_id,
        field="state_version",
        state_version=seen,
        current=current,
    )


def _to_spec(row: Row) -> SpecVersion:
    read: Row = {
        "spec_json": parse_json(row["spec_json"], field="spec_json"),
        "created_at": from_micros(row["created_at"]),
    }
    return SpecVersion(**row | read)


def _with_times(row: Row) -> Row:
    return {**row, "created_at": from_micros(row["created_at"]), "updated_at": from_micros(row["updated_at"])}


def _to_task(row: Row) -> Task:
    due = row["due_at"]
    read: Row = {
        "spec_json": parse_json(row["spec_json"], field="spec_json"),
        "due_at": None if due is None else from_micros(due),
    }
    return Task(**_with_times(row) | read)
