"""Shows tasks, and lets people cancel and retry them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import Conflict, IllegalTransition, InvalidInput, PolicyViolation
from twinraven.governance.model import JudgeDecision, SpecVersion, Task, WorkerResult, WorkerRun
from twinraven.governance.work.moves import TaskMoves
from twinraven.governance.work.plan_sql import Place, stale
from twinraven.governance.work.specs import spec_of
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

MOST_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task with everything that was said about it."""

    task: Task
    dependencies: tuple[str, ...]
    runs: tuple[WorkerRun, ...]
    results: tuple[WorkerResult, ...]
    decisions: tuple[JudgeDecision, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            **self.task.as_json(),
            "dependencies": list(self.dependencies),
            "runs": [each.as_json() for each in self.runs],
            "results": [each.as_json() for each in self.results],
            "decisions": [each.as_json() for each in self.decisions],
        }


class Tasks:
    """Shows tasks to all users of a tenant; their owner and administrators cancel and retry them."""

    def __init__(self, database: Database, moves: TaskMoves) -> None:
        self._database = database
        self.moves = moves

    async def get(self, tenant_id: str, task_id: str) -> TaskDetail:
        def work(tx: Transaction) -> TaskDetail:
            plans, results = self.moves.plans, self.moves.results
            return TaskDetail(
                plans.task(tx, tenant_id, task_id),
                tuple(plans.dependencies(tx, tenant_id, task_id)),
                tuple(results.runs(tx, tenant_id, task_id)),
                tuple(results.results(tx, tenant_id, task_id)),
                tuple(results.decisions(tx, tenant_id, task_id)),
            )

        return await self._database.read(tenant_id, work)

    async def specs(self, tenant_id: str, task_id: str) -> tuple[SpecVersion, ...]:
        """Return all versions of a task's spec, the newest first."""

        def work(tx: Transaction) -> tuple[SpecVersion, ...]:
            self.moves.plans.task(tx, tenant_id, task_id)
            return tuple(self.moves.plans.specs(tx, tenant_id, task_id))

        return await self._database.read(tenant_id, work)

    async def list(
        self,
        tenant_id: str,
        *,
        goal_id: str | None = None,
        campaign_id: str | None = None,
        status: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[Task, ...]:
        """Tasks in the order of their creation; `after` names the last of the page before."""
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit must lie between 1 and {MOST_LISTED}", field="limit")

        def work(tx: Transaction) -> tuple[Task, ...]:
            place: Place | None = None
            if after is not None:
                last = self.moves.plans.task(tx, tenant_id, after)
                place = (to_micros(last.created_at), after)
            return tuple(
                self.moves.plans.tasks(
                    tx,
                    tenant_id,
                    limit=limit,
                    after=place,
                    goal_id=goal_id,
                    campaign_id=campaign_id,
                    status=status,
                )
            )

        return await self._database.read(tenant_id, work)

    async def are_moving(self, tenant_id: str, *, goal_id: str | None = None) -> bool:
        """Return whether an attempt of the internal worker is under way, or will be by itself.

        One that was set aside, because its workers died, waits for a person.
        """
        moving = await self._database.read(tenant_id, lambda tx: self.moves.results.moving(tx, tenant_id, goal_id))
        if not moving:
            return False
        resting = await self.moves.runs().list(tenant_id, state="set_aside", limit=MOST_LISTED)
        return bool(moving - {run.run_id for run in resting})

    async def ready(self, tenant_id: str, *, limit: int = 100) -> tuple[Task, ...]:
        """Tasks that a worker outside may take now, the most urgent first."""
        now = self.moves.micros()
        found = await self._database.read(
            tenant_id, lambda tx: self.moves.plans.ready(tx, tenant_id, now=now, limit=MOST_LISTED)
        )
        free = [each for each in found if not each.spec_json.get("run") and _has_begun(each, now)]
        return tuple(free[:limit])

    async def cancel(self, task_id: str, *, by: Principal, state_version: int) -> Task:
        """End a task; an attempt that is under way begins nothing more."""

        def work(tx: Transaction) -> Task:
            moved = self.moves.cancel(tx, self.changeable(tx, task_id, state_version, by), by.actor)
            self.moves.refresh_goal(tx, moved)
            return moved

        return await self.written(by, task_id, work)

    async def retry(self, task_id: str, *, by: Principal, state_version: int) -> Task:
        """Let a task that failed, was rejected, or whose worker outside went away be attempted once more."""

        def work(tx: Transaction) -> Task:
            task = self.changeable(tx, task_id, state_version, by)
            run = self.moves.results.attempt(tx, task.tenant_id, task_id, task.attempts)
            if task.status == "in_progress" and run is not None:
                if run.run_id is not None:
                    raise Conflict(f"task {task_id!r} is being attempted; cancel it instead", task_id=task_id)
                self.moves.results.move_run(tx, run, "cancelled", finished_at=self.moves.micros())
            if task.status in ("review", "escalated", "complete"):
                raise IllegalTransition(
                    f"task {task_id!r} is {task.status}; a decision lets it be attempted again, not a retry",
                    task_id=task_id,
                    status=task.status,
                )
            moved = self.moves.move(tx, task, "pending", due_at=None)
            self.note(tx, "task.retried", moved, by)
            self.moves.enqueue(tx, moved)
            self.moves.refresh_goal(tx, moved)
            return moved

        return await self.written(by, task_id, work)

    def changeable(self, tx: Transaction, task_id: str, seen: int, by: Principal) -> Task:
        """Return a task that the user may change, at the version they saw."""
        task = self.moves.plans.task(tx, by.tenant_id, task_id)
        if by.role != "admin" and task.owner_id != by.user_id:
            raise PolicyViolation(f"task {task_id!r} belongs to somebody else", **task.lineage.as_json())
        if seen != task.state_version:
            raise stale("task", task_id, seen, task.state_version)
        return task

    def note(self, tx: Transaction, event: str, task: Task, by: Principal, **data: Any) -> None:
        """Audit an action on a task."""
        version = task.state_version
        self.moves.witness.note(
            tx, event, ("task", task.task_id), task.lineage, by.actor, state_version=version, **data
        )

    async def written(self, by: Principal, task_id: str, work: Callable[[Transaction], Task]) -> Task:
        """Commit a change of a task, audit its refusal, and let workers look."""
        async with self.moves.witness.refusals("task", ("task", task_id), by):
            changed = await self._database.write(by.tenant_id, work)
        self.moves.runs().announce()
        return changed


def _has_begun(task: Task, now: int) -> bool:
    starts_at = spec_of(task).constraints.starts_at
    return starts_at is None or to_micros(starts_at) <= now
