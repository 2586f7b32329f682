"""Declares the port to stored tenants, users and keys; each method runs inside its caller's transaction."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from twinraven.storage import Transaction
from twinraven.tenancy.model import ApiKey, Role, Tenant, User


class FoundKey(NamedTuple):
    """A key found by its hash."""

    key: ApiKey
    key_hash: str


class TenancyStore(Protocol):
    """Rows of one tenant, but for the two look-ups that come before a tenant is known."""

    def add_tenant(self, tx: Transaction, tenant: Tenant) -> None: ...

    def tenant(self, tx: Transaction, tenant_id: str) -> Tenant | None: ...

    def tenants(self, tx: Transaction) -> list[Tenant]:
        """Return all of them; the transaction must act for `DIRECTORY`."""
        ...

    def add_user(self, tx: Transaction, user: User) -> None: ...

    def user(self, tx: Transaction, tenant_id: str, user_id: str) -> User | None: ...

    def users(self, tx: Transaction, tenant_id: str) -> list[User]: ...

    def change_user(self, tx: Transaction, tenant_id: str, user_id: str, *, role: Role, active: bool) -> bool:
        """Return whether there was such a user."""
        ...

    def add_key(self, tx: Transaction, key: ApiKey, key_hash: str) -> None: ...

    def key(self, tx: Transaction, tenant_id: str, key_id: str) -> ApiKey | None: ...

    def keys(self, tx: Transaction, tenant_id: str) -> list[ApiKey]: ...

    def find_key(self, tx: Transaction, key_hash: str) -> FoundKey | None:
        """By hash alone; the transaction must act for `key_scope(key_hash)`."""
        ...

    def revoke_key(self, tx: Transaction, tenant_id: str, key_id: str, *, at: int) -> bool:
        """Return whether the key was still in force."""
        ...

    def note_use(self, tx: Transaction, tenant_id: str, key_id: str, *, at: int, unless_since: int) -> None:
        """Remember that a key was used, unless that is known since a given time."""
        ...


def key_scope(key_hash: str) -> str:
    """Return the scope of a transaction that may see only the key with this hash."""
    return f"key:{key_hash}"
