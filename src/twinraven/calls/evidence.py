"""Writes calls to the audit log: the intent, who allowed it, and the outcome.

The intent is appended in the transaction that claims the key, before anything is sent; the result in the one that
settles it. If the entry cannot be written, the effect does not happen. Arguments and answers go into bodies, which can
be erased one day; ids, codes and decisions stay. Plain reads leave no entry here: they are sealed in batches from
Muninn's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.calls.claims import Settled
from twinraven.calls.invocation import Invocation
from twinraven.calls.ports import PolicyDecision
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput, PolicyViolation, StorageError, TwinRavenError
from twinraven.storage import Transaction

Append = Callable[[Transaction], None]

_logger = logging.getLogger("twinraven.calls")


class CallEvidence:
    """Appends entries about calls."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def intended(self, call: Invocation, decision: PolicyDecision) -> Append:
        """To be run in the transaction that claims the key."""
        data = {"policy": {**decision.as_json(), "reason": decision.reason}}
        entry = _entry(call, "call.intended", data=data, body=_asked(call))
        return lambda tx: append_entry(self._audit, tx, entry)

    def settled(self, call: Invocation, state: Settled, *, output: Any, error: TwinRavenError | None) -> Append:
        """To be run in the transaction that settles the key."""
        entry = _entry(
            call,
            f"call.{'succeeded' if state == 'success' else state}",
            code=None if error is None else error.code,
            message=None if error is None else error.message,
            body=None if error is not None else {"output": output},
        )
        return lambda tx: append_entry(self._audit, tx, entry)

    def released(self, call: Invocation, error: TwinRavenError) -> Append:
        """To be run in the transaction that frees the key after a failure, so that the call may be made again."""
        entry = _failure(call, error)
        return lambda tx: append_entry(self._audit, tx, entry)

    async def failed(self, call: Invocation, error: TwinRavenError) -> None:
        """Audit a call without a key that was sent and failed; without a store for the entry, log it."""
        try:
            await self._audit.write(_failure(call, error))
        except StorageError as unwritten:
            _logger.error("the failure of %s is not in the audit log: %s", call.entry.tool_id, unwritten.code)  # noqa: TRY400

    async def refused(self, call: Invocation, error: TwinRavenError, decision: PolicyDecision) -> None:
        """Audit a refusal by the policy."""
        lineage = {name: error.details[name] for name in ("campaign_id", "goal_id") if error.details.get(name)}
        data = {"policy": decision.as_json(), **lineage}
        entry = _entry(call, "policy.refused", code=error.code, message=error.message, data=data)
        await self._audit.write(entry)

    async def read(self, call: Invocation, decision: PolicyDecision) -> None:
        """Audit a read of sensitive data, or an approved one, before it happens."""
        data = {"policy": decision.as_json()}
        await self._audit.write(_entry(call, "call.read", data=data, body=_asked(call)))


def _asked(call: Invocation) -> dict[str, Any]:
    """Return what a call was given, and what else its message said."""
    extra = call.request.extra
    return {"params": call.shown_params, **({"extra": extra} if extra else {})}


def _failure(call: Invocation, error: TwinRavenError) -> NewAuditEntry:
    kind = "policy.refused" if isinstance(error, PolicyViolation) else "call.failed"
    return _entry(call, kind, code=error.code, message=error.message, data={"retryable": error.retryable})


def append_entry(audit: AuditLog, tx: Transaction, entry: NewAuditEntry) -> None:
    """Append an entry; a body that is too deep to stand inside another is told as text."""
    try:
        audit.append(tx, entry)
    except InvalidInput:
        # What is as deep as JSON may be cannot stand inside anything; the effect has happened and must be told.
        told: dict[str, Any] = entry.body or {}
        body = {name: canonical_json(value).decode() for name, value in told.items()}
        audit.append(tx, replace(entry, body=body or None))


def _entry(
    call: Invocation,
    event_type: str,
    *,
    data: dict[str, Any] | None = None,
    body: Any = None,
    code: str | None = None,
    message: str | None = None,
) -> NewAuditEntry:
    request, context, entry = call.request, call.context, call.entry
    known = {
        "tool_id": entry.tool_id,
        "effect": entry.effect.value,
        "sensitivity": entry.sensitivity.value,
        "event_id": str(call.event_id),
        "session_id": context.session_id,
        "idempotency_key": request.idempotency_key,
        "campaign_id": request.campaign_id,
        "goal_id": request.goal_id,
        "task_id": request.task_id,
        "approval": None if call.grant is None else call.grant.as_json(),
    }
    return NewAuditEntry(
        tenant_id=request.tenant_id,
        event_type=event_type,
        subject_type="call",
        subject_id=request.id,
        actor=context.witness,
        data={**{name: value for name, value in known.items() if value is not None}, **(data or {})},
        body=body,
        code=code,
        message=message,
        correlation_id=call.correlation_id,
    )
