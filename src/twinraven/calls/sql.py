"""Stores approvals in SQL, their state computed in the query so that all readers agree on it, and repeats of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinraven.calls.approval import Approval, ApprovalState, ApprovalVerdict
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.storage import Row, Transaction

# A claim of the same key for the same request means that the effect has begun; a freed one, that it may be tried again.
# Who asks anew under the key does so because the round before has come to nothing, so a claim is the last round's.
_STATED = """
    SELECT a.*, d.verdict, d.decided_by, d.decided_at, d.note,
        CASE
            WHEN d.verdict = 'denied' THEN 'denied'
            WHEN d.verdict = 'granted' AND c.owner IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM approvals n
                WHERE n.tenant_id = a.tenant_id AND n.asked_for = a.asked_for
                    AND n.idempotency_key = a.idempotency_key AND n.round > a.round
            ) THEN 'used'
            WHEN a.expires_at <= :now THEN 'expired'
            WHEN d.verdict = 'granted' THEN 'granted'
            ELSE 'pending'
        END AS state
    FROM approvals a
    LEFT JOIN approval_decisions d ON d.tenant_id = a.tenant_id AND d.approval_id = a.approval_id
    LEFT JOIN idempotency_claims c ON c.tenant_id = a.tenant_id
        AND c.idempotency_key = a.idempotency_key AND c.body_hash = a.body_hash
    WHERE a.tenant_id = :tenant
"""


RepeatKind = Literal["replayed", "conflict", "running"]
"""What came of a request under a key that was taken: the first answer, a refusal as another request, or neither yet."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The call that names a key: its event, its session and who made it."""

    event_id: str
    session_id: str
    caller: str | None


class SqlApprovalStore:
    """The two tables."""

    def find(self, tx: Transaction, tenant_id: str, approval_id: str, *, now: int) -> Approval | None:
        query = f"{_STATED} AND a.approval_id = :id"
        row = tx.fetch_one(query, tenant=tenant_id, id=approval_id, now=now)
        return None if row is None else _approval(row)

    def latest(
        self, tx: Transaction, tenant_id: str, asked_for: str, *, now: int, key: str | None = None
    ) -> Approval | None:
        """Return the last time this was asked for, under any key or under this one."""
        same_key = "" if key is None else "AND a.idempotency_key = :key "
        query = f"{_STATED} AND a.asked_for = :asked_for {same_key}ORDER BY a.round DESC LIMIT 1"
        row = tx.fetch_one(query, tenant=tenant_id, asked_for=asked_for, now=now, key=key)
        return None if row is None else _approval(row)

    def rounds(self, tx: Transaction, tenant_id: str, asked_for: str) -> int:
        """Count how often this was requested."""
        query = "SELECT COUNT(*) AS number FROM approvals WHERE tenant_id = :tenant AND asked_for = :asked_for"
        row = tx.fetch_one(query, tenant=tenant_id, asked_for=asked_for)
        return 0 if row is None else row["number"]

    def listing(
        self,
        tx: Transaction,
        tenant_id: str,
        *,
        now: int,
        limit: int,
        state: ApprovalState | None = None,
        older_than: Approval | None = None,
        requested_by: str | None = None,
    ) -> list[Approval]:
        """List approvals, the newest first."""
        conditions = ["1 = 1"]
        values: dict[str, object] = {"tenant": tenant_id, "now": now, "limit": limit}
        if state is not None:
            conditions.append("state = :state")
            values["state"] = state
        if requested_by is not None:
            conditions.append("requested_by = :requested_by")
            values["requested_by"] = requested_by
        if older_than is not None:
            conditions.append(
                "(requested_at, approval_id) < "
                "(SELECT requested_at, approval_id FROM approvals WHERE tenant_id = :tenant AND approval_id = :older)"
            )
            values["older"] = older_than.approval_id
        rows = tx.fetch_all(
            f"SELECT * FROM ({_STATED}) AS stated WHERE {' AND '.join(conditions)} "
            "ORDER BY requested_at DESC, approval_id DESC LIMIT :limit",
            **values,
        )
        return [_approval(row) for row in rows]

    def under_key(self, tx: Transaction, tenant_id: str, key: str, *, now: int) -> list[Approval]:
        """Return the requests under a key, the newest first."""
        query = f"{_STATED} AND a.idempotency_key = :key ORDER BY a.requested_at DESC, a.approval_id DESC"
        return [_approval(row) for row in tx.fetch_all(query, tenant=tenant_id, key=key, now=now)]

    def is_settled(self, tx: Transaction, tenant_id: str, key: str) -> bool:
        """Return whether the answer under a key is there for good: nothing will be run under it any more."""
        found = tx.fetch_one(
            "SELECT 1 AS found FROM idempotency_claims "
            "WHERE tenant_id = :tenant AND idempotency_key = :key AND state <> 'running'",
            tenant=tenant_id,
            key=key,
        )
        return found is not None

    def means_something_else(self, tx: Transaction, tenant_id: str, key: str, body_hash: str) -> bool:
        """Return whether a key names another request already, run or only asked for."""
        for table in ("approvals", "idempotency_claims"):
            other = tx.fetch_one(
                f"SELECT 1 AS found FROM {table} "
                "WHERE tenant_id = :tenant AND idempotency_key = :key AND body_hash <> :hash LIMIT 1",
                tenant=tenant_id,
                key=key,
                hash=body_hash,
            )
            if other is not None:
                return True
        return False

    def add(self, tx: Transaction, values: dict[str, object]) -> bool:
        """Insert the request; False where another process inserted the same one first."""
        names = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        done = tx.execute(f"INSERT INTO approvals ({names}) VALUES ({places}) ON CONFLICT DO NOTHING", **values)
        return bool(done)

    def decide(
        self, tx: Transaction, approval: Approval, verdict: ApprovalVerdict, *, by: str, at: int, note: str
    ) -> bool:
        """Store the decision; False where another one was stored first."""
        done = tx.execute(
            "INSERT INTO approval_decisions (tenant_id, approval_id, verdict, decided_by, decided_at, note) "
            "VALUES (:tenant, :id, :verdict, :by, :at, :note) ON CONFLICT DO NOTHING",
            tenant=approval.tenant_id,
            id=approval.approval_id,
            verdict=verdict,
            by=by,
            at=at,
            note=note,
        )
        return bool(done)


