"""Models the request and response envelopes of a call, as agents and auditors see them.

`SkillInvocationRequest` and `SkillInvocationResponse` keep the names and status words of the skill contract; fields we
do not know are kept as they came, because contracts grow by addition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast
from uuid import UUID

from twinraven.catalog import Effect, Sensitivity, ToolEntry
from twinraven.foundation.actors import Actor
from twinraven.foundation.clock import from_micros, iso, iso_micros, parse_iso, utc_now
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.muninn import MAX_TENANT, check_name, check_tags, check_turn
from twinraven.storage import DEFAULT_TENANT, Transaction

if TYPE_CHECKING:
    from twinraven.muninn import TransactionalEvent

SideEffect = Literal["read", "write", "read_write"]
CallStatus = Literal["success", "failed", "partial"]

_SIDE_EFFECTS: dict[Effect, SideEffect] = {
    Effect.READ: "read",
    Effect.WRITE: "write",
    Effect.UNKNOWN: "read_write",
}


# Calling `dict[str, Any]` takes ten times as long as calling `dict`.
_nothing_else: Callable[[], dict[str, Any]] = dict
_unchecked: Final = object.__new__


def side_effect_of(effect: Effect) -> SideEffect:
    """Return the contract's word for an effect: what is not known may do both."""
    return _SIDE_EFFECTS[effect]


# Made for every call: not frozen, because that would take three times as long. Whoever needs another makes it.
@dataclass(slots=True)
class SkillInvocationRequest:
    """One request to call one tool."""

    tool_name: str
    payload: dict[str, Any]
    tenant_id: str = DEFAULT_TENANT
    id: str = field(default_factory=new_id)
    skill_id: str | None = None
    campaign_id: str | None = None
    goal_id: str | None = None
    task_id: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    side_effect: SideEffect | None = None
    sensitivity: str | None = None
    created_at: datetime = field(default_factory=utc_now)
    extra: dict[str, Any] = field(default_factory=_nothing_else)

    def __post_init__(self) -> None:
        check_name(self.tenant_id, field="tenant_id", limit=MAX_TENANT)
        check_name(self.tool_name, field="tool_name")
        check_name(self.id, field="id")
        if self.correlation_id is not None:
            check_name(self.correlation_id, field="correlation_id")
        if self.task_id is not None:
            check_name(self.task_id, field="task_id")

    @property
    def lineage_tags(self) -> tuple[str, ...]:
        """Tags by which the event of the call names its campaign and its goal."""
        named = (("campaign", self.campaign_id), ("goal", self.goal_id))
        return tuple(f"{kind}:{value}" for kind, value in named if value is not None)

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> SkillInvocationRequest:
        """Read an envelope; what is missing or of the wrong kind is named, what is unknown is kept."""
        known = {name: value for name, value in body.items() if name in _ENVELOPE and value is not None}
        unknown = {name: value for name, value in body.items() if name not in _ENVELOPE}
        for name in ("tenant_id", "tool_name"):
            if name not in known:
                raise InvalidInput(f"{name} is missing", field=name)
        for name, value in known.items():
            if not isinstance(value, dict if name == "payload" else str):
                raise InvalidInput(f"{name} must be {'an object' if name == 'payload' else 'a string'}", field=name)
        for name, words in _WORDS.items():
            if name in known and known[name] not in words:
                raise InvalidInput(f"{name} must be one of {', '.join(words)}, not {known[name]!r}", field=name)
        if "created_at" in known:
            known["created_at"] = parse_iso(known["created_at"], field="created_at")
        known.setdefault("payload", {})
        return cls(**known, extra=unknown)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "id": self.id,
            "tenant_id": self.tenant_id,
            "campaign_id": self.campaign_id,
            "goal_id": self.goal_id,
            "task_id": self.task_id,
            "correlation_id": self.correlation_id,
            "skill_id": self.skill_id,
            "tool_name": self.tool_name,
            "idempotency_key": self.idempotency_key,
            "side_effect": self.side_effect,
            "sensitivity": self.sensitivity,
            "created_at": iso(self.created_at),
            "payload": self.payload,
        }


