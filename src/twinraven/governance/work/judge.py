"""Judges results: by the checks of the house, by judges outside, and by people to whom a result was escalated.

Decisions are only ever added; the last one about a result is in force. `gate` is what effects ask: the decision in
force for a task, or a refusal that says why there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from twinraven.calls import Envelope
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import IllegalTransition, InvalidInput, NotFound, PolicyViolation, StaleState
from twinraven.governance.model import Campaign, JudgeDecision, PolicyCheck, Task, Verdict, WorkerResult
from twinraven.governance.money import Money
from twinraven.governance.work.check_subject import CheckSubject, OutgoingContent
from twinraven.governance.work.checks import Evaluation, PolicyChecks
from twinraven.governance.work.costs import cost_of
from twinraven.governance.work.envelopes import EnvelopeLog, HoldsSecret, read_envelope, refuse_foreign, shown_envelope
from twinraven.governance.work.judging_rights import (
    may_review,
    refuse_override,
    refuse_own,
    refuse_unknown_artifacts,
    refuse_unreviewed,
    refuse_who_may_not,
)
from twinraven.governance.work.moves import TaskMoves
from twinraven.governance.work.result_sql import read_check
from twinraven.governance.work.specs import spec_of
from twinraven.governance.work.verdicts import Judgement, Verdicts
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

T = TypeVar("T")
MOST_LISTED: Final = 1_000
_ROUNDS: Final = 8
_WORDS: Final[dict[str, Verdict]] = {"approved": "approve", "rejected": "reject", "escalated": "escalate"}


class Judge:
    """Decides about results, and says which decision is in force."""

    def __init__(
        self,
        database: Database,
        moves: TaskMoves,
        verdicts: Verdicts,
        checks: PolicyChecks,
        envelopes: EnvelopeLog,
        *,
        holds_secret: HoldsSecret,
    ) -> None:
        self._database = database
        self._moves = moves
        self._verdicts = verdicts
        self._checks = checks
        self._envelopes = envelopes
        self._holds_secret = holds_secret

    async def decide(self, body: Any, *, by: Principal) -> dict[str, Any]:
        """Take a judge.decision envelope; sent again, it answers the same.

        The checks of the house are kept with those it brings: an approval is held against both, and who is left to
        decide sees both. A decision on old state is refused with the current version, and the house's own checks judge
        the result anew where they are asked to.
        """
        envelope = await asyncio.to_thread(
            read_envelope, body, "judge.decision", tenant_id=by.tenant_id, holds_secret=self._holds_secret
        )
        payload = envelope.payload
        if _WORDS[envelope.status] != payload["decision"]:
            raise InvalidInput(f"a decision to {payload['decision']} is not {envelope.status}", field="status")
        subject = ("worker_result", str(payload["result_id"]))
        async with self._moves.witness.refusals("decision", subject, by) as known:
            earlier = await self._database.read(by.tenant_id, lambda tx: self._envelopes.earlier(tx, envelope))
            if earlier is not None:
                return earlier
            task, result = await self.judged(by.tenant_id, subject[1])
            known.update(task.lineage.as_json())
            refuse_own(result, by)
            refuse_foreign(envelope, task)
            refuse_unknown_artifacts(payload.get("required_actions") or (), result, "payload.required_actions")
            refuse_unreviewed(payload, by)
            refuse_override(payload.get("override"), task, by)
            said = _judgement(envelope, await self._evaluate(task, result), by)

            def work(tx: Transaction) -> dict[str, Any]:
                earlier = self._envelopes.earlier(tx, envelope)
                if earlier is not None:
                    return earlier
                return self._record(tx, by.tenant_id, result.result_id, said, by.actor).as_json()

            return await self._written(by.tenant_id, work)

    async def evaluate(self, result_id: str, *, by: Principal) -> JudgeDecision:
        """Judge a result by the checks of the house, on the state as it is now, and anew if that moves meanwhile."""
        async with self._moves.witness.refusals("decision", ("worker_result", result_id), by) as known:
            for _ in range(_ROUNDS - 1):
                with suppress(StaleState):
                    return await self._judge(result_id, by, known)
            return await self._judge(result_id, by, known)

    async def resolve(
        self,
        decision_id: str,
        verdict: Verdict,
        *,
        reason: str,
        by: Principal,
        override: bool = False,
        actions: tuple[dict[str, Any], ...] = (),
    ) -> JudgeDecision:
        """Decide, as a person, what was escalated, or decide anew; the decision must still be the one in force.

        An approval of what a mandatory check did not let pass is an override: it must be meant, and `reason` is kept.
        """
        if not reason.strip():
            raise InvalidInput("reason must say why", field="reason")
        async with self._moves.witness.refusals("decision", ("judge_decision", decision_id), by) as known:
            before = await self.get(by.tenant_id, decision_id)
            known.update(before.lineage.as_json())
            refuse_who_may_not(before, by)
            _, result = await self.judged(by.tenant_id, before.result_id)
            refuse_unknown_artifacts(actions, result, "required_actions")
            open_checks = [check for check in before.policy_checks if check.is_open]
            overrides = verdict == "approve" and bool(open_checks)
            said = Judgement(
                decision=verdict,
                reason=reason,
                state_version=0,
                checks=before.policy_checks,
                actions=actions if verdict == "reject" else (),
                confidence=before.confidence_score,
                risk_tags=before.risk_tags,
                override_reason=reason if overrides and override else None,
                reviewer_id=by.user_id,
                may_review=True,
            )
            return await self._written(by.tenant_id, lambda tx: self._resolved(tx, before, said, by))

    async def get(self, tenant_id: str, decision_id: str) -> JudgeDecision:
        return await self._database.read(tenant_id, lambda tx: self._moves.results.decision(tx, tenant_id, decision_id))

    async def judged(self, tenant_id: str, result_id: str) -> tuple[Task, WorkerResult]:
        """Return a result, and the task that it is a result of."""

        def work(tx: Transaction) -> tuple[Task, WorkerResult]:
            result = self._moves.results.result(tx, tenant_id, result_id)
            return self._moves.plans.task(tx, tenant_id, str(result.lineage.task_id)), result

        return await self._database.read(tenant_id, work)

    async def list(
        self,
        tenant_id: str,
        *,
        verdict: Verdict | None = None,
        is_in_force: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[JudgeDecision, ...]:
        """Decisions in the order in which they were made; `after` names the last of the page before."""

        def work(tx: Transaction) -> tuple[JudgeDecision, ...]:
            place = None
            if after is not None:
                last = self._moves.results.decision(tx, tenant_id, after)
                place = (to_micros(last.decided_at), last.decision_id)
            return tuple(
                self._moves.results.listing(
                    tx, tenant_id, limit=limit, after=place, verdict=verdict, is_in_force=is_in_force
                )
            )

        return await self._database.read(tenant_id, work)

    async def escalated(self, tenant_id: str, *, limit: int = MOST_LISTED) -> tuple[JudgeDecision, ...]:
        """Decisions that wait for a person, the oldest first; those that expired are left out."""
        results, now = self._moves.results, self._moves.micros()
        return await self._database.read(
            tenant_id, lambda tx: tuple(results.waiting(tx, tenant_id, now=now, limit=limit))
        )

    async def is_waiting(self, tenant_id: str, decision_id: str) -> bool:
        """Return whether a decision waits for a person."""
        results, now = self._moves.results, self._moves.micros()
        return await self._database.read(
            tenant_id, lambda tx: bool(results.waiting(tx, tenant_id, now=now, limit=1, decision_id=decision_id))
        )

    async def about(self, tenant_id: str, task_id: str) -> tuple[JudgeDecision, ...]:
        """Return all decisions about a task, the first one first."""
        return await self._database.read(
            tenant_id, lambda tx: tuple(self._moves.results.decisions(tx, tenant_id, task_id))
        )

    async def envelope(self, tenant_id: str, envelope_id: str) -> dict[str, Any]:
        """Return an envelope as it was sent."""
        row = await self._database.read(tenant_id, lambda tx: self._moves.results.envelope(tx, tenant_id, envelope_id))
        if row is None:
            raise NotFound(f"there is no envelope {envelope_id!r}", subject="envelope", subject_id=envelope_id)
        return shown_envelope(row)

    def gate(
        self,
        tx: Transaction,
        tenant_id: str,
        task_id: str,
        *,
        allowed_by: str | None = None,
        leaving: OutgoingContent | None = None,
        amount: Money | None = None,
    ) -> JudgeDecision:
        """Return the decision in force that allows an effect for a task, in the transaction that begins the effect.

        PolicyViolation says why there is none: nothing was approved, the campaign is not active, the task's window is
        closed, its channels or personas do not name this one, its budget does not reach, or a check forbids what would
        be said.
        `allowed_by` is the decision that allowed an effect before: an approval of a later result is not one of what
        was to leave for an earlier one. `amount` is what the task's effects cost with this one, in one sum.
        """
        task = self._moves.plans.task(tx, tenant_id, task_id)
        result = self._moves.results.last_result(tx, tenant_id, task_id)
        decision = None if result is None else self._moves.results.in_force(tx, tenant_id, result.result_id)
        why = None
        if result is None or decision is None or decision.decision != "approve" or task.status != "complete":
            why = "no approval of its last result is in force"
        elif allowed_by is not None and self._approved(tx, tenant_id, allowed_by) != result.result_id:
            why = f"what decision {allowed_by!r} approved was superseded by result {result.result_id!r}"
        else:
            why = self._why_not(tx, task, leaving or OutgoingContent(), amount)
            if why is None and leaving is not None:
                why = self._forbidden(tx, task, result, decision, leaving)
        if why is not None or decision is None:
            raise PolicyViolation(f"no effect for task {task_id!r}: {why}", **task.lineage.as_json())
        return decision

    def _approved(self, tx: Transaction, tenant_id: str, decision_id: str) -> str:
        """Return the result that a decision is about."""
        return self._moves.results.decision(tx, tenant_id, decision_id).result_id

    def _why_not(self, tx: Transaction, task: Task, leaving: OutgoingContent, amount: Money | None) -> str | None:
        """Return what the task's constraints have against an effect now."""
        limits, now = spec_of(task).constraints, from_micros(self._moves.micros())
        campaign = self._moves.plans.campaign(tx, task.tenant_id, task.campaign_id)
        if campaign.status != "active":
            return f"its campaign is {campaign.status}"
        if (limits.starts_at is not None and now < limits.starts_at) or (
            limits.ends_at is not None and now >= limits.ends_at
        ):
            return "it is outside its time_window"
        if leaving.channel is not None:
            if limits.channels and leaving.channel not in limits.channels:
                return f"its channels do not name {leaving.channel!r}"
            persona = leaving.persona_id or campaign.persona_id
            if limits.persona_ids and persona not in limits.persona_ids:
                names = ", ".join(limits.persona_ids)
                return f"it must speak as {names}, and its persona_id is {persona or 'not stated'}"
        if amount is not None and limits.max_budget is not None:
            if amount.currency != limits.currency:
                return f"its budget is in {limits.currency}, not {amount.currency}"
            if task.spent + amount.minor > limits.max_budget:
                return "its max_budget does not reach"
        return None

    def _forbidden(
        self, tx: Transaction, task: Task, result: WorkerResult, decision: JudgeDecision, leaving: OutgoingContent
    ) -> str | None:
        """Hold what is about to leave against the checks that look at it; what a person overrode may leave."""
        campaign = self._moves.plans.campaign(tx, task.tenant_id, task.campaign_id)
        overridden = [check.check_id for check in decision.policy_checks if check.is_open]
        return self._checks.forbids(self._subject(task, result, campaign).showing(leaving), overridden)

    async def _evaluate(self, task: Task, result: WorkerResult) -> Evaluation:
        campaign = await self._database.read(
            task.tenant_id, lambda tx: self._moves.plans.campaign(tx, task.tenant_id, task.campaign_id)
        )
        return await self._checks.evaluate(self._subject(task, result, campaign))

    def _subject(self, task: Task, result: WorkerResult, campaign: Campaign) -> CheckSubject:
        spec = spec_of(task)
        cost = cost_of(result.invocations, spec.constraints.currency)
        return CheckSubject(
            task=task,
            spec=spec,
            campaign=campaign,
            confidence=result.confidence_score,
            risk_tags=result.risk_tags,
            outputs=result.outputs,
            evidence=result.evidence,
            cost=cost.total,
            spent=task.spent,
            has_foreign_cost=cost.has_foreign,
            now=from_micros(self._moves.micros()),
        )

    async def _judge(self, result_id: str, by: Principal, known: dict[str, Any]) -> JudgeDecision:
        """Judge a result by the checks of the house, once; StaleState where its task moved meanwhile."""
        task, result = await self.judged(by.tenant_id, result_id)
        known.update(task.lineage.as_json())
        evaluation = await self._evaluate(task, result)
        said = Judgement(
            decision=evaluation.verdict,
            reason=evaluation.reason,
            state_version=task.state_version,
            checks=evaluation.checks,
            actions=evaluation.actions,
            confidence=result.confidence_score,
            risk_tags=result.risk_tags,
            may_review=may_review(by),
        )
        return await self._written(by.tenant_id, lambda tx: self._record(tx, by.tenant_id, result_id, said, SYSTEM))

    def _record(self, tx: Transaction, tenant_id: str, result_id: str, said: Judgement, actor: Actor) -> JudgeDecision:
        result = self._moves.results.result(tx, tenant_id, result_id)
        task = self._moves.plans.task(tx, tenant_id, str(result.lineage.task_id))
        return self._verdicts.record(tx, task, result, said, actor=actor)

    def _resolved(self, tx: Transaction, before: JudgeDecision, said: Judgement, by: Principal) -> JudgeDecision:
        """Record a person's decision, if what they saw is still in force."""
        current = self._moves.results.in_force(tx, by.tenant_id, before.result_id)
        if current is None or current.decision_id != before.decision_id:
            raise StaleState(
                f"decision {before.decision_id!r} was replaced by another; look at that one",
                decision_id=before.decision_id,
                current=None if current is None else current.decision_id,
            )
        if before.expires_at is not None and to_micros(before.expires_at) <= self._moves.micros():
            raise IllegalTransition(
                f"decision {before.decision_id!r} waited too long and has expired; judge the result again",
                decision_id=before.decision_id,
            )
        result = self._moves.results.result(tx, by.tenant_id, before.result_id)
        task = self._moves.plans.task(tx, by.tenant_id, before.task_id)
        said = replace(said, state_version=task.state_version)
        return self._verdicts.record(tx, task, result, said, actor=by.actor)

    async def _written(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        written = await self._database.write(tenant_id, work)
        self._moves.runs().announce()
        return written


def _judgement(envelope: Envelope, evaluation: Evaluation, by: Principal) -> Judgement:
    payload = envelope.payload
    override = payload.get("override")
    review: JsonObject = payload.get("human_review") or {}
    return Judgement(
        decision=payload["decision"],
        reason=payload["reason_summary"],
        state_version=payload["state_version"],
        checks=_all_checks(tuple(read_check(each) for each in payload.get("policy_checks") or ()), evaluation),
        actions=tuple(payload.get("required_actions") or ()),
        confidence=envelope.confidence_score,
        risk_tags=envelope.risk_tags,
        override_reason=None if override is None else override["reason"],
        reviewer_id=by.user_id if may_review(by) else None,
        may_review=may_review(by),
        wants_review=bool(review.get("required")),
        envelope=envelope,
    )


def _all_checks(brought: tuple[PolicyCheck, ...], evaluation: Evaluation) -> tuple[PolicyCheck, ...]:
    """Return what a judge outside brings, and what the house found itself; of two of one name the house's counts."""
    own = {check.check_id for check in evaluation.checks}
    return (*evaluation.checks, *(check for check in brought if check.check_id not in own))
