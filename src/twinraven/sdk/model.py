"""Models the API's entities, as a client reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from twinraven.foundation.clock import iso
from twinraven.foundation.errors import ApprovalPending
from twinraven.sdk.errors import error_of
from twinraven.sdk.reading import WIRE

JsonObject = dict[str, Any]
Outcome = Literal["success", "failure", "partial"]
Role = Literal["admin", "approver", "member", "viewer"]
UserKind = Literal["person", "agent"]
RunState = Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled", "set_aside"]
ApprovalState = Literal["pending", "granted", "denied", "expired", "used"]

LEARNED_BY: str = "flow"
"""The connector of a tool that was learned."""


def _nothing() -> JsonObject:
    return {}


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call. `output` is the tool's answer as it was."""

    id: str
    request_id: str
    status: Literal["success", "failed", "partial"]
    output: Any = None
    error: JsonObject | None = None
    event_id: UUID | None = None
    replayed: bool = False
    """Whether an earlier call under the same key gave this answer."""
    side_effect: str | None = None
    sensitivity: str | None = None
    confidence_score: float = 1.0
    risk_tags: tuple[str, ...] = ()
    audit: JsonObject = field(default_factory=_nothing)

    @property
    def is_pending(self) -> bool:
        """Whether the call needs an approval first; made again, it asks about the same request."""
        return self.error is not None and self.error.get("code") == ApprovalPending.code

    def unwrap(self) -> Any:
        """Return the output, or the error raised."""
        if self.error is not None:
            raise error_of(self.error)
        return self.output


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool that can be called."""

    tool_id: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    effect: Literal["read", "write", "unknown"] = "unknown"
    effect_origin: str = "none"
    sensitivity: str = "low"
    connector: str = "python"
    timeout_ms: int | None = None
    tags: tuple[str, ...] = ()
    idempotent_by: JsonObject | None = None
    is_callable: bool = field(default=True, metadata={WIRE: "callable"})
    """Whether the caller can call it; `reason` says why not."""
    reason: str | None = None

    @property
    def writes(self) -> bool:
        """Whether a call must be treated as one that changes something."""
        return self.effect != "read"

    @property
    def is_learned(self) -> bool:
        return self.connector == LEARNED_BY


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A call that was made elsewhere, to be remembered."""

    session_id: str
    tool_id: str
    params: JsonObject
    output: Any = None
    error: str | None = None
    """What it raised, if it did."""
    error_code: str | None = None
    latency_ms: int = 0
    timestamp: datetime | None = None
    """When it began; by default when it is recorded, less its latency."""
    outcome: Outcome | None = None
    tags: tuple[str, ...] = ()
    turn: int | None = None
    task_id: str | None = None
    outside_input: str | None = None
    event_id: UUID | None = None
    parent_event_id: UUID | None = None
    corrects: UUID | None = None
    """The event of the same session that this one states anew."""
    actor: str | None = None
    """On whose behalf it ran, as `agent:ID`; by default the key's user, and only an administrator may state another."""

    def as_json(self) -> JsonObject:
        body: JsonObject = {
            "session_id": self.session_id,
            "tool_id": self.tool_id,
            "input_params": self.params,
        }
        if self.latency_ms or self.corrects is None:
            body["latency_ms"] = self.latency_ms
        if self.tags:
            body["tags"] = list(self.tags)
        if self.timestamp is not None:
            body["timestamp"] = iso(self.timestamp)
        for name in ("event_id", "parent_event_id", "corrects"):
            if getattr(self, name) is not None:
                body[name] = str(getattr(self, name))
        for name in ("output", "error", "error_code", "outcome", "turn", "task_id", "outside_input", "actor"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        return body


@dataclass(frozen=True, slots=True)
class Event:
    """One remembered call."""

    session_id: str
    tool_id: str
    input_hash: str
    input_params: JsonObject
    latency_ms: int
    outcome: Outcome
    event_id: UUID
    timestamp: datetime
    output_summary: str | None = None
    predecessor: UUID | None = None
    successor: UUID | None = None
    parent_event_id: UUID | None = None
    tags: tuple[str, ...] = ()
    tenant_id: str = "default"
    arrival: int = 0
    raised: bool = False
    error_code: str | None = None
    output_hash: str | None = None
    turn: int | None = None
    task_id: str | None = None
    outside_input: str | None = None
    source_key: str | None = None
    time_known: bool = True
    correlation_id: str | None = None
    actor_type: str | None = None
    """The kind of actor: `person`, `agent`, `system` or `node`; None where unknown."""
    actor_id: str | None = None
    corrects: UUID | None = None
    """The event of the same session that this one states anew."""
    output_stored: bool = False
    """Whether the output is kept and was asked for; lists leave it out."""
    output: Any = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The calls that belong to one task of an agent."""

    session_id: str
    event_count: int
    outcome: Outcome
    started_at: datetime
    ended_at: datetime
    events: tuple[Event, ...] = ()
    """In order; lists leave them out."""
    failed: int | None = None
    """How many calls raised; this and what follows only in a list of the newest."""
    turns: int | None = None
    tools: tuple[str, ...] = ()
    first_words: str | None = None


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """The calls of one stretch of time."""

    begins_at: datetime
    calls: int
    failed: int
    sessions: int


@dataclass(frozen=True, slots=True)
class UseInfo:
    """The usage of a tool in a time span: calls, failures and latency."""

    tool_id: str
    calls: int
    raised: int
    mean_latency_ms: float | None = None
    max_latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Counts the failures of a tool with one code in a time span."""

    tool_id: str
    error_code: str | None
    calls: int


@dataclass(frozen=True, slots=True)
class ActivityInfo:
    """The activity in a time span; buckets without a call are left out."""

    since: datetime
    until: datetime
    bucket_s: int
    buckets: tuple[BucketInfo, ...]
    tools: tuple[UseInfo, ...]
    failures: tuple[FailureInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class TransitionInfo:
    """Counts how often one tool was called directly after another."""

    from_tool: str
    to_tool: str
    count: int


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The rules that say what may be called, in order."""

    rules: tuple[JsonObject, ...]
    approval_ttl_s: float


@dataclass(frozen=True, slots=True)
class Chain:
    """A sequence of tools that agents repeat."""

    support: float
    confidence: float
    failure_rate: float
    chain_id: UUID
    discovered_at: datetime
    tools: tuple[str, ...] = ()
    avg_latency_ms: int = 0
    sample_event_ids: tuple[UUID, ...] = ()
    mining_config: JsonObject = field(default_factory=_nothing)
    sessions: int = 0
    occurrences: int = 0
    latency_known: bool = True
    links: tuple[JsonObject, ...] = ()
    value: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class LearningRound:
    """A round of learning in the background of the server; `outcome` says what came of it, `error` why it failed."""

    round_id: UUID
    state: str
    started_at: datetime
    started_by: str
    progress: str
    finished_at: datetime | None = None
    outcome: JsonObject | None = None
    error: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class LearnedVersion:
    """One version of a learned tool, and what cleared it."""

    version: int
    status: str
    sha256: str
    validation: JsonObject
    created_at: datetime
    promoted_at: datetime | None = None
    superseded_at: datetime | None = None
    retired_at: datetime | None = None
    savings: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """The adoption of a learned tool: sessions it was offered to, fitted in and was taken by, and turns saved."""

    since: datetime
    offered: int
    fitted: int
    taken: int
    share_low: float
    share_high: float
    uses: int
    raised: int
    by_hand: int
    share: float | None = None
    turns_per_use: float | None = None
    turns_by_hand: float | None = None
    turns_saved: float | None = None
    """None where the chain was never done by hand."""
    pending: int = 0
    """Calls that were recorded and are not counted yet."""


@dataclass(frozen=True, slots=True)
class LearnedTool:
    """A learned tool and where it stands; `revision` grows with every change."""

    tool_id: str
    status: str
    current_version: int
    revision: int
    registered_at: datetime
    definition_path: str = ""
    invocation_count: int = 0
    last_used_at: datetime | None = None
    in_service_since: datetime | None = None
    retirement_reason: str | None = None
    quarantine: JsonObject | None = None
    flags: JsonObject = field(default_factory=_nothing)
    versions: tuple[LearnedVersion, ...] = ()
    """Lists and steps leave them out."""
    adoption: Adoption | None = None
    """Of a tool in service; lists measure it only when asked to, and steps leave it out."""

    @property
    def is_in_service(self) -> bool:
        return self.status == "promoted" and self.retirement_reason is None and self.quarantine is None


@dataclass(frozen=True, slots=True)
class ApprovalInfo:
    """A call that waits or waited for an approval."""

    approval_id: str
    state: ApprovalState
    tool_id: str
    idempotency_key: str
    requested_at: datetime
    expires_at: datetime
    arguments: Any = None
    covers: tuple[str, ...] = ()
    """The inner tools that this approval covers."""
    effect: str = "unknown"
    sensitivity: str = "low"
    rule: str | None = None
    reason: str | None = None
    requested_by: str | None = None
    requested_actor: str | None = None
    session_id: str | None = None
    correlation_id: str | None = None
    verdict: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process in one of its versions, which never change."""

    id: str
    name: str
    description: str
    version: int
    steps: tuple[Any, ...]
    owner_id: str
    saved_by: str
    created_at: datetime
    updated_at: datetime
    initial_context: tuple[str, ...] = ()
    output_template: str | None = None
    token_budget: int | None = None
    max_recursion_depth: int = 3
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """A plan with its state: steps, calls, repairs, results, and the cycles that are left."""

    run_id: str
    status: str
    ttl: int
    state: JsonObject
    results: JsonObject
    cycles: int
    usage: JsonObject
    request: str | None = None
    error: Any = None
    waits: tuple[Any, ...] = ()
    run: Any = None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A durable run; asked for by itself, with its steps, what it waits for and what it came to."""

    run_id: str
    target: str
    state: RunState
    created_at: datetime
    queue: str = "runs"
    priority: int = 100
    caller: str | None = None
    actor: str | None = None
    worker: str | None = None
    epoch: int = 0
    """How often it was taken up."""
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    due_at: datetime | None = None
    error_code: str | None = None
    forked_from: str | None = None
    parameters: Any = None
    output: Any = None
    error: Any = None
    steps: tuple[Any, ...] = ()
    waits: tuple[Any, ...] = ()
    jobs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One slot of a worker process."""

    id: str
    type: str
    status: str
    current_job_id: str | None = field(metadata={WIRE: "currentJobId"})
    last_heartbeat: datetime = field(metadata={WIRE: "lastHeartbeat"})
    processed_count: int = field(metadata={WIRE: "processedCount"})
    error_count: int = field(metadata={WIRE: "errorCount"})


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """The metadata of a secret, never its value."""

    name: str
    type: str
    owner: str
    version: int
    secret_id: str = field(metadata={WIRE: "id"})
    created_at: datetime
    updated_at: datetime
    shared: bool = False
    used_by: tuple[str, ...] = ()
    """What it cannot be deleted from under: the tools that are bound to it."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit log."""

    id: str
    sequence: int
    event_type: str
    entry_hash: str
    timestamp: datetime
    data: Mapping[str, Any] = field(metadata={WIRE: "data_json"})
    subject_type: str | None = None
    subject_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    correlation_id: str | None = None
    code: str | None = None
    message: str | None = None
    body: Any = None
    body_hash: str | None = None
    previous_hash: str | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The report of a verification of the audit log."""

    ok: bool
    entries: int
    head_sequence: int | None = None
    head_hash: str | None = None
    erased_bodies: int = 0
    first_bad_sequence: int | None = None
    kind: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Me:
    """The user that the client's key stands for."""

    tenant_id: str
    user_id: str
    role: Role
    kind: UserKind = "person"
    key_id: str | None = None


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user of the tenant."""

    user_id: str
    name: str
    role: Role
    active: bool
    created_at: datetime
    version: int = field(metadata={WIRE: "state_version"})
    kind: UserKind = "person"


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """The metadata of an API key."""

    key_id: str
    user_id: str
    prefix: str
    label: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    clear: str | None = field(default=None, repr=False, metadata={WIRE: "shown_once"})
    """The key itself, in the answer that made it and nowhere else."""


@dataclass(frozen=True, slots=True)
class StreamToken:
    """Opens live streams for a few minutes, as `?access_token=` in an address."""

    token: str = field(repr=False)
    expires_at: datetime
