"""Stores memory entries; every statement names its tenant."""

from __future__ import annotations

from typing import Final, Protocol

from twinraven.storage import Row, Transaction

_COLUMNS: Final = "scope, entry_key, value, metadata, version, created_at, updated_at"
_MINE: Final = "tenant_id = :tenant AND scope = :scope AND owner = :owner"


class MemoryOwner(Protocol):
    """The owner of a memory entry."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def scope(self) -> str: ...

    @property
    def owner(self) -> str: ...


class MemoryStore:
    """The table of memory entries."""

    def write(self, tx: Transaction, place: MemoryOwner, key: str, *, value: str, metadata: str, now: int) -> Row:
        """Keep a value under a key, in place of what it had."""
        tx.execute(
            "INSERT INTO memory_entries "
            "(tenant_id, scope, owner, entry_key, value, metadata, version, created_at, updated_at) "
            "VALUES (:tenant, :scope, :owner, :key, :value, :metadata, 1, :now, :now) "
            "ON CONFLICT (tenant_id, scope, owner, entry_key) DO UPDATE SET value = excluded.value, "
            "metadata = excluded.metadata, version = memory_entries.version + 1, updated_at = excluded.updated_at",
            **_owner(place),
            key=key,
            value=value,
            metadata=metadata,
            now=now,
        )
        row = self.read(tx, place, key)
        assert row is not None
        return row

    def read(self, tx: Transaction, place: MemoryOwner, key: str) -> Row | None:
        """Return the value of a key."""
        return tx.fetch_one(
            f"SELECT {_COLUMNS} FROM memory_entries WHERE {_MINE} AND entry_key = :key", **_owner(place), key=key
        )

    def search(self, tx: Transaction, place: MemoryOwner, prefix: str, *, limit: int) -> list[Row]:
        """Entries whose keys begin with a prefix, by key."""
        return tx.fetch_all(
            f"SELECT {_COLUMNS} FROM memory_entries WHERE {_MINE} "
            "AND substr(entry_key, 1, :length) = :prefix ORDER BY entry_key LIMIT :limit",
            **_owner(place),
            prefix=prefix,
            length=len(prefix),
            limit=limit,
        )


def _owner(place: MemoryOwner) -> dict[str, str]:
    return {"tenant": place.tenant_id, "scope": place.scope, "owner": place.owner}
