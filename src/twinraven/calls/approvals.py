"""Implements the use cases of approvals: request, list, grant, deny, expire.

A request is stored with its audit entry before the caller hears of it, so it outlives every process; whoever makes the
same call again asks about the same request. A granted one lets that call run under the request's key, as long as the
tool and all inside it are what they were, and the key's claim lets it run once. Nobody decides twice, nobody decides
what is over, and who asked cannot say yes to themselves unless they administer the tenant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.calls.approval import STATES, Approval, ApprovalRequest, ApprovalState, ApprovalVerdict
from twinraven.calls.claims import HashBody, plain_hash, refuse_secret_key, request_body
from twinraven.calls.evidence import append_entry
from twinraven.calls.model import Grant
from twinraven.calls.sql import SqlApprovalStore
from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.clock import from_micros, iso, now_micros
from twinraven.foundation.errors import (
    ApprovalDenied,
    ApprovalPending,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StorageBusy,
)
from twinraven.foundation.ids import new_id
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn import clean_text
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

DEFAULT_TTL_S: Final = 24 * 3600
LONGEST_NOTE: Final = 2_000
MOST_LISTED: Final = 1_000
_SECOND: Final = 1_000_000


class Approvals:
    """Requests for approval, and decisions about them."""

    def __init__(
        self,
        database: Database,
        *,
        audit: AuditLog | None = None,
        ttl_s: float = DEFAULT_TTL_S,
        hash_body: HashBody = plain_hash,
        redact: Redact = keep_everything,
        redact_names: Redact = keep_everything,
        micros: Callable[[], int] = now_micros,
        on_decided: Callable[[Transaction, Approval], None] | None = None,
    ) -> None:
        """`on_decided` is called back in the transaction of a decision, to wake what waits for it."""
        self._database = database
        self._on_decided = on_decided
        self._store = SqlApprovalStore()
        self._audit = audit
        self._ttl = round(ttl_s * _SECOND)
        self._hash_body = hash_body
        self._redact = redact
        self._redact_names = redact_names
        self._micros = micros

    async def list(
        self,
        tenant_id: str,
        *,
        state: ApprovalState | None = None,
        limit: int = 100,
        older_than: str | None = None,
        requested_by: str | None = None,
    ) -> tuple[Approval, ...]:
        """List approvals, the newest first."""
        if state is not None and state not in STATES:
            raise InvalidInput(f"state must be one of {', '.join(STATES)}, not {state!r}", field="state")
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit must lie between 1 and {MOST_LISTED}", field="limit")
        now = self._micros()

        def work(tx: Transaction) -> tuple[Approval, ...]:
            older = None if older_than is None else self._present(tx, tenant_id, older_than, requested_by)
            listed = self._store.listing(
                tx, tenant_id, now=now, limit=limit, state=state, older_than=older, requested_by=requested_by
            )
            return tuple(listed)

        return await self._database.read(tenant_id, work)

    async def get(self, tenant_id: str, approval_id: str, *, requested_by: str | None = None) -> Approval:
        """Return one request as it stands, or NotFound; for `requested_by` what others asked for is not there."""
        return await self._database.read(tenant_id, lambda tx: self._present(tx, tenant_id, approval_id, requested_by))

    def look(self, tx: Transaction, tenant_id: str, approval_id: str) -> Approval | None:
        """Return one request inside the caller's transaction, or None."""
        return self._store.find(tx, tenant_id, approval_id, now=self._micros())

    async def grant(self, tenant_id: str, approval_id: str, *, by: Principal, note: str = "") -> Approval:
        """Let the call run, once, as long as the request has not expired."""
        return await self._decide(tenant_id, approval_id, "granted", by=by, note=note)

    async def deny(self, tenant_id: str, approval_id: str, *, by: Principal, note: str = "") -> Approval:
        """Deny the call; a caller who repeats it gets the note."""
        return await self._decide(tenant_id, approval_id, "denied", by=by, note=note)

    async def seek(self, wish: ApprovalRequest) -> Grant:
        """Return the grant of a call; without one, store the request and raise ApprovalPending or ApprovalDenied."""
        found = await self._database.read(wish.tenant_id, lambda tx: self._open(tx, wish))
        if found is None:
            found = await self._request(wish)
        if found.state == "pending":
            raise _pending(found)
        if found.state == "denied":
            raise _denied(found)
        return _to_grant(found)

    def _hash_wish(self, wish: ApprovalRequest, *, key: str | None) -> str:
        head = canonical_json([wish.tool_id, wish.caller, key, list(wish.covers)])
        return self._hash_body(wish.tenant_id, b"approval\0" + head + b"\0" + wish.body)

    def _open(self, tx: Transaction, wish: ApprovalRequest) -> Approval | None:
        """Open the request that answers for this wish; one that is over answers for nothing any more."""
        now, tenant_id = self._micros(), wish.tenant_id
        found = None
        if not wish.is_spare_key:
            found = self._store.latest(tx, tenant_id, self._hash_wish(wish, key=wish.key), now=now)
        if found is None:
            # Who was told the key of a call that had none of its own may name it from then on.
            key = None if wish.is_spare_key else wish.key
            found = self._store.latest(tx, tenant_id, self._hash_wish(wish, key=None), now=now, key=key)
        if found is None:
            return None
        is_same = found.definition == wish.definition
        if found.state == "used":
            # Under its key a call that ran is answered from the record; under another it is a new call.
            is_answered = is_same or self._store.is_settled(tx, tenant_id, found.idempotency_key)
            return found if found.idempotency_key == wish.key and is_answered else None
        return found if is_same and from_micros(now) < found.expires_at else None

    async def _request(self, wish: ApprovalRequest) -> Approval:
        approval_id = new_id()
        asked_for = self._hash_wish(wish, key=None if wish.is_spare_key else wish.key)
        body_hash = self._hash_body(wish.tenant_id, request_body(wish.tool_id, wish.body))

        def work(tx: Transaction) -> Approval:
            found = self._open(tx, wish)
            if found is not None:
                return found
            refuse_secret_key(self._redact_names, wish.tenant_id, wish.key)
            if self._store.means_something_else(tx, wish.tenant_id, wish.key, body_hash):
                raise IdempotencyConflict(
                    f"idempotency key {wish.key!r} was used for another request; use a new key for a new request",
                    idempotency_key=wish.key,
                )
            rounds = self._store.rounds(tx, wish.tenant_id, asked_for)
            if not self._store.add(tx, self._row(wish, approval_id, asked_for, body_hash, rounds + 1)):
                found = self._open(tx, wish)
                if found is None:
                    raise StorageBusy("somebody asked for the same approval at this moment; ask again")
                return found
            made = self._present(tx, wish.tenant_id, approval_id)
            self._witness(tx, _requested(made, wish.actor))
            return made

        return await self._database.write(wish.tenant_id, work)

    def _row(
        self, wish: ApprovalRequest, approval_id: str, asked_for: str, body_hash: str, round_: int
    ) -> dict[str, object]:
        now, tenant_id = self._micros(), wish.tenant_id
        names = {"session_id": wish.session_id, "correlation_id": wish.correlation_id, "requested_by": wish.caller}
        names["requested_actor"] = str(wish.actor)
        return {
            "tenant_id": tenant_id,
            "approval_id": approval_id,
            "asked_for": asked_for,
            "round": round_,
            "tool_id": wish.tool_id,
            "idempotency_key": wish.key,
            "body_hash": body_hash,
            "arguments": self._redact(tenant_id, wish.arguments).decode(),
            "covers": canonical_json(list(wish.covers)).decode(),
            "definition": canonical_json(dict(wish.definition)).decode(),
            "effect": wish.effect,
            "sensitivity": wish.sensitivity,
            "rule": wish.rule,
            "reason": wish.reason,
            **{name: None if value is None else self._clean_name(tenant_id, value) for name, value in names.items()},
            "requested_at": now,
            "expires_at": now + self._ttl,
        }

    def _clean_name(self, tenant_id: str, name: str) -> str:
        return self._redact_names(tenant_id, clean_text(name).encode()).decode()

    async def _decide(
        self, tenant_id: str, approval_id: str, verdict: ApprovalVerdict, *, by: Principal, note: str
    ) -> Approval:
        if by.tenant_id != tenant_id:
            raise _missing(approval_id)
        if len(note) > LONGEST_NOTE:
            raise InvalidInput(f"note must have at most {LONGEST_NOTE} characters", field="note")

        def work(tx: Transaction) -> Approval:
            before = self._present(tx, tenant_id, approval_id)
            if before.state != "pending":
                raise _over(before)
            _refuse_own(before, verdict, by)
            text = parse_json(self._redact(tenant_id, canonical_json(clean_text(note))), field="note")
            if not self._store.decide(tx, before, verdict, by=by.user_id, at=self._micros(), note=text):
                raise _over(self._present(tx, tenant_id, approval_id))
            after = self._present(tx, tenant_id, approval_id)
            self._witness(tx, _decided(after, by))
            if self._on_decided is not None:
                self._on_decided(tx, after)
            return after

        return await self._database.write(tenant_id, work)

    def _present(self, tx: Transaction, tenant_id: str, approval_id: str, requested_by: str | None = None) -> Approval:
        found = self._store.find(tx, tenant_id, approval_id, now=self._micros())
        if found is None or requested_by not in (None, found.requested_by):
            raise _missing(approval_id)
        return found

    def _witness(self, tx: Transaction, entry: NewAuditEntry) -> None:
        if self._audit is not None:
            append_entry(self._audit, tx, entry)


