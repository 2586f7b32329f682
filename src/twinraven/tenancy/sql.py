"""Stores tenants, users and keys in SQL, the same for both databases."""

from __future__ import annotations

from datetime import datetime

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.storage import Row, Transaction
from twinraven.tenancy.model import ApiKey, Role, Tenant, User
from twinraven.tenancy.store import FoundKey

_KEY = "tenant_id, key_id, user_id, prefix, label, created_at, expires_at, revoked_at, last_used_at"


class SqlTenancyStore:
    """`TenancyStore` on a database of ours."""

    def add_tenant(self, tx: Transaction, tenant: Tenant) -> None:
        tx.execute(
            "INSERT INTO tenants (tenant_id, name, created_at) VALUES (:tenant, :name, :created)",
            tenant=tenant.tenant_id,
            name=tenant.name,
            created=to_micros(tenant.created_at),
        )

    def tenant(self, tx: Transaction, tenant_id: str) -> Tenant | None:
        row = tx.fetch_one("SELECT * FROM tenants WHERE tenant_id = :tenant", tenant=tenant_id)
        return None if row is None else _to_tenant(row)

    def tenants(self, tx: Transaction) -> list[Tenant]:
        return [_to_tenant(row) for row in tx.fetch_all("SELECT * FROM tenants ORDER BY created_at, tenant_id")]

    def add_user(self, tx: Transaction, user: User) -> None:
        tx.execute(
            "INSERT INTO users (tenant_id, user_id, name, kind, role, active, created_at) "
            "VALUES (:tenant, :user_id, :name, :kind, :role, :active, :created)",
            tenant=user.tenant_id,
            user_id=user.user_id,
            name=user.name,
            kind=user.kind,
            role=user.role,
            active=int(user.active),
            created=to_micros(user.created_at),
        )

    def user(self, tx: Transaction, tenant_id: str, user_id: str) -> User | None:
        row = tx.fetch_one(
            "SELECT * FROM users WHERE tenant_id = :tenant AND user_id = :user_id", tenant=tenant_id, user_id=user_id
        )
        return None if row is None else _to_user(row)

    def users(self, tx: Transaction, tenant_id: str) -> list[User]:
        rows = tx.fetch_all(
            "SELECT * FROM users WHERE tenant_id = :tenant ORDER BY created_at, user_id", tenant=tenant_id
        )
        return [_to_user(row) for row in rows]

    def change_user(self, tx: Transaction, tenant_id: str, user_id: str, *, role: Role, active: bool) -> bool:
        changed = tx.execute(
            "UPDATE users SET role = :role, active = :active WHERE tenant_id = :tenant AND user_id = :user_id",
            tenant=tenant_id,
            user_id=user_id,
            role=role,
            active=int(active),
        )
        return changed == 1

    def add_key(self, tx: Transaction, key: ApiKey, key_hash: str) -> None:
        tx.execute(
            "INSERT INTO api_keys (tenant_id, key_id, user_id, key_hash, prefix, label, created_at, expires_at) "
            "VALUES (:tenant, :key_id, :user_id, :key_hash, :prefix, :label, :created, :expires)",
            tenant=key.tenant_id,
            key_id=key.key_id,
            user_id=key.user_id,
            key_hash=key_hash,
            prefix=key.prefix,
            label=key.label,
            created=to_micros(key.created_at),
            expires=None if key.expires_at is None else to_micros(key.expires_at),
        )

    def key(self, tx: Transaction, tenant_id: str, key_id: str) -> ApiKey | None:
        row = tx.fetch_one(
            f"SELECT {_KEY} FROM api_keys WHERE tenant_id = :tenant AND key_id = :key_id",
            tenant=tenant_id,
            key_id=key_id,
        )
        return None if row is None else _to_key(row)

    def keys(self, tx: Transaction, tenant_id: str) -> list[ApiKey]:
        rows = tx.fetch_all(
            f"SELECT {_KEY} FROM api_keys WHERE tenant_id = :tenant ORDER BY created_at, key_id", tenant=tenant_id
        )
        return [_to_key(row) for row in rows]

    def find_key(self, tx: Transaction, key_hash: str) -> FoundKey | None:
        row = tx.fetch_one(f"SELECT {_KEY}, key_hash FROM api_keys WHERE key_hash = :key_hash", key_hash=key_hash)
        return None if row is None else FoundKey(_to_key(row), row["key_hash"])

    def revoke_key(self, tx: Transaction, tenant_id: str, key_id: str, *, at: int) -> bool:
        changed = tx.execute(
            "UPDATE api_keys SET revoked_at = :at "
            "WHERE tenant_id = :tenant AND key_id = :key_id AND revoked_at IS NULL",
            tenant=tenant_id,
            key_id=key_id,
            at=at,
        )
        return changed == 1

    def note_use(self, tx: Transaction, tenant_id: str, key_id: str, *, at: int, unless_since: int) -> None:
        tx.execute(
            "UPDATE api_keys SET last_used_at = :at WHERE tenant_id = :tenant AND key_id = :key_id "
            "AND (last_used_at IS NULL OR last_used_at < :since)",
            tenant=tenant_id,
            key_id=key_id,
            at=at,
            since=unless_since,
        )


def _to_tenant(row: Row) -> Tenant:
    return Tenant(row["tenant_id"], row["name"], from_micros(row["created_at"]))


def _to_user(row: Row) -> User:
    return User(
        tenant_id=row["tenant_id"],
        user_id=row["user_id"],
        name=row["name"],
        role=row["role"],
        active=bool(row["active"]),
        created_at=from_micros(row["created_at"]),
        kind=row["kind"],
    )


def _to_key(row: Row) -> ApiKey:
    return ApiKey(
        tenant_id=row["tenant_id"],
        key_id=row["key_id"],
        user_id=row["user_id"],
        prefix=row["prefix"],
        label=row["label"],
        created_at=from_micros(row["created_at"]),
        expires_at=_time(row["expires_at"]),
        revoked_at=_time(row["revoked_at"]),
        last_used_at=_time(row["last_used_at"]),
    )


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
