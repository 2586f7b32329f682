"""Models campaigns, goals, tasks, results and decisions, as a client reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.sdk.model import JsonObject

Verdict = Literal["approve", "reject", "escalate"]


@dataclass(frozen=True, slots=True)
class CampaignInfo:
    """A campaign, which goals belong to."""

    campaign_id: str
    name: str
    status: str
    state_version: int
    created_at: datetime
    updated_at: datetime
    persona_id: str | None = None
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class GoalInfo:
    """A goal, from which tasks are derived."""

    goal_id: str
    campaign_id: str
    description: str
    status: str
    state_version: int
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class BudgetInfo:
    """The budget of a campaign; `total` is decimal text."""

    budget_id: str
    campaign_id: str
    name: str
    status: str
    currency: str
    total: str
    state_version: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task; asked for by itself, with its attempts, results and decisions."""

    task_id: str
    campaign_id: str
    goal_id: str
    task_type: str
    priority: str
    status: str
    spec_version: int
    spec_json: JsonObject
    idempotency_key: str
    attempts: int
    state_version: int
    created_at: datetime
    updated_at: datetime
    spent: int = 0
    due_at: datetime | None = None
    owner_id: str | None = None
    created_by: str | None = None
    dependencies: tuple[str, ...] = ()
    runs: tuple[Any, ...] = ()
    results: tuple[Any, ...] = ()
    decisions: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class SpecInfo:
    """One version of a task's spec, which never changes."""

    task_id: str
    spec_version: int
    spec_json: JsonObject
    spec_hash: str
    created_by: str
    created_at: datetime
    envelope_id: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """One attempt at a task."""

    worker_run_id: str
    task_id: str
    attempt_number: int
    spec_version: int
    status: str
    worker: str
    run_id: str | None = None
    envelope_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    required_actions: tuple[JsonObject, ...] = ()
    """What a judge asks of it, where it was claimed just now."""


@dataclass(frozen=True, slots=True)
class ResultInfo:
    """The result of an attempt."""

    result_id: str
    task_id: str
    worker_run_id: str
    attempt_number: int
    status: str
    confidence_score: float
    outputs: JsonObject
    envelope_id: str
    idempotency_key: str
    created_at: datetime
    campaign_id: str | None = None
    goal_id: str | None = None
    worker: str | None = None
    risk_tags: tuple[str, ...] = ()
    acceptance_evidence: tuple[Any, ...] = ()
    tool_invocations: tuple[Any, ...] = ()
    error: Any = None


@dataclass(frozen=True, slots=True)
class DecisionInfo:
    """One judgement of a result; the last one about it is in force."""

    decision_id: str
    task_id: str
    result_id: str
    round: int
    decision: Verdict
    state_version_used: int
    reason_summary: str
    policy_checks: tuple[Any, ...]
    human_review: JsonObject
    decided_by: str
    decided_at: datetime
    envelope_id: str
    campaign_id: str | None = None
    goal_id: str | None = None
    confidence_score: float | None = None
    risk_tags: tuple[str, ...] = ()
    required_actions: tuple[Any, ...] = ()
    override_reason: str | None = None
    expires_at: datetime | None = None
