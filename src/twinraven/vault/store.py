"""Declares the port to stored secrets; each method runs inside its caller's transaction.

What people and connectors ask for is filtered by owner as well as by tenant. Only rotation and redaction read across
owners, and neither gives anything to anybody.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from twinraven.storage import Transaction
from twinraven.vault.cipher import SealBinding, SealedValue
from twinraven.vault.model import Secret


class StoredVersion(NamedTuple):
    """One version of a value, and where it belongs."""

    place: SealBinding
    sealed: SealedValue


class SecretStore(Protocol):
    """One tenant's secrets."""

    def lock_state(self, tx: Transaction, tenant_id: str, kek_id: str) -> str:
        """Return the generation the tenant's keys are wrapped with (`kek_id` if none yet), held until the transaction
        ends.
        """
        ...

    def set_kek(self, tx: Transaction, tenant_id: str, kek_id: str) -> None: ...

    def count_change(self, tx: Transaction, tenant_id: str) -> None:
        """Raise the counter by which caches of known values notice changes."""
        ...

    def changes(self, tx: Transaction, tenant_id: str) -> int: ...

    def tenants(self, tx: Transaction) -> list[str]:
        """Return every tenant with a vault; the transaction must act for the directory."""
        ...

    def add(self, tx: Transaction, secret: Secret) -> None: ...

    def secret(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> Secret | None: ...

    def named(self, tx: Transaction, tenant_id: str, owner_id: str, name: str) -> Secret | None: ...

    def secrets(self, tx: Transaction, tenant_id: str, owner_id: str) -> list[Secret]: ...

    def change(self, tx: Transaction, secret: Secret) -> bool:
        """Store name, `shared`, version and time of change; whether there was such a secret."""
        ...

    def remove(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> bool: ...

    def add_version(self, tx: Transaction, version: StoredVersion, *, created_at: int) -> None: ...

    def current(self, tx: Transaction, tenant_id: str, owner_id: str, secret_id: str) -> StoredVersion | None:
        """Return the version in force."""
        ...

    def last_use(self, tx: Transaction, tenant_id: str, secret_id: str) -> int | None:
        """Return when a connector was last given the value, in microseconds."""
        ...

    def note_use(self, tx: Transaction, tenant_id: str, secret_id: str, *, at: int, unless_since: int) -> None:
        """Store that a connector was given the value, unless that was noted since a moment."""
        ...

    def versions(self, tx: Transaction, tenant_id: str) -> list[StoredVersion]:
        """Return every version of every secret, for rotation and redaction alone."""
        ...

    def rewrap(self, tx: Transaction, version: StoredVersion) -> None: ...

    def keks_in_use(self, tx: Transaction, tenant_id: str) -> set[str]: ...
