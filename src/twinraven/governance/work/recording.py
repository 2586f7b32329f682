"""Records attempts and their results, with the task they move and the decision where the house judges.

Everything here happens inside the caller's transaction, which fails with StaleState where the task has moved since the
result was judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinraven.calls import Envelope
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import Conflict, IllegalTransition, PolicyViolation
from twinraven.foundation.ids import new_id
from twinraven.governance.model import Campaign, Task, TaskSpec, WorkerResult, WorkerRun
from twinraven.governance.work.checks import Evaluation
from twinraven.governance.work.costs import AttemptCost, cost_of
from twinraven.governance.work.envelopes import EnvelopeLog
from twinraven.governance.work.moves import TaskMoves
from twinraven.governance.work.plan_sql import stale
from twinraven.governance.work.result_sql import stored
from twinraven.governance.work.verdicts import Judgement, Verdicts
from twinraven.storage import Transaction
from twinraven.tenancy import Principal


@dataclass(frozen=True, slots=True)
class AttemptSnapshot:
    """A snapshot of an attempt, taken before its result is judged."""

    task: Task
    spec: TaskSpec
    campaign: Campaign
    run: WorkerRun | None


class ResultRecorder:
    """Writes attempts and results."""

    def __init__(self, moves: TaskMoves, verdicts: Verdicts, envelopes: EnvelopeLog) -> None:
        self.moves = moves
        self.envelopes = envelopes
        self._verdicts = verdicts

    def refuse_limits(self, task: Task, spec: TaskSpec) -> None:
        """Refuse an attempt outside the task's window, or after its budget is used up."""
        limits, now = spec.constraints, from_micros(self.moves.micros())
        why = None
        if limits.ends_at is not None and now >= limits.ends_at:
            why = "its time_window is over"
        elif limits.starts_at is not None and now < limits.starts_at:
            why = "its time_window has not begun"
        elif limits.max_budget is not None and task.attempts > 0 and task.spent >= limits.max_budget:
            why = "its max_budget is used up"
        if why is not None:
            raise PolicyViolation(f"task {task.task_id!r} is not attempted: {why}", **task.lineage.as_json())

    def begin_outside(self, tx: Transaction, task: Task, spec: TaskSpec, by: Principal) -> WorkerRun:
        """Begin the attempt of a worker outside, within the task's limits."""
        if spec.work is not None:
            raise Conflict(f"task {task.task_id!r} is run by the house's own worker", task_id=task.task_id)
        self.refuse_limits(task, spec)
        if task.status != "pending":
            raise IllegalTransition(
                f"task {task.task_id!r} is {task.status}; only a pending one can be attempted",
                task_id=task.task_id,
                status=task.status,
            )
        if not self.moves.is_ready(tx, task):
            raise Conflict(
                f"task {task.task_id!r} is not ready: its campaign is not active, or a task before it is not complete",
                task_id=task.task_id,
            )
        run = WorkerRun(
            tenant_id=task.tenant_id,
            worker_run_id=new_id(),
            task_id=task.task_id,
            attempt_number=task.attempts + 1,
            spec_version=task.spec_version,
            status="queued",
            run_id=None,
            envelope_id=None,
            worker=str(by.actor),
            started_at=None,
            finished_at=None,
        )
        names = ("tenant_id", "worker_run_id", "task_id", "attempt_number", "spec_version", "status", "worker")
        self.moves.results.add_run(tx, {name: getattr(run, name) for name in names})
        self.start(tx, task, run, by.actor)
        begun = self.moves.results.attempt(tx, task.tenant_id, task.task_id, run.attempt_number)
        assert begun is not None
        return begun

    def start(self, tx: Transaction, task: Task, run: WorkerRun, actor: Actor) -> Task:
        moves = self.moves
        moved = moves.move(tx, task, "in_progress", attempts=run.attempt_number)
        moves.results.move_run(tx, run, "in_progress", started_at=moves.micros())
        moves.refresh_goal(tx, moved)
        moves.witness.note(
            tx,
            "task.attempt_begun",
            ("worker_run", run.worker_run_id),
            task.lineage,
            actor,
            attempt_number=run.attempt_number,
            run_id=run.run_id,
            state_version=moved.state_version,
        )
        return moved

    def record(
        self,
        tx: Transaction,
        sight: AttemptSnapshot,
        envelope: Envelope,
        evaluation: Evaluation | None,
        *,
        actor: Actor,
        by: Principal | None = None,
    ) -> WorkerResult:
        """Record a result, and the decision about it where there is one; StaleState where the task has moved."""
        moves = self.moves
        task, run = moves.plans.task(tx, sight.task.tenant_id, sight.task.task_id), sight.run
        if task.state_version != sight.task.state_version:
            raise stale("task", task.task_id, sight.task.state_version, task.state_version)
        if run is None and by is not None:
            run = self.begin_outside(tx, task, sight.spec, by)
            task = moves.plans.task(tx, task.tenant_id, task.task_id)
        assert run is not None
        if run.status == "queued":  # it was refused before it began
            task = self.start(tx, task, run, actor)
            run = moves.results.attempt(tx, task.tenant_id, task.task_id, run.attempt_number)
            assert run is not None
        result = self._result(task, run, envelope, minor_of(attempt_cost(sight.spec, envelope)))
        self.envelopes.keep(
            tx, envelope, result.as_json(), lineage=task.lineage, sent_by=str(actor), now=moves.micros()
        )
        now = to_micros(result.created_at)
        moves.results.move_run(tx, run, result.status, finished_at=now, envelope_id=envelope.id)
        moves.results.add_result(tx, _row(result))
        task = self._after(tx, task, sight.spec, result)
        self._witness(tx, task, result, actor)
        if evaluation is not None and task.status == "review":
            said = Judgement(
                decision=evaluation.verdict,
                reason=evaluation.reason,
                state_version=task.state_version,
                checks=evaluation.checks,
                actions=evaluation.actions,
                confidence=result.confidence_score,
                risk_tags=result.risk_tags,
            )
            self._verdicts.record(tx, task, result, said, actor=SYSTEM)
        return result

    def _result(self, task: Task, run: WorkerRun, envelope: Envelope, cost: int) -> WorkerResult:
        payload = envelope.payload
        return WorkerResult(
            lineage=task.lineage,
            result_id=new_id(),
            worker_run_id=run.worker_run_id,
            attempt_number=run.attempt_number,
            worker=run.worker,
            status="complete" if envelope.status == "complete" else "failed",
            confidence_score=float(envelope.confidence_score or 0.0),
            risk_tags=envelope.risk_tags,
            outputs=payload["outputs"],
            evidence=tuple(payload.get("acceptance_evidence") or ()),
            invocations=tuple(payload.get("tool_invocations") or ()),
            error=envelope.error,
            cost=cost,
            envelope_id=envelope.id,
            idempotency_key=str(envelope.idempotency_key),
            created_at=from_micros(self.moves.micros()),
        )

    def _after(self, tx: Transaction, task: Task, spec: TaskSpec, result: WorkerResult) -> Task:
        """Return where a task goes with a result: to review, to another attempt after a pause, or to its end."""
        moves, spent = self.moves, task.spent + result.cost
        if result.status == "complete":
            return moves.move(tx, task, "review", spent=spent)
        may_try = bool((result.error or {}).get("retryable")) and task.attempts < spec.retry.max_attempts
        if not may_try:
            failed = moves.move(tx, task, "failed", spent=spent)
            moves.refresh_goal(tx, failed)
            return failed
        due = moves.micros() + round(spec.retry.delay_s(task.attempts) * 1_000_000)
        again = moves.move(tx, task, "pending", spent=spent, due_at=due)
        moves.enqueue(tx, again)
        return again

    def _witness(self, tx: Transaction, task: Task, result: WorkerResult, actor: Actor) -> None:
        error = result.error or {}
        self.moves.witness.note(
            tx,
            f"result.{result.status}",
            ("worker_result", result.result_id),
            result.lineage,
            actor,
            code=error.get("code"),
            message=error.get("message"),
            worker_run_id=result.worker_run_id,
            attempt_number=result.attempt_number,
            envelope_id=result.envelope_id,
            calls=[each["call_id"] for each in result.invocations],
            task_status=task.status,
            state_version=task.state_version,
        )


def attempt_cost(spec: TaskSpec, envelope: Envelope) -> AttemptCost:
    return cost_of(envelope.payload.get("tool_invocations") or (), spec.constraints.currency)


def minor_of(cost: AttemptCost) -> int:
    return 0 if cost.total is None else cost.total.minor


def _row(result: WorkerResult) -> dict[str, Any]:
    return {
        "tenant_id": result.lineage.tenant_id,
        "result_id": result.result_id,
        "task_id": result.lineage.task_id,
        "worker_run_id": result.worker_run_id,
        "status": result.status,
        "confidence_score": result.confidence_score,
        "risk_tags_json": stored(list(result.risk_tags)),
        "outputs_json": stored(result.outputs),
        "evidence_json": stored(list(result.evidence)),
        "invocations_json": stored(list(result.invocations)),
        "error_json": None if result.error is None else stored(result.error),
        "cost": result.cost,
        "envelope_id": result.envelope_id,
        "idempotency_key": result.idempotency_key,
        "created_at": to_micros(result.created_at),
    }
