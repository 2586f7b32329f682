"""Models governed work: campaigns, goals, tasks with their specs, attempts, results and decisions.

Specs, results and decisions are kept as their envelopes said them, unknown fields too, because contracts grow by
addition; what the house acts on is read from them here. `state_version` counts the changes of shared state: whoever
changes it names the version they saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args

from twinraven.foundation.clock import iso
from twinraven.governance.states import CampaignStatus, GoalStatus, TaskStatus, WorkerRunStatus

TaskType = Literal["trend_research", "content_generation", "engagement", "media_production", "commerce", "other"]
Priority = Literal["low", "normal", "high", "critical"]
BackoffWord = Literal["exponential", "fixed", "none"]
Verdict = Literal["approve", "reject", "escalate"]
CheckResult = Literal["pass", "fail", "warning"]
ActionWord = Literal["edit", "rework", "explain", "add_disclosure"]
ArtifactKind = Literal["post_draft", "reply_draft", "script", "image", "video", "metadata_only", "other"]
WorkKind = Literal["tool", "process", "plan"]

TASK_TYPES: Final[tuple[TaskType, ...]] = get_args(TaskType)
PRIORITIES: Final[tuple[Priority, ...]] = get_args(Priority)
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)

RUN_PRIORITY: Final[dict[Priority, int]] = {"critical": 10, "high": 50, "normal": 100, "low": 200}
"""The place of a priority on the engine's queue, where the smallest number is taken first."""


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lineage of a record: tenant, campaign, goal and task; all that can be seen from outside carries it."""

    tenant_id: str
    campaign_id: str
    goal_id: str | None = None
    task_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "campaign_id": self.campaign_id,
            "goal_id": self.goal_id,
            "task_id": self.task_id,
        }


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign, which goals belong to; it never spans tenants."""

    tenant_id: str
    campaign_id: str
    name: str
    status: CampaignStatus
    persona_id: str | None
    state_version: int
    created_by: str
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "campaign_id": self.campaign_id,
            "name": self.name,
            "status": self.status,
            "persona_id": self.persona_id,
            "state_version": self.state_version,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, from which tasks are derived."""

    tenant_id: str
    goal_id: str
    campaign_id: str
    description: str
    status: GoalStatus
    state_version: int
    created_by: str
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "goal_id": self.goal_id,
            "campaign_id": self.campaign_id,
            "description": self.description,
            "status": self.status,
            "state_version": self.state_version,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a task. An empty list of channels, personas or policies limits nothing."""

    channels: tuple[str, ...] = ()
    persona_ids: tuple[str, ...] = ()
    safety_policies: tuple[str, ...] = ()
    """Names of policy checks that are mandatory for this task, beside those that are so for all."""
    max_budget: int | None = None
    """In the smallest unit of `currency`."""
    currency: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AcceptanceCriterion:
    """An acceptance criterion of a result. `check` is a predicate over the output, evaluated automatically."""

    criterion_id: str
    description: str
    mandatory: bool = True
    check: str | None = None


