"""Shows results that a judge escalated as inbox items, and takes a person's decision about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from twinraven.governance import Judge, JudgeDecision, Task, WorkerResult
from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem, ItemCost, ItemState
from twinraven.tenancy import Principal

_APPROVE: Final = InboxChoice("approve", "let the result stand, and what it leads to happen", needs="note")
_OVERRIDE: Final = InboxChoice(
    "approve", "let the result stand although mandatory checks did not pass; the note is kept as override", needs="note"
)
_LONGEST: Final = 200
_REJECT: Final = InboxChoice("reject", "send the work back with your note", needs="note")


class EscalatedJudgements:
    """Decisions that wait for a person's review."""

    kind: Literal["judgement"] = "judgement"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [await self._item(tenant_id, each, "open") for each in await self._judge.escalated(tenant_id)]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        decision = await self._judge.get(tenant_id, ref)
        is_open = await self._judge.is_waiting(tenant_id, ref)
        if is_open or decision.decision != "escalate":
            return await self._item(tenant_id, decision, "open" if is_open else "decided")
        later = await self._successor(tenant_id, decision)
        if later is None:
            return await self._item(tenant_id, decision, "expired")
        return await self._item(tenant_id, decision, "decided", later)

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        """Decide anew; the judge refuses it where the decision shown is no longer the one in force."""
        verdict = "approve" if said.choice == "approve" else "reject"
        rework = {"action": "rework", "target_artifact_id": None, "notes": said.note}
        await self._judge.resolve(
            item.ref,
            verdict,
            reason=said.note,
            by=by,
            override=bool(item.evidence["open_checks"]),
            actions=(rework,),
        )

    async def _successor(self, tenant_id: str, decision: JudgeDecision) -> JudgeDecision | None:
        """Return the decision of a person that came after an escalation."""
        found = await self._judge.about(tenant_id, decision.task_id)
        later = [each for each in found if each.result_id == decision.result_id and each.round > decision.round]
        return later[0] if later else None

    async def _item(
        self, tenant_id: str, decision: JudgeDecision, state: ItemState, later: JudgeDecision | None = None
    ) -> InboxItem:
        task, result = await self._judge.judged(tenant_id, decision.result_id)
        failed = [check.as_json() for check in decision.policy_checks if check.is_open]
        return InboxItem(
            tenant_id=tenant_id,
            kind="judgement",
            ref=decision.decision_id,
            what=f"let attempt {result.attempt_number} at “{_described(task)}” stand, and effects leave for it, or not",
            target=decision.task_id,
            why=decision.reason_summary,
            choices=(_OVERRIDE if failed else _APPROVE, _REJECT),
            asked_at=decision.decided_at,
            evidence={**_evidence(decision, result), "task": _asked(task), "open_checks": failed},
            cost=_cost(task, result),
            requested_by=decision.decided_by,
            expires_at=decision.expires_at,
            state=state,
            decision=None if later is None else later.decision,
            decided_by=None if later is None else later.human_reviewer_id or later.decided_by,
            decided_at=None if later is None else later.decided_at,
        )


def _evidence(decision: JudgeDecision, result: WorkerResult) -> dict[str, Any]:
    return {
        **decision.lineage.as_json(),
        "result_id": result.result_id,
        "attempt_number": result.attempt_number,
        "confidence_score": result.confidence_score,
        "risk_tags": list(result.risk_tags),
        "outputs": result.outputs,
        "acceptance_evidence": list(result.evidence),
        "policy_checks": [check.as_json() for check in decision.policy_checks],
        "state_version_used": decision.state_version_used,
    }


def _described(task: Task) -> str:
    return str(task.spec_json.get("description", task.task_type))[:_LONGEST]


def _asked(task: Task) -> dict[str, Any]:
    """Return what the result is an answer to, and what holds for it."""
    names = ("task_type", "description", "constraints", "acceptance_criteria")
    return {name: task.spec_json[name] for name in names if name in task.spec_json}


def _cost(task: Task, result: WorkerResult) -> ItemCost | None:
    """Return what the attempt cost, in the currency of its budget; None where nothing was counted."""
    limits: dict[str, Any] = task.spec_json.get("constraints") or {}
    return ItemCost(amount_minor=result.cost, currency=limits.get("currency")) if result.cost else None
