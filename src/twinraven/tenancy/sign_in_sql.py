"""Stores sign-ins, on either store."""

from __future__ import annotations

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.storage import Row, Transaction
from twinraven.tenancy.model import SignIn

_COLUMNS = "tenant_id, sign_in_id, user_id, key_id, label, created_at, expires_at, ended_at"


def sign_in_scope(token_hash: str) -> str:
    """Return the scope of a transaction that may see only the sign-in with this hash."""
    return f"sign-in:{token_hash}"


class SqlSignIns:
    """Rows of sign-ins; each method runs inside its caller's transaction."""

    def add(self, tx: Transaction, made: SignIn, token_hash: str) -> None:
        tx.execute(
            "INSERT INTO sign_ins (tenant_id, sign_in_id, user_id, key_id, token_hash, label, created_at, expires_at) "
            "VALUES (:tenant, :sign_in, :user_id, :key_id, :token_hash, :label, :created, :expires)",
            tenant=made.tenant_id,
            sign_in=made.sign_in_id,
            user_id=made.user_id,
            key_id=made.key_id,
            token_hash=token_hash,
            label=made.label,
            created=to_micros(made.created_at),
            expires=to_micros(made.expires_at),
        )

    def find(self, tx: Transaction, token_hash: str) -> SignIn | None:
        """By hash alone; the transaction must act for `sign_in_scope(token_hash)`."""
        row = tx.fetch_one(f"SELECT {_COLUMNS} FROM sign_ins WHERE token_hash = :hash", hash=token_hash)
        return None if row is None else _to_sign_in(row)

    def get(self, tx: Transaction, tenant_id: str, sign_in_id: str) -> SignIn | None:
        row = tx.fetch_one(
            f"SELECT {_COLUMNS} FROM sign_ins WHERE tenant_id = :tenant AND sign_in_id = :sign_in",
            tenant=tenant_id,
            sign_in=sign_in_id,
        )
        return None if row is None else _to_sign_in(row)

    def open(self, tx: Transaction, tenant_id: str, *, now: int) -> list[SignIn]:
        """Open those that are neither ended nor over, newest first."""
        rows = tx.fetch_all(
            f"SELECT {_COLUMNS} FROM sign_ins WHERE tenant_id = :tenant AND ended_at IS NULL AND expires_at > :now "
            "ORDER BY created_at DESC, sign_in_id",
            tenant=tenant_id,
            now=now,
        )
        return [_to_sign_in(row) for row in rows]

    def end(self, tx: Transaction, tenant_id: str, sign_in_id: str, *, at: int) -> bool:
        """Return whether it was still open."""
        changed = tx.execute(
            "UPDATE sign_ins SET ended_at = :at "
            "WHERE tenant_id = :tenant AND sign_in_id = :sign_in AND ended_at IS NULL",
            tenant=tenant_id,
            sign_in=sign_in_id,
            at=at,
        )
        return changed == 1


def _to_sign_in(row: Row) -> SignIn:
    ended = row["ended_at"]
    return SignIn(
        tenant_id=row["tenant_id"],
        sign_in_id=row["sign_in_id"],
        user_id=row["user_id"],
        key_id=row["key_id"],
        label=row["label"],
        created_at=from_micros(row["created_at"]),
        expires_at=from_micros(row["expires_at"]),
        ended_at=None if ended is None else from_micros(ended),
    )
