"""Models the envelope that planners, workers, judges, skills and the system exchange.

What an envelope must carry depends on what it can bring about. One that changes nothing may do without a tenant; one
that changes state must name it; one that can cause an effect outside must also have an idempotency key, or sending it
again would do it again. A type nobody has classified counts as the last. Fields we do not know are kept as they came,
because contracts grow by addition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from math import isfinite
from typing import Any, Literal, cast, get_args

from twinraven.calls.model import SkillInvocationRequest, SkillInvocationResponse
from twinraven.foundation.clock import iso, parse_iso, utc_now
from twinraven.foundation.errors import ApprovalDenied, ApprovalPending, InvalidInput, PolicyViolation
from twinraven.foundation.ids import new_id
from twinraven.muninn import MAX_TENANT, check_name

Role = Literal["planner", "worker", "judge", "skill", "system"]
Status = Literal["pending", "in_progress", "complete", "failed", "rejected", "approved", "escalated"]

_LONGEST = 512
_VIOLATIONS = frozenset({PolicyViolation.code, ApprovalPending.code, ApprovalDenied.code})

FAILURES: frozenset[Status] = frozenset({"failed", "rejected"})
"""The only states in which an envelope has an error."""


class EnvelopeImpact(IntEnum):
    """The impact of an envelope: nothing, a change of state, or an effect outside."""

    NOTHING = 0
    STATE = 1
    EFFECT = 2


_REACHES = {
    "planner.task": EnvelopeImpact.EFFECT,
    "worker.result": EnvelopeImpact.EFFECT,
    "judge.decision": EnvelopeImpact.EFFECT,
    "skill.response": EnvelopeImpact.STATE,
    "system.notice": EnvelopeImpact.NOTHING,
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message."""

    role: Role
    type: str
    status: Status
    payload: dict[str, Any] = field(default_factory=dict[str, Any])
    tenant_id: str | None = None
    id: str = field(default_factory=new_id)
    campaign_id: str | None = None
    goal_id: str | None = None
    task_id: str | None = None
    correlation_id: str | None = None
    created_at: datetime = field(default_factory=utc_now)
    confidence_score: float | None = None
    risk_tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    error: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    stated: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The fields as their sender wrote them, where the message was read."""

    def __post_init__(self) -> None:
        _check_word(self.role, "role", get_args(Role))
        _check_word(self.status, "status", get_args(Status))
        for name in _NAMES:
            stated = cast("str | None", getattr(self, name))
            if stated is not None:
                check_name(stated, field=name, limit=MAX_TENANT if name == "tenant_id" else _LONGEST)
        self._check_reach()
        self._check_confidence()
        if self.error is not None:
            _check_error(self.error, self.status)

    @property
    def reach(self) -> EnvelopeImpact:
        """Return the impact of this message; the greatest possible where it is not stated."""
        if self.type == "skill.request":
            return EnvelopeImpact.NOTHING if self.payload.get("side_effect") == "read" else EnvelopeImpact.EFFECT
        return _REACHES.get(self.type, EnvelopeImpact.EFFECT)

    def _check_reach(self) -> None:
        if self.reach >= EnvelopeImpact.STATE and self.tenant_id is None:
            raise InvalidInput(f"{self.type!r} can change something, so it needs a tenant_id", field="tenant_id")
        if self.reach is EnvelopeImpact.EFFECT and self.idempotency_key is None:
            raise InvalidInput(
                f"{self.type!r} can cause an effect, so it needs an idempotency_key", field="idempotency_key"
            )

    def _check_confidence(self) -> None:
        score = self.confidence_score
        if score is None:
            if self.role == "worker":
                raise InvalidInput("a worker must say how sure it is", field="confidence_score")
            return
        if isinstance(score, bool) or not isfinite(score) or not 0 <= score <= 1:
            raise InvalidInput(f"confidence_score must be from 0 to 1, not {score!r}", field="confidence_score")

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Envelope:
        """Read a message; what is missing or of the wrong kind is named, what is unknown is kept."""
        known = {name: value for name, value in body.items() if name in _KINDS and value is not None}
        for name in ("role", "type", "status"):
            if name not in known:
                raise InvalidInput(f"{name} is missing", field=name)
        for name, value in known.items():
            kind, words = _KINDS[name]
            if not isinstance(value, kind):
                raise InvalidInput(f"{name} must be {words}, not {type(value).__name__}", field=name)
        if "created_at" in known:
            known["created_at"] = parse_iso(known["created_at"], field="created_at")
        if "risk_tags" in known:
            known["risk_tags"] = tuple(check_name(tag, field="risk_tags") for tag in known["risk_tags"])
        return cls(**known, extra={name: value for name, value in body.items() if name not in _KINDS}, stated=body)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "id": self.id,
            "tenant_id": self.tenant_id,
            "campaign_id": self.campaign_id,
            "goal_id": self.goal_id,
            "task_id": self.task_id,
            "correlation_id": self.correlation_id,
            "created_at": iso(self.created_at),
            "role": self.role,
            "type": self.type,
            "status": self.status,
            "confidence_score": self.confidence_score,
            "risk_tags": list(self.risk_tags),
            "idempotency_key": self.idempotency_key,
            "payload": self.payload,
            **({} if self.error is None else {"error": self.error}),
        }

    def as_sent(self) -> dict[str, Any]:
        """Return every field as its sender wrote it; what was left out, or is null, is as it was filled in."""
        filled = self.as_json()
        kept = {name: value for name, value in self.stated.items() if value is not None or filled.get(name) is None}
        return {**filled, **kept}

    @classmethod
    def of_request(cls, request: SkillInvocationRequest) -> Envelope:
        """Return a request to call a tool, as a message."""
        return cls(
            role="skill",
            type="skill.request",
            status="pending",
            payload={
                "skill_id": request.skill_id,
                "tool_name": request.tool_name,
                "side_effect": request.side_effect,
                "sensitivity": request.sensitivity,
                "arguments": request.payload,
            },
            id=request.id,
            created_at=request.created_at,
            extra=request.extra,
            **{name: getattr(request, name) for name in _SHARED},
        )

    def as_request(self) -> SkillInvocationRequest:
        """Return the request to call a tool that this message is."""
        if self.type != "skill.request":
            raise InvalidInput(f"{self.type!r} is no request to call a tool", field="type")
        asked = {name: self.payload.get(name) for name in ("skill_id", "tool_name", "side_effect", "sensitivity")}
        shared = {name: getattr(self, name) for name in ("id", *_SHARED)}
        body = {**asked, **shared, "created_at": iso(self.created_at), "payload": self.payload.get("arguments")}
        return SkillInvocationRequest.from_json({**self.extra, **body})

    @classmethod
    def of_response(cls, request: SkillInvocationRequest, response: SkillInvocationResponse) -> Envelope:
        """Build the envelope of a call's response."""
        answer = response.as_json()
        shared = ("request_id", "side_effect", "sensitivity", "audit", "event_id", "replayed")
        return cls(
            role="skill",
            type="skill.response",
            status="complete" if response.error is None else "failed",
            payload={**{name: answer[name] for name in shared}, "output": response.output},
            id=response.id,
            created_at=response.audit.finished_at,
            confidence_score=response.confidence_score,
            risk_tags=response.risk_tags,
            error=response.error,
            **{name: getattr(request, name) for name in _SHARED},
        )


_SHARED = ("tenant_id", "campaign_id", "goal_id", "task_id", "correlation_id", "idempotency_key")
_NAMES = ("id", "type", *_SHARED)
_TEXT = (str, "a string")
_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys((*_NAMES, "role", "status", "created_at"), _TEXT),
    "confidence_score": ((int, float), "a number"),
    "risk_tags": (list, "a list of strings"),
    "payload": (dict, "an object"),
    "error": (dict, "an object"),
}


def _check_word(value: str, name: str, words: tuple[str, ...]) -> None:
    if value not in words:
        raise InvalidInput(f"{name} must be one of {', '.join(words)}, not {value!r}", field=name)


def _check_error(error: dict[str, Any], status: Status) -> None:
    if status not in FAILURES:
        raise InvalidInput(f"an envelope that is {status} has no error", field="error")
    for name, kind in (("code", str), ("message", str), ("retryable", bool), ("details", dict)):
        value = cast("object", error.get(name))
        if not isinstance(value, kind):
            raise InvalidInput(f"error.{name} must be of type {kind.__name__}", field=f"error.{name}")
    if error["code"] in _VIOLATIONS and error["retryable"]:
        raise InvalidInput("a violation of policy is never retryable", field="error.retryable")
