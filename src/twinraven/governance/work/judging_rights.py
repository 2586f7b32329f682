"""Refuses decisions by who may not make them, and decisions that contradict themselves or what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidInput, NotFound, PolicyViolation
from twinraven.governance.model import JudgeDecision, Task, WorkerResult
from twinraven.tenancy import Principal


def may_review(by: Principal) -> bool:
    """Return whether a principal is a person who may decide what is left to people."""
    return by.kind == "person" and by.may_decide


def refuse_own(result: WorkerResult, by: Principal) -> None:
    """Refuse a judge of their own work, unless it is a person who may decide anyway."""
    if result.worker == str(by.actor) and not may_review(by):
        words = "an agent does not judge its" if by.kind == "agent" else "members do not judge their"
        raise PolicyViolation(f"{words} own result", **result.lineage.as_json(), result_id=result.result_id)


def refuse_unknown_artifacts(actions: Sequence[JsonObject], result: WorkerResult, where: str) -> None:
    """Refuse an action about an artifact that the result does not have: no worker could do what is asked."""
    there = {str(each["artifact_id"]) for each in result.outputs.get("artifacts") or ()}
    for number, action in enumerate(actions):
        target = action.get("target_artifact_id")
        if target is not None and target not in there:
            field = f"{where}[{number}].target_artifact_id"
            raise NotFound(f"{field}: the result has no artifact {target!r}", field=field)


def refuse_unreviewed(payload: JsonObject, by: Principal) -> None:
    """Refuse an approval that says itself that a person has to look at it first."""
    review: JsonObject = payload.get("human_review") or {}
    if payload["decision"] == "approve" and review.get("required") and not may_review(by):
        raise InvalidInput(
            "payload.human_review is required, so a person decides: escalate, and who may decide approves",
            field="payload.human_review",
        )


def refuse_override(override: Any, task: Task, by: Principal) -> None:
    """Refuse an override, except by a person who may decide."""
    if override is not None and not may_review(by):
        raise PolicyViolation(
            "an override needs a person who may decide: an administrator or an approver", **task.lineage.as_json()
        )


def refuse_who_may_not(before: JudgeDecision, by: Principal) -> None:
    """Refuse a principal who may not decide what was left to people."""
    if not may_review(by):
        raise PolicyViolation(
            "what is escalated is decided by a person: an administrator or an approver", **before.lineage.as_json()
        )
