"""Tells what happened under an idempotency key: the call that took it, who repeated it, and who was asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from twinraven.calls.approval import Approval
from twinraven.calls.sql import RepeatKind, SqlApprovalStore, repeats_of
from twinraven.foundation.clock import from_micros, iso, now_micros
from twinraven.foundation.errors import NotFound
from twinraven.storage import Database, Row, Transaction

MOST_REPEATS: Final = 200


@dataclass(frozen=True, slots=True)
class KeyRepeat:
    """Requests of one session under a key that was taken, and what they were told."""

    kind: RepeatKind
    """`replayed`: the first answer; `conflict`: that the key means another request; `running`: to ask again later."""
    session_id: str
    tool_id: str
    caller: str | None
    """Who made them, as far as the reader may know: everybody knows their own."""
    times: int
    first_at: datetime
    last_at: datetime
    event_id: str
    """The event of the last of them."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "session_id": self.session_id,
            "tool_id": self.tool_id,
            "caller": self.caller,
            "times": self.times,
            "first_at": iso(self.first_at),
            "last_at": iso(self.last_at),
            "event_id": self.event_id,
        }


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """A key: the call that took it, how that stands, who repeated it, and the approvals that were asked for."""

    idempotency_key: str
    tool_id: str | None
    state: str | None
    """How the call stands; None where it only asked for approval, or failed in a way that freed the key."""
    event_id: str | None
    """The event of the call that took the key; None where no call did, or it was made before events were kept here."""
    claimed_at: datetime | None
    settled_at: datetime | None
    repeats: tuple[KeyRepeat, ...]
    approvals: tuple[Approval, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "idempotency_key": self.idempotency_key,
            "tool_id": self.tool_id,
            "state": self.state,
            "event_id": self.event_id,
            "claimed_at": None if self.claimed_at is None else iso(self.claimed_at),
            "settled_at": None if self.settled_at is None else iso(self.settled_at),
            "repeats": [each.as_json() for each in self.repeats],
            "approvals": [each.as_json() for each in self.approvals],
        }


async def find_key_of(database: Database, tenant_id: str, event_id: str) -> str | None:
    """Return the idempotency key that a call took; None for a call without one, and for a repeat of another."""

    def work(tx: Transaction) -> Row | None:
        return tx.fetch_one(
            "SELECT idempotency_key FROM idempotency_claims WHERE tenant_id = :tenant AND event_id = :event",
            tenant=tenant_id,
            event=event_id,
        )

    row = await database.read(tenant_id, work)
    return None if row is None else row["idempotency_key"]


async def read_key_history(database: Database, tenant_id: str, key: str, *, requested_by: str | None) -> KeyHistory:
    """Return the history of a key, or raise NotFound.

    `requested_by` leaves out the requests for approval of others, and their names.
    """

    def work(tx: Transaction) -> tuple[Row | None, list[Row], list[Approval]]:
        claim = tx.fetch_one(
            "SELECT tool_id, state, event_id, claimed_at, settled_at FROM idempotency_claims "
            "WHERE tenant_id = :tenant AND idempotency_key = :key",
            tenant=tenant_id,
            key=key,
        )
        repeats = repeats_of(tx, tenant_id, key, limit=MOST_REPEATS)
        asked = SqlApprovalStore().under_key(tx, tenant_id, key, now=now_micros())
        return claim, repeats, [each for each in asked if requested_by in (None, each.requested_by)]

    claim, repeats, asked = await database.read(tenant_id, work)
    if claim is None and not repeats and not asked:
        raise NotFound(f"no call was made under key {key!r}", idempotency_key=key)
    settled = None if claim is None else claim["settled_at"]
    return KeyHistory(
        idempotency_key=key,
        tool_id=claim["tool_id"] if claim is not None else asked[0].tool_id if asked else repeats[0]["tool_id"],
        state=None if claim is None else claim["state"],
        event_id=None if claim is None else claim["event_id"],
        claimed_at=None if claim is None else from_micros(claim["claimed_at"]),
        settled_at=None if settled is None else from_micros(settled),
        repeats=tuple(_repeat(row, requested_by) for row in repeats),
        approvals=tuple(asked),
    )


def _repeat(row: Row, requested_by: str | None) -> KeyRepeat:
    return KeyRepeat(
        kind=row["kind"],
        session_id=row["session_id"],
        tool_id=row["tool_id"],
        caller=row["caller"] if requested_by in (None, row["caller"]) else None,
        times=row["times"],
        first_at=from_micros(row["first_at"]),
        last_at=from_micros(row["last_at"]),
        event_id=row["event_id"],
    )