def _missing(approval_id: str) -> NotFound:
    return NotFound(f"no approval {approval_id!r}", approval_id=approval_id, fix="twinraven approvals list")


def _over(approval: Approval) -> IllegalTransition:
    return IllegalTransition(
        f"approval {approval.approval_id!r} is {approval.state}; only one that is pending can be decided",
        approval_id=approval.approval_id,
        state=approval.state,
        decided_by=approval.decided_by,
    )


def _refuse_own(approval: Approval, verdict: ApprovalVerdict, by: Principal) -> None:
    if verdict == "granted" and by.role != "admin" and approval.was_requested_by(by):
        raise PolicyViolation(
            "whoever asked for an approval cannot grant it; somebody else or an administrator must",
            approval_id=approval.approval_id,
            user_id=by.user_id,
        )


def _pending(approval: Approval) -> ApprovalPending:
    return ApprovalPending(
        f"{approval.reason}; somebody must approve it first, and nothing was run",
        approval_id=approval.approval_id,
        expires_at=iso(approval.expires_at),
        idempotency_key=approval.idempotency_key,
        tool_id=approval.tool_id,
        rule=approval.rule,
        verdict="ask",
        fix="make the same call again when it has been granted, with the same idempotency_key or without one",
    )


def _denied(approval: Approval) -> ApprovalDenied:
    why = f": {approval.note}" if approval.note else ""
    return ApprovalDenied(
        f"{approval.tool_id!r} was denied by {approval.decided_by}{why}",
        approval_id=approval.approval_id,
        tool_id=approval.tool_id,
        rule=approval.rule,
        verdict="ask",
        note=approval.note,
    )


