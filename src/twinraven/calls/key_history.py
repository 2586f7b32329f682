"""Tells what happened under an idempotency key: the call that took it, what came of it, and who was asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from twinraven.calls.approval import Approval
from twinraven.calls.sql import SqlApprovalStore
from twinraven.foundation.clock import from_micros, iso, now_micros
from twinraven.foundation.errors import NotFound
from twinraven.storage import Database, Row, Transaction


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """A key: which tool it was used for, how that stands, and the approvals that were asked for under it."""

    idempotency_key: str
    tool_id: str | None
    state: str | None
    """How the call stands; None where it only asked for approval, or failed in a way that freed the key."""
    claimed_at: datetime | None
    settled_at: datetime | None
    approvals: tuple[Approval, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "idempotency_key": self.idempotency_key,
            "tool_id": self.tool_id,
            "state": self.state,
            "claimed_at": None if self.claimed_at is None else iso(self.claimed_at),
            "settled_at": None if self.settled_at is None else iso(self.settled_at),
            "approvals": [each.as_json() for each in self.approvals],
        }


async def read_key_history(database: Database, tenant_id: str, key: str, *, requested_by: str | None) -> KeyHistory:
    """Return the history of a key, or raise NotFound; `requested_by` leaves out the requests of others."""

    def work(tx: Transaction) -> tuple[Row | None, list[Approval]]:
        claim = tx.fetch_one(
            "SELECT tool_id, state, claimed_at, settled_at FROM idempotency_claims "
            "WHERE tenant_id = :tenant AND idempotency_key = :key",
            tenant=tenant_id,
            key=key,
        )
        asked = SqlApprovalStore().under_key(tx, tenant_id, key, now=now_micros())
        return claim, [each for each in asked if requested_by in (None, each.requested_by)]

    claim, asked = await database.read(tenant_id, work)
    if claim is None and not asked:
        raise NotFound(f"no call was made under key {key!r}", idempotency_key=key)
    settled = None if claim is None else claim["settled_at"]
    return KeyHistory(
        idempotency_key=key,
        tool_id=asked[0].tool_id if claim is None else claim["tool_id"],
        state=None if claim is None else claim["state"],
        claimed_at=None if claim is None else from_micros(claim["claimed_at"]),
        settled_at=None if settled is None else from_micros(settled),
        approvals=tuple(asked),
    )