@dataclass(frozen=True, slots=True)
class RetryRule:
    """The retry rule of a task: attempts, and the delay after a failed one."""

    max_attempts: int = 3
    backoff: BackoffWord = "exponential"

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after this attempt, counted from 1."""
        if self.backoff == "none":
            return 0.0
        return 1.0 if self.backoff == "fixed" else float(min(2 ** (attempt - 1), 600))


@dataclass(frozen=True, slots=True)
class TaskWork:
    """The work that the internal worker runs for a task; a task without any is for external workers."""

    kind: WorkKind
    name: str


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """The spec of a task: `raw` as the planner sent it, the rest as it was parsed."""

    task_type: TaskType
    description: str
    inputs: dict[str, Any]
    constraints: Constraints
    criteria: tuple[AcceptanceCriterion, ...]
    priority: Priority
    dependencies: tuple[str, ...]
    retry: RetryRule
    work: TaskWork | None
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work with an immutable spec; `spec_version` says which version of it is in force."""

    tenant_id: str
    task_id: str
    campaign_id: str
    goal_id: str
    task_type: TaskType
    priority: Priority
    status: TaskStatus
    spec_version: int
    spec_json: dict[str, Any]
    idempotency_key: str
    attempts: int
    spent: int
    """What its attempts have cost so far, in the smallest unit of its budget's currency."""
    due_at: datetime | None
    state_version: int
    owner_id: str
    """Whose rights its work runs with."""
    created_by: str
    created_at: datetime
    updated_at: datetime

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.tenant_id, self.campaign_id, self.goal_id, self.task_id)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.lineage.as_json(),
            "task_type": self.task_type,
            "priority": self.priority,
            "status": self.status,
            "spec_version": self.spec_version,
            "spec_json": self.spec_json,
            "idempotency_key": self.idempotency_key,
            "attempts": self.attempts,
            "spent": self.spent,
            "due_at": _moment(self.due_at),
            "state_version": self.state_version,
            "owner_id": self.owner_id,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class SpecVersion:
    """One version of a task's spec, which never changes."""

    task_id: str
    spec_version: int
    spec_json: dict[str, Any]
    spec_hash: str
    envelope_id: str | None
    created_by: str
    created_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "spec_version": self.spec_version,
            "spec_json": self.spec_json,
            "spec_hash": self.spec_hash,
            "envelope_id": self.envelope_id,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """One attempt at a task. `run_id` is the durable run of the house's own worker; workers outside have none."""

    tenant_id: str
    worker_run_id: str
    task_id: str
    attempt_number: int
    spec_version: int
    status: WorkerRunStatus
    run_id: str | None
    envelope_id: str | None
    worker: str
    started_at: datetime | None
    finished_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        names = ("worker_run_id", "task_id", "attempt_number", "spec_version", "status", "run_id", "envelope_id")
        return {
            "tenant_id": self.tenant_id,
            **{name: getattr(self, name) for name in names},
            "worker": self.worker,
            "started_at": _moment(self.started_at),
            "finished_at": _moment(self.finished_at),
        }


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The result of an attempt, as its worker reported it; it never changes."""

    lineage: Lineage
    result_id: str
    worker_run_id: str
    attempt_number: int
    worker: str
    """Who attempted it."""
    status: Literal["complete", "failed"]
    confidence_score: float
    risk_tags: tuple[str, ...]
    outputs: dict[str, Any]
    evidence: tuple[dict[str, Any], ...]
    invocations: tuple[dict[str, Any], ...]
    error: dict[str, Any] | None
    cost: int
    envelope_id: str
    idempotency_key: str
    created_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            **self.lineage.as_json(),
            "result_id": self.result_id,
            "worker_run_id": self.worker_run_id,
            "attempt_number": self.attempt_number,
            "worker": self.worker,
            "status": self.status,
            "confidence_score": self.confidence_score,
            "risk_tags": list(self.risk_tags),
            "outputs": self.outputs,
            "acceptance_evidence": list(self.evidence),
            "tool_invocations": list(self.invocations),
            "error": self.error,
            "envelope_id": self.envelope_id,
            "idempotency_key": self.idempotency_key,
            "created_at": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """The outcome of one check; a mandatory one that has not passed forbids approval without an override."""

    check_id: str
    name: str
    result: CheckResult
    details: str = ""
    mandatory: bool = True
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_open(self) -> bool:
        """Whether it stands in the way of an approval."""
        return self.mandatory and self.result != "pass"

    def as_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "check_id": self.check_id,
            "name": self.name,
            "result": self.result,
            "details": self.details,
            "mandatory": self.mandatory,
        }


@dataclass(frozen=True, slots=True)
class JudgeDecision:
    """One judgement of a result; it never changes, and the last one about a result is in force."""

    lineage: Lineage
    decision_id: str
    result_id: str
    round: int
    decision: Verdict
    state_version_used: int
    reason_summary: str
    confidence_score: float | None
    risk_tags: tuple[str, ...]
    policy_checks: tuple[PolicyCheck, ...]
    required_actions: tuple[dict[str, Any], ...]
    override_reason: str | None
    human_review_required: bool
    human_reviewer_id: str | None
    decided_by: str
    decided_at: datetime
    expires_at: datetime | None
    envelope_id: str
    idempotency_key: str

    @property
    def task_id(self) -> str:
        """The task it is about; every decision has one."""
        assert self.lineage.task_id is not None
        return self.lineage.task_id

    @property
    def human_review(self) -> dict[str, Any]:
        """The contract's account of what a person has to do, or did."""
        done = self.human_reviewer_id is not None
        status = "completed" if done else ("pending" if self.human_review_required else None)
        return {
            "required": self.human_review_required,
            "status": status,
            "reviewer_id": self.human_reviewer_id,
            "decision_timestamp": iso(self.decided_at) if done else None,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            **self.lineage.as_json(),
            "decision_id": self.decision_id,
            "result_id": self.result_id,
            "round": self.round,
            "decision": self.decision,
            "state_version_used": self.state_version_used,
            "reason_summary": self.reason_summary,
            "confidence_score": self.confidence_score,
            "risk_tags": list(self.risk_tags),
            "policy_checks": [check.as_json() for check in self.policy_checks],
            "required_actions": list(self.required_actions),
            "override_reason": self.override_reason,
            "human_review": self.human_review,
            "decided_by": self.decided_by,
            "decided_at": iso(self.decided_at),
            "expires_at": _moment(self.expires_at),
            "envelope_id": self.envelope_id,
            "idempotency_key": self.idempotency_key,
        }