def _to_grant(approval: Approval) -> Grant:
    return Grant(
        approval_id=approval.approval_id,
        key=approval.idempotency_key,
        tools=frozenset(approval.covers),
        requested_by=approval.requested_by,
        granted_by=approval.decided_by or "",
        granted_at=None if approval.decided_at is None else iso(approval.decided_at),
    )


def _requested(approval: Approval, actor: Actor) -> NewAuditEntry:
    return _entry(
        approval,
        "approval.requested",
        actor,
        data={
            "session_id": approval.session_id,
            "policy": {"verdict": "ask", "rule": approval.rule, "reason": approval.reason},
            "covers": list(approval.covers),
            "definition": dict(approval.definition),
            "expires_at": iso(approval.expires_at),
        },
        body={"params": approval.arguments},
    )


def _decided(approval: Approval, by: Principal) -> NewAuditEntry:
    return _entry(
        approval,
        f"approval.{approval.verdict}",
        by.actor,
        data={
            "requested_by": approval.requested_by,
            "by_requester": approval.was_requested_by(by),
            "role": by.role,
            "policy": {"rule": approval.rule},
        },
        body={"note": approval.note} if approval.note else None,
    )


def _entry(approval: Approval, event_type: str, actor: Actor, *, data: dict[str, Any], body: Any) -> NewAuditEntry:
    known = {"tool_id": approval.tool_id, "idempotency_key": approval.idempotency_key}
    return NewAuditEntry(
        tenant_id=approval.tenant_id,
        event_type=event_type,
        subject_type="approval",
        subject_id=approval.approval_id,
        actor=actor,
        data={**known, **data},
        body=body,
        correlation_id=approval.correlation_id,
    )
