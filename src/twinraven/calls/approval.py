"""Models requests for approval and approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args

from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import iso
from twinraven.tenancy import LOCAL_USER, Principal

ApprovalState = Literal["pending", "granted", "denied", "expired", "used"]
"""Derived, never stored: from the decision, the clock, and the claim of the key."""

ApprovalVerdict = Literal["granted", "denied"]

STATES: Final[tuple[ApprovalState, ...]] = get_args(ApprovalState)


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request that a person approves one call before it runs."""

    tenant_id: str
    tool_id: str
    key: str
    is_spare_key: bool
    """Whether the key was made for this request alone; the same call again then has another, and is found without."""
    body: bytes
    """The arguments as they are, to be hashed and not kept."""
    arguments: bytes
    """The arguments as they may be recorded."""
    covers: tuple[str, ...]
    """The tools that policy asks about: this one, and for a composite those inside it."""
    definition: Mapping[str, str]
    """The fingerprint of the tool and of everything inside it, by tool."""
    effect: str
    sensitivity: str
    rule: str | None
    reason: str
    caller: str | None
    session_id: str
    correlation_id: str
    actor: Actor = SYSTEM
    """Who is recorded as having asked."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A request for approval and what became of it."""

    tenant_id: str
    approval_id: str
    state: ApprovalState
    tool_id: str
    idempotency_key: str
    arguments: dict[str, Any]
    """Redacted: for a person to read."""
    covers: tuple[str, ...]
    effect: str
    sensitivity: str
    rule: str | None
    reason: str
    requested_by: str | None
    session_id: str
    correlation_id: str
    requested_at: datetime
    expires_at: datetime
    verdict: ApprovalVerdict | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    note: str = ""
    definition: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was asked for, as fingerprints by tool: an approval is for nothing that has changed since."""
    requested_actor: str | None = None
    """Who asked, as the audit chain names them; None for requests from before this was kept."""

    def was_requested_by(self, by: Principal) -> bool:
        """Tell whether the decider is also the requester.

        "local" is everybody at the machine without a key, so for that user only the actor tells people and agents
        apart. For all others the user decides as well: a caller may name any actor it acts for.
        """
        is_told_apart = self.requested_actor is not None and by.user_id == LOCAL_USER
        return str(by.actor) == self.requested_actor or (by.user_id == self.requested_by and not is_told_apart)

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "approval_id": self.approval_id,
            "state": self.state,
            "tool_id": self.tool_id,
            "idempotency_key": self.idempotency_key,
            "arguments": self.arguments,
            "covers": list(self.covers),
            "definition": dict(self.definition),
            "effect": self.effect,
            "sensitivity": self.sensitivity,
            "rule": self.rule,
            "reason": self.reason,
            "requested_by": self.requested_by,
            "requested_actor": self.requested_actor,
            "session_id": self.session_id,
            "correlation_id": self.correlation_id,
            "requested_at": iso(self.requested_at),
            "expires_at": iso(self.expires_at),
            "verdict": self.verdict,
            "decided_by": self.decided_by,
            "decided_at": None if self.decided_at is None else iso(self.decided_at),
            "note": self.note,
        }