def note_repeat(
    tx: Transaction,
    tenant_id: str,
    key: str,
    kind: RepeatKind,
    use: KeyUse,
    *,
    tool_id: str,
    at: int,
) -> None:
    """Count a request under a key that was taken, by its session; the newest of a session stands for it."""
    tx.execute(
        "INSERT INTO key_repeats "
        "(tenant_id, idempotency_key, kind, session_id, tool_id, caller, event_id, times, first_at, last_at) "
        "VALUES (:tenant, :key, :kind, :session, :tool, :caller, :event, 1, :at, :at) "
        "ON CONFLICT (tenant_id, idempotency_key, kind, session_id) DO UPDATE SET times = key_repeats.times + 1, "
        "tool_id = :tool, caller = :caller, event_id = :event, last_at = :at",
        tenant=tenant_id,
        key=key,
        kind=kind,
        session=use.session_id,
        tool=tool_id,
        caller=use.caller,
        event=use.event_id,
        at=at,
    )


def repeats_of(tx: Transaction, tenant_id: str, key: str, *, limit: int) -> list[Row]:
    """Return the requests under a key after the one that took it, by session, the newest first."""
    return tx.fetch_all(
        "SELECT kind, session_id, tool_id, caller, event_id, times, first_at, last_at FROM key_repeats "
        "WHERE tenant_id = :tenant AND idempotency_key = :key ORDER BY last_at DESC, kind, session_id LIMIT :limit",
        tenant=tenant_id,
        key=key,
        limit=limit,
    )


def is_decided(tx: Transaction, tenant_id: str, approval_id: str) -> bool:
    """Return whether a request for approval was granted or denied."""
    found = tx.fetch_one(
        "SELECT 1 AS found FROM approval_decisions WHERE tenant_id = :tenant AND approval_id = :id",
        tenant=tenant_id,
        id=approval_id,
    )
    return found is not None


def _approval(row: Row) -> Approval:
    decided_at = row["decided_at"]
    return Approval(
        tenant_id=row["tenant_id"],
        approval_id=row["approval_id"],
        state=row["state"],
        tool_id=row["tool_id"],
        idempotency_key=row["idempotency_key"],
        arguments=parse_json(row["arguments"], field="arguments"),
        covers=tuple(parse_json(row["covers"], field="covers")),
        effect=row["effect"],
        sensitivity=row["sensitivity"],
        rule=row["rule"],
        reason=row["reason"],
        requested_by=row["requested_by"],
        session_id=row["session_id"],
        correlation_id=row["correlation_id"],
        requested_at=from_micros(row["requested_at"]),
        expires_at=from_micros(row["expires_at"]),
        verdict=row["verdict"],
        decided_by=row["decided_by"],
        decided_at=None if decided_at is None else from_micros(decided_at),
        note=row["note"] or "",
        definition=parse_json(row["definition"], field="definition"),
        requested_actor=row["requested_actor"],
    )
