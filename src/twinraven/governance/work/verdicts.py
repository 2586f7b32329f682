"""Records decisions about results, with the task they move and what follows, in one transaction.

A decision is refused where the task has moved since the judge saw it, where a later attempt superseded the result,
where it would take the place of a person's decision and none who may decide makes it, and where it would approve a
result although a mandatory check has not passed and nobody who may has overridden that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from twinraven.calls import Envelope
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import Conflict, IllegalTransition, PolicyViolation
from twinraven.foundation.ids import new_id
from twinraven.governance.model import JudgeDecision, PolicyCheck, Task, Verdict, WorkerResult
from twinraven.governance.states import TaskStatus
from twinraven.governance.work.envelopes import EnvelopeLog
from twinraven.governance.work.moves import TaskMoves
from twinraven.governance.work.plan_sql import stale
from twinraven.governance.work.result_sql import stored
from twinraven.governance.work.specs import spec_of
from twinraven.storage import Transaction

_JUDGED: Final = ("review", "escalated", "complete", "rejected")
_ENVELOPE_STATUS: Final[dict[Verdict, Any]] = {"approve": "approved", "reject": "rejected", "escalate": "escalated"}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's verdict on a result, before it is a decision."""

    decision: Verdict
    reason: str
    state_version: int
    checks: tuple[PolicyCheck, ...] = ()
    actions: tuple[dict[str, Any], ...] = ()
    confidence: float | None = None
    risk_tags: tuple[str, ...] = ()
    override_reason: str | None = None
    reviewer_id: str | None = None
    """The person who decided, where it was one."""
    may_review: bool = False
    """Whether it is said, or asked for, by a person who may decide what waits for people."""
    wants_review: bool = False
    envelope: Envelope | None = None
    """As it was sent; one that the house or a person made is written here."""

    @property
    def open_checks(self) -> tuple[PolicyCheck, ...]:
        return tuple(check for check in self.checks if check.is_open)


class Verdicts:
    """Writes decisions."""

    def __init__(self, moves: TaskMoves, envelopes: EnvelopeLog, *, ttl_s: float) -> None:
        self._moves = moves
        self._envelopes = envelopes
        self._ttl = round(ttl_s * 1_000_000)

    def record(
        self, tx: Transaction, task: Task, result: WorkerResult, said: Judgement, *, actor: Actor
    ) -> JudgeDecision:
        """Record a decision and let the task go where it leads."""
        before = self._moves.results.in_force(tx, task.tenant_id, result.result_id)
        self._check(tx, task, result, said)
        _refuse_over_person(before, said, actor, task)
        now = self._moves.micros()
        decision = self._decision(task, result, said, 1 if before is None else before.round + 1, actor=actor, now=now)
        envelope = said.envelope or _envelope(decision)
        decision = replace(decision, envelope_id=envelope.id, idempotency_key=str(envelope.idempotency_key))
        self._envelopes.keep(tx, envelope, decision.as_json(), lineage=task.lineage, sent_by=str(actor), now=now)
        self._moves.results.add_decision(tx, _row(decision, len(said.open_checks)))
        moved = self._follow(tx, task, decision)
        self._moves.witness.note(
            tx,
            f"decision.{_ENVELOPE_STATUS[decision.decision]}",
            ("judge_decision", decision.decision_id),
            task.lineage,
            actor,
            body={"reason": decision.reason_summary, "override": decision.override_reason},
            result_id=result.result_id,
            round=decision.round,
            state_version_used=decision.state_version_used,
            task_status=moved.status,
            open_checks=[check.check_id for check in said.open_checks],
            overridden=decision.override_reason is not None,
            reviewer_id=decision.human_reviewer_id,
            envelope_id=decision.envelope_id,
        )
        return decision

    def _check(self, tx: Transaction, task: Task, result: WorkerResult, said: Judgement) -> None:
        last = self._moves.results.last_result(tx, task.tenant_id, task.task_id)
        if last is None or last.result_id != result.result_id:
            raise Conflict(
                f"result {result.result_id!r} was superseded by a later attempt; judge that one",
                result_id=result.result_id,
                current=None if last is None else last.result_id,
            )
        if said.state_version != task.state_version:
            raise stale("task", task.task_id, said.state_version, task.state_version)
        if task.status not in _JUDGED:
            raise IllegalTransition(
                f"task {task.task_id!r} is {task.status}; a result is judged while its task is in review",
                task_id=task.task_id,
                status=task.status,
            )
        if said.decision == "approve" and said.open_checks and said.override_reason is None:
            names = ", ".join(check.check_id for check in said.open_checks)
            raise PolicyViolation(
                f"mandatory checks have not passed: {names}; approve with an override and its reason, or not at all",
                **task.lineage.as_json(),
                checks=[check.check_id for check in said.open_checks],
            )

    def _decision(
        self, task: Task, result: WorkerResult, said: Judgement, number: int, *, actor: Actor, now: int
    ) -> JudgeDecision:
        escalates = said.decision == "escalate"
        return JudgeDecision(
            lineage=task.lineage,
            decision_id=new_id(),
            result_id=result.result_id,
            round=number,
            decision=said.decision,
            state_version_used=said.state_version,
            reason_summary=said.reason,
            confidence_score=said.confidence,
            risk_tags=said.risk_tags,
            policy_checks=said.checks,
            required_actions=said.actions,
            override_reason=said.override_reason,
            human_review_required=escalates or said.wants_review or said.reviewer_id is not None,
            human_reviewer_id=said.reviewer_id,
            decided_by=str(actor),
            decided_at=from_micros(now),
            expires_at=from_micros(now + self._ttl) if escalates else None,
            envelope_id="",
            idempotency_key="",
        )

    def _follow(self, tx: Transaction, task: Task, decision: JudgeDecision) -> Task:
        """Move the task to where a decision leads, and let others go on."""
        moves, spec = self._moves, spec_of(task)
        status: TaskStatus = "complete"
        if decision.decision == "escalate":
            status = "escalated"
        elif decision.decision == "reject":
            status = "pending" if task.attempts < spec.retry.max_attempts else "rejected"
        moved = moves.move(tx, task, status, may_stay=True)
        if status == "complete":
            moves.completed(tx, moved)
        elif status == "pending":
            moves.enqueue(tx, moved)
        moves.refresh_goal(tx, moved)
        return moved


