"""A campaign with tasks that judges approved, as rows: what effects need, without the planner, worker and judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from twinraven.app import TwinRaven
from twinraven.foundation.clock import iso, now_micros, utc_now
from twinraven.foundation.ids import new_id
from twinraven.storage import Transaction

SPEC: dict[str, Any] = {
    "task_type": "commerce",
    "description": "Pay the printer",
    "acceptance_criteria": [{"id": "c1", "description": "the invoice was checked", "mandatory": True}],
}


@dataclass(frozen=True, slots=True)
class ApprovedTask:
    """A task whose result was approved, and the ids around it."""

    tenant_id: str = "default"
    campaign_id: str = field(default_factory=new_id)
    goal_id: str = field(default_factory=new_id)
    task_id: str = field(default_factory=new_id)
    result_id: str = field(default_factory=new_id)
    decision_id: str = field(default_factory=new_id)


_REST_OF_AN_ENVELOPE: dict[str, Any] = {
    "payload": {},
    "created_at": iso(utc_now()),
    "confidence_score": 0.9,
    "risk_tags": [],
}


def _insert(tx: Transaction, table: str, row: dict[str, Any]) -> None:
    tx.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})", **row)


async def approved_task(
    raven: TwinRaven,
    *,
    tenant_id: str = "default",
    verdict: str = "approve",
    status: str = "complete",
    expires_at: int | None = None,
    checks: Sequence[dict[str, Any]] = (),
    **constraints: Any,
) -> ApprovedTask:
    """Store a task with one attempt, one result and one decision about it."""
    task = ApprovedTask(tenant_id)
    spec = {**SPEC, "task_id": task.task_id, "constraints": constraints}
    said = {
        "decision": verdict,
        "expires_at": expires_at,
        "policy_checks_json": json.dumps(list(checks)),
        "open_checks": len(checks),
    }
    await raven.database.write(tenant_id, lambda tx: _store(tx, task, spec, said, status=status))
    return task


def _store(tx: Transaction, task: ApprovedTask, spec: dict[str, Any], said: dict[str, Any], *, status: str) -> None:
    now, tenant = now_micros(), {"tenant_id": task.tenant_id}
    made = {"created_by": "ada", "created_at": now}
    shared = {**made, "updated_at": now, "state_version": 1}
    campaign = {**tenant, "campaign_id": task.campaign_id}
    _insert(tx, "campaigns", {**campaign, "name": "spring", "status": "active", **shared})
    goal = {**campaign, "goal_id": task.goal_id}
    _insert(tx, "goals", {**goal, "description": "be seen", "status": "in_progress", **shared})
    _insert(
        tx,
        "tasks",
        {
            **goal,
            "task_id": task.task_id,
            "task_type": spec["task_type"],
            "priority": "normal",
            "status": status,
            "spec_version": 1,
            "idempotency_key": task.task_id,
            "attempts": 1,
            "spent": 0,
            "owner_id": "ada",
            **shared,
        },
    )
    of_task = {**tenant, "task_id": task.task_id}
    text = json.dumps(spec)
    _insert(tx, "task_specs", {**of_task, "spec_version": 1, "spec_json": text, "spec_hash": "h", **made})
    envelope = {"answer": "{}", "sent_by": "ada", "received_at": now, "body_hash": "h"}
    for kind, role, state in (("worker.result", "worker", "complete"), ("judge.decision", "judge", "approved")):
        told = {"type": kind, "role": role, "status": state, "idempotency_key": new_id(), "correlation_id": new_id()}
        body = json.dumps({**told, **goal, **of_task, "id": f"{kind}:{task.task_id}", **_REST_OF_AN_ENVELOPE})
        _insert(tx, "envelopes", {**of_task, "envelope_id": f"{kind}:{task.task_id}", **told, **envelope, "body": body})
    run_id = new_id()
    attempt = {"attempt_number": 1, "spec_version": 1, "status": "complete", "worker": "w", "started_at": now}
    _insert(tx, "worker_runs", {**of_task, "worker_run_id": run_id, **attempt, "finished_at": now})
    _insert(
        tx,
        "worker_results",
        {
            **of_task,
            "result_id": task.result_id,
            "worker_run_id": run_id,
            "status": "complete",
            "confidence_score": 0.9,
            "risk_tags_json": "[]",
            "outputs_json": "{}",
            "evidence_json": "[]",
            "invocations_json": "[]",
            "cost": 0,
            "envelope_id": f"worker.result:{task.task_id}",
            "idempotency_key": new_id(),
            "created_at": now,
        },
    )
    _insert(
        tx,
        "judge_decisions",
        {
            **of_task,
            "decision_id": task.decision_id,
            "result_id": task.result_id,
            "round": 1,
            "state_version_used": 1,
            "reason_summary": "fine",
            "risk_tags_json": "[]",
            "required_actions_json": "[]",
            "human_review_required": int(said["decision"] == "escalate"),
            "decided_by": "judge",
            "decided_at": now,
            **said,
            "envelope_id": f"judge.decision:{task.task_id}",
            "idempotency_key": new_id(),
        },
    )


async def add_budget(raven: TwinRaven, task: ApprovedTask, total: int, *, currency: str = "EUR") -> str:
    """Give the task's campaign a budget."""
    budget_id, now = new_id(), now_micros()
    row = {
        "tenant_id": task.tenant_id,
        "budget_id": budget_id,
        "campaign_id": task.campaign_id,
        "name": "spring",
        "status": "open",
        "currency": currency,
        "total": total,
        "state_version": 1,
        "created_by": "ada",
        "created_at": now,
        "updated_at": now,
    }
    await raven.database.write(task.tenant_id, lambda tx: _insert(tx, "budgets", row))
    return budget_id
