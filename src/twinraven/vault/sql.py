"""Stores secrets in SQL, the same for both databases."""

from __future__ import annotations

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.storage import Row, Transaction
from twinraven.vault.cipher import SealBinding, SealedValue
from twinraven.vault.model import Secret
from twinraven.vault.store import StoredVersion

_STATED = "tenant_id, secret_id, owner_id, name, type, shared, version, created_at, updated_at"
_COLUMNS = f"{_STATED}, last_used_at"
_MINE = "tenant_id = :tenant AND owner_id = :owner"
_VERSION = (
    "SELECT v.tenant_id, v.secret_id, v.version, s.owner_id, v.kek_id, v.wrapped_key, v.ciphertext "
    "FROM secret_versions v JOIN secrets s ON s.tenant_id = v.tenant_id AND s.secret_id = v.secret_id "
)


class SqlSecretStore:
    """`SecretStore` on a database of ours."""

    def lock_state(self, tx: Transaction, tenant_id: str, kek_id: str) -> str:
        # One statement that inserts or touches the row, and so holds it on either store.
        rows = tx.fetch_all(
            "INSERT INTO vault_state (tenant_id, kek_id, changes) VALUES (:tenant, :kek_id, 0) "
            "ON CONFLICT (tenant_id) DO UPDATE SET changes = vault_state.changes RETURNING kek_id",
            tenant=tenant_id,
            kek_id=kek_id,
        )
        return rows[0]["kek_id"]

    def set_kek(self, tx: Transaction, tenant_id: str, kek_id: str) -> None:
        tx.execute("UPDATE vault_state SET kek_id = :kek_id WHERE tenant_id = :tenant", tenant=tenant_id, kek_id=kek_id)

    def count_change(self, tx: Transaction, tenant_id: str) -> None:
        tx.execute("UPDATE vault_state SET changes = changes + 1 WHERE tenant_id = :tenant", tenant=tenant_id)

    def changes(self, tx: Transaction, tenant_id: str) -> int:
        row = tx.fetch_one("SELECT changes FROM vault_state WHERE tenant_id = :tenant", tenant=tenant_id)
        return 0 if row is None else row["changes"]

    def tenants(self, tx: Transaction) -> list[str]:
        return [row["tenant_id"] for row in tx.fetch_all("SELECT tenant_id FROM vault_state ORDER BY tenant_id")]

    def add(self, tx: Transaction, secret: Secret) -> None:
        tx.execute(
            f"INSERT INTO secrets ({_STATED}) "
            "VALUES (:tenant, :secret, :owner, :name, :type, :shared, :version, :created, :updated)",
            tenant=secret.tenant_id,
            secret=secret.secret_id,
            owner=secret.owner_id,
            name=secret.name,
            type=secret.type,
            shared=int(secret.shared),
            version=secret.version,
            created=to_micros(secret.created_at),
            updated=to_micros(secret.updated_at),
        )

    def secret(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> Secret | None:
        row = tx.fetch_one(
            f"SELECT {_COLUMNS} FROM secrets WHERE {_MINE} AND secret_id = :secret",
            tenant=tenant_id,
            owner=owner_id,
            secret=secret_id,
        )
        return None if row is None else _to_secret(row)

    def named(self, tx: Transaction, tenant_id: str, owner_id: str, name: str) -> Secret | None:
        row = tx.fetch_one(
            f"SELECT {_COLUMNS} FROM secrets WHERE {_MINE} AND name = :name",
            tenant=tenant_id,
            owner=owner_id,
            name=name,
        )
        return None if row is None else _to_secret(row)

    def secrets(self, tx: Transaction, tenant_id: str, owner_id: str) -> list[Secret]:
        rows = tx.fetch_all(
            f"SELECT {_COLUMNS} FROM secrets WHERE {_MINE} ORDER BY name", tenant=tenant_id, owner=owner_id
        )
        return [_to_secret(row) for row in rows]

    def change(self, tx: Transaction, secret: Secret) -> bool:
        changed = tx.execute(
            "UPDATE secrets SET name = :name, shared = :shared, version = :version, updated_at = :updated "
            f"WHERE {_MINE} AND secret_id = :secret",
            tenant=secret.tenant_id,
            owner=secret.owner_id,
            secret=secret.secret_id,
            name=secret.name,
            shared=int(secret.shared),
            version=secret.version,
            updated=to_micros(secret.updated_at),
        )
        return changed == 1

    def remove(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> bool:
        removed = tx.execute(
            f"DELETE FROM secrets WHERE {_MINE} AND secret_id = :secret",
            tenant=tenant_id,
            owner=owner_id,
            secret=secret_id,
        )
        return removed == 1

    def add_version(self, tx: Transaction, version: StoredVersion, *, created_at: int) -> None:
        place, sealed = version
        tx.execute(
            "INSERT INTO secret_versions "
            "(tenant_id, secret_id, version, kek_id, wrapped_key, ciphertext, created_at) "
            "VALUES (:tenant, :secret, :version, :kek_id, :wrapped, :ciphertext, :created)",
            tenant=place.tenant_id,
            secret=place.secret_id,
            version=place.version,
            kek_id=sealed.kek_id,
            wrapped=sealed.wrapped_key,
            ciphertext=sealed.ciphertext,
            created=created_at,
        )

    def current(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> StoredVersion | None:
        row = tx.fetch_one(
            f"{_VERSION} AND s.version = v.version "
            "WHERE v.tenant_id = :tenant AND s.owner_id = :owner AND v.secret_id = :secret",
            tenant=tenant_id,
            owner=owner_id,
            secret=secret_id,
        )
        return None if row is None else _to_version(row)

    def last_use(self, tx: Transaction, tenant_id: str, secret_id: str) -> int | None:
        row = tx.fetch_one(
            "SELECT last_used_at FROM secrets WHERE tenant_id = :tenant AND secret_id = :secret",
            tenant=tenant_id,
            secret=secret_id,
        )
        return None if row is None else row["last_used_at"]

    def note_use(self, tx: Transaction, tenant_id: str, secret_id: str, *, at: int, unless_since: int) -> None:
        tx.execute(
            "UPDATE secrets SET last_used_at = :at WHERE tenant_id = :tenant AND secret_id = :secret "
            "AND (last_used_at IS NULL OR last_used_at < :since)",
            tenant=tenant_id,
            secret=secret_id,
            at=at,
            since=unless_since,
        )

    def versions(self, tx: Transaction, tenant_id: str) -> list[StoredVersion]:
        rows = tx.fetch_all(f"{_VERSION} WHERE v.tenant_id = :tenant ORDER BY v.secret_id, v.version", tenant=tenant_id)
        return [_to_version(row) for row in rows]

    def rewrap(self, tx: Transaction, version: StoredVersion) -> None:
        place, sealed = version
        tx.execute(
            "UPDATE secret_versions SET kek_id = :kek_id, wrapped_key = :wrapped "
            "WHERE tenant_id = :tenant AND secret_id = :secret AND version = :version",
            tenant=place.tenant_id,
            secret=place.secret_id,
            version=place.version,
            kek_id=sealed.kek_id,
            wrapped=sealed.wrapped_key,
        )

    def keks_in_use(self, tx: Transaction, tenant_id: str) -> set[str]:
        rows = tx.fetch_all(
            "SELECT kek_id FROM secret_versions WHERE tenant_id = :tenant "
            "UNION SELECT kek_id FROM vault_state WHERE tenant_id = :tenant",
            tenant=tenant_id,
        )
        return {row["kek_id"] for row in rows}


def _to_secret(row: Row) -> Secret:
    return Secret(
        tenant_id=row["tenant_id"],
        secret_id=row["secret_id"],
        owner_id=row["owner_id"],
        name=row["name"],
        type=row["type"],
        shared=bool(row["shared"]),
        version=row["version"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        last_used_at=None if row["last_used_at"] is None else from_micros(row["last_used_at"]),
    )


def _to_version(row: Row) -> StoredVersion:
    place = SealBinding(row["tenant_id"], row["secret_id"], row["version"], row["owner_id"])
    return StoredVersion(place, SealedValue(row["kek_id"], bytes(row["wrapped_key"]), bytes(row["ciphertext"])))