def _refuse_over_person(before: JudgeDecision | None, said: Judgement, actor: Actor, task: Task) -> None:
    """Refuse to decide in a person's place: over what a person decided, or what a judge outside left to one.

    What the house escalated itself it may judge anew, on the state as it is then; it approves it for nobody but a
    person who may, or asking often enough would do where a check is slow or wavers.
    """
    if before is None or said.may_review:
        return
    is_own_round = actor == SYSTEM and before.decided_by == str(SYSTEM) and said.decision != "approve"
    is_left_to_people = before.decision == "escalate" and not is_own_round
    if is_left_to_people or before.human_reviewer_id is not None:
        why = "waits for a person" if before.decision == "escalate" else "was decided by a person"
        raise PolicyViolation(
            f"result {before.result_id!r} {why}: an administrator or an approver decides it",
            **task.lineage.as_json(),
            decision_id=before.decision_id,
        )


def _envelope(decision: JudgeDecision) -> Envelope:
    """Return the envelope of a decision that the house or a person made here."""
    return Envelope(
        role="judge",
        type="judge.decision",
        status=_ENVELOPE_STATUS[decision.decision],
        payload={
            "result_id": decision.result_id,
            "decision": decision.decision,
            "reason_summary": decision.reason_summary,
            "policy_checks": [check.as_json() for check in decision.policy_checks],
            "required_actions": list(decision.required_actions),
            "human_review": decision.human_review,
            "state_version": decision.state_version_used,
            "override": None if decision.override_reason is None else {"reason": decision.override_reason},
        },
        tenant_id=decision.lineage.tenant_id,
        campaign_id=decision.lineage.campaign_id,
        goal_id=decision.lineage.goal_id,
        task_id=decision.lineage.task_id,
        correlation_id=correlation_or_new(),
        created_at=decision.decided_at,
        confidence_score=decision.confidence_score,
        risk_tags=decision.risk_tags,
        idempotency_key=f"decision:{decision.decision_id}",
    )


def _row(decision: JudgeDecision, open_checks: int) -> dict[str, Any]:
    return {
        "tenant_id": decision.lineage.tenant_id,
        "decision_id": decision.decision_id,
        "task_id": decision.task_id,
        "result_id": decision.result_id,
        "round": decision.round,
        "decision": decision.decision,
        "state_version_used": decision.state_version_used,
        "reason_summary": decision.reason_summary,
        "confidence_score": decision.confidence_score,
        "risk_tags_json": stored(list(decision.risk_tags)),
        "policy_checks_json": stored([check.as_json() for check in decision.policy_checks]),
        "open_checks": open_checks,
        "required_actions_json": stored(list(decision.required_actions)),
        "override_reason": decision.override_reason,
        "human_review_required": int(decision.human_review_required),
        "human_reviewer_id": decision.human_reviewer_id,
        "decided_by": decision.decided_by,
        "decided_at": to_micros(decision.decided_at),
        "expires_at": None if decision.expires_at is None else to_micros(decision.expires_at),
        "envelope_id": decision.envelope_id,
        "idempotency_key": decision.idempotency_key,
    }
