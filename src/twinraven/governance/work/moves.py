"""Moves tasks from one status to the next, with what follows: attempts on the engine's queue, dependents, the goal.

Everything here happens inside the caller's transaction, so a task is never in a status whose consequences are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from twinraven.catalog import Catalog
from twinraven.engine import ProgramRequest, Run, RunRequest, Runs
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.governance.model import RUN_PRIORITY, Task, TaskSpec
from twinraven.governance.states import GoalStatus, TaskStatus, check_transition
from twinraven.governance.work.audit_trail import WorkAuditTrail
from twinraven.governance.work.plan_sql import PlanStore
from twinraven.governance.work.result_sql import ResultStore
from twinraven.governance.work.specs import spec_of
from twinraven.storage import Transaction
from twinraven.tenancy import actor_of

OWN_WORKER: Final = "system:engine"
"""Who attempts the tasks that name something to run."""

_ENDED: Final = ("complete", "rejected", "failed", "cancelled")
ACTIONS: Final = "required_actions"
"""The argument in which a tool that takes it is told what a judge asked for."""


ProgramOf = Callable[[TaskSpec, Sequence[JsonObject]], ProgramRequest]
"""The program of a task that is run as a plan, and is told what a judge asks for; refuses what cannot be one."""


class TaskMoves:
    """Moves tasks between statuses, inside the caller's transaction."""

    def __init__(
        self,
        plans: PlanStore,
        results: ResultStore,
        witness: WorkAuditTrail,
        *,
        runs: Callable[[], Runs],
        catalog: Callable[[], Catalog],
        program: ProgramOf,
        micros: Callable[[], int],
    ) -> None:
        self.plans = plans
        self.results = results
        self.witness = witness
        self.runs = runs
        self.micros = micros
        self._catalog = catalog
        self._program = program

    def move(self, tx: Transaction, task: Task, status: TaskStatus, *, may_stay: bool = False, **values: Any) -> Task:
        """Give a task another status at the version it was read at; says what it is now.

        `may_stay` lets it keep its status, for what is said anew: its version moves on all the same.
        """
        if status != task.status or not may_stay:
            check_transition("task", task.task_id, task.status, status)
        now = self.micros()
        self.plans.change(
            tx,
            "task",
            task.tenant_id,
            task.task_id,
            seen=task.state_version,
            before=task.status,
            now=now,
            status=status,
            **values,
        )
        due = values.pop("due_at", None)
        moved = replace(
            task, status=status, state_version=task.state_version + 1, updated_at=from_micros(now), **values
        )
        return replace(moved, due_at=None if due is None else from_micros(due))

    def enqueue(self, tx: Transaction, task: Task) -> None:
        """Put the next attempt at a pending task on the engine's queue, if it is ready and names what to run."""
        spec = spec_of(task)
        if spec.work is None or task.status != "pending" or not self.is_ready(tx, task):
            return
        number, run_id = task.attempts + 1, new_id()
        if self.results.attempt(tx, task.tenant_id, task.task_id, number) is not None:
            return
        try:
            actions = self.required_actions(tx, task)
            start = self._starting(task, spec, run_id, actions, actor_of(tx, task.tenant_id, task.owner_id))
        except TwinRavenError as error:  # what it names is gone by now, or takes other arguments
            self._cannot_run(tx, task, error)
            return
        start(tx)
        self.results.add_run(
            tx,
            {
                "tenant_id": task.tenant_id,
                "worker_run_id": new_id(),
                "task_id": task.task_id,
                "attempt_number": number,
                "spec_version": task.spec_version,
                "status": "queued",
                "run_id": run_id,
                "worker": OWN_WORKER,
            },
        )

    def _starting(
        self, task: Task, spec: TaskSpec, run_id: str, actions: Sequence[JsonObject], actor: Actor
    ) -> Callable[[Transaction], Run]:
        """Return what puts the run of an attempt on the queue."""
        assert spec.work is not None
        wish, runs = self._wish(task, spec, run_id, actions), self.runs()
        if spec.work.kind == "plan":
            program, plain = self._program(spec, actions), wish._replace(tool_id=None)
            return runs.starting_program(program, plain, tenant_id=task.tenant_id, caller=task.owner_id, actor=actor)
        return runs.starting(wish, tenant_id=task.tenant_id, caller=task.owner_id, actor=actor)

    def required_actions(self, tx: Transaction, task: Task) -> tuple[JsonObject, ...]:
        """Return the actions that the judge requires of the next attempts, until one ends with a result."""
        decisions = self.results.decisions(tx, task.tenant_id, task.task_id) if task.attempts else []
        return decisions[-1].required_actions if decisions and decisions[-1].decision == "reject" else ()

    def check_program(self, spec: TaskSpec) -> None:
        """Refuse a task whose plan cannot be one."""
        self._program(spec, ())

    def is_ready(self, tx: Transaction, task: Task) -> bool:
        """Return whether an attempt may begin: the campaign is active, all dependencies are complete."""
        campaign = self.plans.campaign(tx, task.tenant_id, task.campaign_id)
        return campaign.status == "active" and not self.plans.has_open_dependency(tx, task.tenant_id, task.task_id)

    def _wish(self, task: Task, spec: TaskSpec, run_id: str, actions: Sequence[JsonObject]) -> RunRequest:
        assert spec.work is not None
        limits, now = spec.constraints, self.micros()
        starts = [to_micros(each) for each in (task.due_at, limits.starts_at) if each is not None]
        due = max([now, *starts])
        inputs = dict(spec.inputs)
        if actions and spec.work.kind != "plan":
            entry = self._catalog().resolve(task.tenant_id, spec.work.name, task.owner_id)
            if ACTIONS in entry.input_schema.get("properties", {}):
                inputs[ACTIONS] = list(actions)
        lineage = {"campaign_id": task.campaign_id, "goal_id": task.goal_id, "task_id": task.task_id}
        ends = None if limits.ends_at is None else max(0.001, (to_micros(limits.ends_at) - now) / 1_000_000)
        return RunRequest(
            inputs,
            tool_id=spec.work.name,
            run_id=run_id,
            priority=RUN_PRIORITY[task.priority],
            timeout_s=ends,
            lineage=lineage,
            due=due,
        )

    def _cannot_run(self, tx: Transaction, task: Task, error: TwinRavenError) -> None:
        failed = self.move(tx, task, "failed")
        self.witness.note(
            tx,
            "task.failed",
            ("task", task.task_id),
            task.lineage,
            SYSTEM,
            code=error.code,
            message=error.message,
            state_version=failed.state_version,
        )
        self.refresh_goal(tx, task)

    def dequeue(self, tx: Transaction, task: Task) -> None:
        """Take the attempt that waits on the queue away: the task is changed, cancelled, or its campaign paused."""
        run = self.results.attempt(tx, task.tenant_id, task.task_id, task.attempts + 1)
        if run is not None and run.status == "queued":
            if run.run_id is not None:
                self.runs().end_in(tx, task.tenant_id, run.run_id)
            self.results.remove_queued(tx, run)

    def cancel(self, tx: Transaction, task: Task, actor: Actor) -> Task:
        """Cancel a task, with the attempt that is under way."""
        self.dequeue(tx, task)
        run = self.results.attempt(tx, task.tenant_id, task.task_id, task.attempts)
        if run is not None and run.status == "in_progress":
            if run.run_id is not None:
                self.runs().end_in(tx, task.tenant_id, run.run_id)
            self.results.move_run(tx, run, "cancelled", finished_at=self.micros())
        moved = self.move(tx, task, "cancelled")
        version = moved.state_version
        self.witness.note(tx, "task.cancelled", ("task", task.task_id), task.lineage, actor, state_version=version)
        return moved

    def completed(self, tx: Transaction, task: Task) -> None:
        """Let what depends on a task go on, now that it is complete."""
        for task_id in self.plans.dependents(tx, task.tenant_id, task.task_id):
            self.enqueue(tx, self.plans.task(tx, task.tenant_id, task_id))

    def refresh_goal(self, tx: Transaction, task: Task) -> None:
        """Let the goal stand where its tasks do."""
        goal = self.plans.goal(tx, task.tenant_id, task.goal_id)
        counts = self.plans.counts(tx, task.tenant_id, task.goal_id)
        wanted = _goal_status(counts)
        if wanted is None:
            return
        if wanted == "pending" and goal.status != "pending":
            wanted = "in_progress"  # work that is sent back does not undo that the goal was begun
        if goal.status in (wanted, "cancelled"):
            return
        now = self.micros()
        for status in _path(goal.status, wanted):
            self.plans.change(
                tx,
                "goal",
                task.tenant_id,
                goal.goal_id,
                seen=goal.state_version,
                before=goal.status,
                now=now,
                status=status,
            )
            goal = replace(goal, status=status, state_version=goal.state_version + 1)


def _path(before: GoalStatus, wanted: GoalStatus) -> list[GoalStatus]:
    """Return the steps from one status of a goal to another; whatever has ended goes on through `in_progress`."""
    return [wanted] if before == "in_progress" or wanted == "in_progress" else ["in_progress", wanted]


def _goal_status(counts: dict[str, int]) -> GoalStatus | None:
    """Return where a goal stands by the statuses of its tasks; None where all were cancelled, which says nothing."""
    alive = sum(number for status, number in counts.items() if status not in _ENDED)
    started = sum(number for status, number in counts.items() if status != "pending")
    if alive:
        return "in_progress" if started else "pending"
    if counts.get("rejected") or counts.get("failed"):
        return "failed"
    return "complete" if counts.get("complete") else None