def inner_request(
    tool_name: str,
    payload: dict[str, Any],
    *,
    tenant_id: str,
    task_id: str | None,
    correlation_id: str | None,
    idempotency_key: str | None,
) -> SkillInvocationRequest:
    """Build the request of a composite for one of its tools, without the checks: all of its names were checked.

    Those of the composite's own request were, and the tool's with the definition. Checking them takes as long as
    everything else about a request.
    """
    request = _unchecked(SkillInvocationRequest)
    request.tool_name, request.payload, request.tenant_id = tool_name, payload, tenant_id
    request.id, request.created_at, request.extra = new_id(), utc_now(), {}
    request.task_id, request.correlation_id, request.idempotency_key = task_id, correlation_id, idempotency_key
    request.skill_id = request.campaign_id = request.goal_id = request.side_effect = request.sensitivity = None
    return request


_ENVELOPE = frozenset(SkillInvocationRequest.__slots__) - {"extra"}
_WORDS = {"side_effect": tuple(_SIDE_EFFECTS.values()), "sensitivity": tuple(Sensitivity)}


# Made once for every call, like the response around it: not frozen, because that would take three times as long.
@dataclass(slots=True)
class CallAudit:
    """The start and end of a call, in microseconds since the epoch, and its cost."""

    started: int
    finished: int
    tokens: int = 0
    currency: str | None = None
    amount: str | None = None

    @property
    def started_at(self) -> datetime:
        return from_micros(self.started)

    @property
    def finished_at(self) -> datetime:
        return from_micros(self.finished)

    def as_json(self) -> dict[str, Any]:
        return {
            "started_at": iso_micros(self.started),
            "finished_at": iso_micros(self.finished),
            "cost_estimate": {"tokens": self.tokens, "currency": self.currency, "amount": self.amount},
        }


@dataclass(slots=True)
class SkillInvocationResponse:
    """The response to a request. `output` is the tool's answer as it was; `payload` wraps it where it is no object."""

    request_id: str
    status: CallStatus
    output: Any
    error: dict[str, Any] | None
    audit: CallAudit
    event_id: UUID | None = None
    replayed: bool = False
    confidence_score: float = 1.0
    risk_tags: tuple[str, ...] = ()
    side_effect: SideEffect | None = None
    sensitivity: str | None = None
    raw: Any = None
    """The answer as a server sent it, for a door that passes it on; no part of the envelope."""
    id: str = field(default_factory=new_id)

    @property
    def payload(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.output) if isinstance(self.output, dict) else {"result": self.output}

    @property
    def remarks(self) -> dict[str, Any]:
        """Return the metadata of the call: its event, cost, confidence and risks."""
        audit = self.audit
        return {
            "call_id": None if self.event_id is None else str(self.event_id),
            "status": "success" if self.error is None else "failed",
            "cost_estimate": {"tokens": audit.tokens, "currency": audit.currency, "amount": audit.amount},
            "confidence_score": self.confidence_score,
            "risk_tags": list(self.risk_tags),
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "request_id": self.request_id,
            "status": self.status,
            "confidence_score": self.confidence_score,
            "risk_tags": list(self.risk_tags),
            "side_effect": self.side_effect,
            "sensitivity": self.sensitivity,
            "payload": self.payload,
            "error": self.error,
            "audit": self.audit.as_json(),
            "event_id": None if self.event_id is None else str(self.event_id),
            "replayed": self.replayed,
        }


@dataclass(frozen=True, slots=True)
class Grant:
    """A granted approval for one call, under this key; of a composite, with these tools inside."""

    approval_id: str
    key: str
    tools: frozenset[str]
    requested_by: str | None
    granted_by: str
    granted_at: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The fingerprint of the tool and of each inside it; what is another one by now was not granted."""

    def as_json(self) -> dict[str, Any]:
        """Return the requester and the approver, for the record."""
        return {
            "approval_id": self.approval_id,
            "requested_by": self.requested_by,
            "granted_by": self.granted_by,
            "granted_at": self.granted_at,
        }


Recall = Callable[[ToolEntry, bytes], Awaitable[Any]]
"""The earlier output of a tool for these encoded arguments; None where the call must be made."""


class StepJournal(Protocol):
    """The durable step that a call is: written in the transactions that claim and settle the call's key."""

    @property
    def is_remarked(self) -> bool:
        """Whether what the call says of itself is kept with its outcome."""
        ...

    def begin(self, tx: Transaction) -> None:
        """Store the outcomes that the step builds on; raise where another worker has the run, so nothing is sent."""
        ...

    def settle(self, tx: Transaction, outcome: dict[str, Any]) -> None:
        """Store the outcome of the call even where another worker has the run by now: it has happened.

        `output` or `error`, and where that is kept `remarks`: what the call says of itself.
        """
        ...

    def carry(self, event: TransactionalEvent) -> bool:
        """Return whether the event of a call without a key is stored together with what came of it, at once."""
        ...


class CallerChannel(Protocol):
    """Reaches the client that made a call while the call runs: progress, log messages, and a tool's questions to it.

    Methods and parameters are those of the Model Context Protocol, from which such tools come.
    """

    @property
    def client(self) -> str:
        """Names the client; two calls of one client name the same."""
        ...

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Return the capabilities that the client declares."""
        ...

    @property
    def log_level(self) -> str | None:
        """From which level on the client wants log messages with this call."""
        ...

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Return the client's answers to an earlier `input_required` of the same call, and the state it sends back."""
        ...

    @property
    def takes_questions(self) -> bool:
        """Whether a call may be answered with a question (`input_required`), after which the client calls again."""
        ...

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on how far the call is."""
        ...

    async def log(self, message: dict[str, Any]) -> None:
        """Pass on a log message."""
        ...

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Pass on a question (sampling, elicitation, roots) and wait for the client's answer."""
        ...


# Not frozen, for the same reason as a request.
@dataclass(slots=True)
class CallContext:
    """The context of a call: session, turn, outside input, caller; recorded, and not sent to the tool."""

    session_id: str
    turn: int | None = None
    outside_input: str | None = None
    parent_event_id: UUID | None = None
    tags: tuple[str, ...] = ()
    durable: bool = True
    """Whether the caller waits until the event is on disk."""
    caller: str | None = None
    """The user whose rights apply."""
    actor: Actor | None = None
    """On whose behalf the call runs, for the record; None where the door does not know."""
    spare_key: str | None = None
    """The key a write runs under where neither the request nor the tool has one."""
    is_inner: bool = False
    """Whether a composite makes this call; approval is asked for the composite, not here."""
    grant: Grant | None = None
    """What the composite around this call was allowed."""
    step: StepJournal | None = None
    """The durable step that this call is."""
    epoch: int | None = None
    """How often a run was taken up, where the call belongs to one; a claim of an earlier epoch was left behind."""
    recall: Recall | None = None
    """Asked before a plain read is sent, after policy has spoken: an earlier answer that may be given again."""
    channel: CallerChannel | None = None
    """The client, where the tool may reach it while the call runs."""
    within_s: float | None = None
    """The time after which whoever makes the call ends it; a tool that may take as long or longer is not timed anew."""

    def __post_init__(self) -> None:
        check_name(self.session_id, field="session_id")
        if self.tags:
            check_tags(self.tags)
        if self.turn is not None:
            check_turn(self.turn)

    @property
    def witness(self) -> Actor:
        """Return the actor for the audit chain; a program that names no caller acts as the system."""
        return self.actor or Actor("system", self.caller)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a plan remembers it: either a result or an error, never both."""

    tool_name: str
    arguments: dict[str, Any]
    timestamp: str
    step_id: str
    result: Any = None
    error: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.result is not None and self.error is not None:
            raise InvalidInput("a tool call has a result or an error, not both", field="error")
        check_name(self.tool_name, field="tool_name")
        check_name(self.step_id, field="step_id")
        parse_iso(self.timestamp)

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_name": self.tool_name,
            "arguments": self.arguments,
            "timestamp": self.timestamp,
            "step_id": self.step_id,
            "result": self.result,
            "error": self.error,
        }

    @classmethod
    def of(cls, request: SkillInvocationRequest, response: SkillInvocationResponse, *, step_id: str) -> ToolCall:
        """Return the record of one answered request."""
        return cls(
            tool_name=request.tool_name,
            arguments=request.payload,
            timestamp=iso_micros(response.audit.started),
            step_id=step_id,
            result=response.output if response.error is None else None,
            error=response.error,
        )


class CallFailed(TwinRavenError):
    """Raised by the convenience door when a response is not a success; it speaks with the original's code."""

    def __init__(self, response: SkillInvocationResponse) -> None:
        error = response.error or {}
        super().__init__(str(error.get("message", "the call failed")), **dict(error.get("details", {})))
        self.code = str(error.get("code", "TOOL_FAILED"))
        self.retryable = bool(error.get("retryable", False))
        self.response = response
