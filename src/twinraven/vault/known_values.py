"""Loads the secret values that redaction looks for.

Muninn's writer redacts on a thread of its own, without an event loop, so this reads where it is asked.
A value that no longer opens is left out: what we cannot read cannot leave through us, and one damaged row must not stop
everything from being recorded.
"""

from __future__ import annotations

from typing import Protocol

from twinraven.audit import KeyRing
from twinraven.storage import Database
from twinraven.vault.cipher import Cipher
from twinraven.vault.errors import SecretUnreadable
from twinraven.vault.sql import SqlSecretStore
from twinraven.vault.store import SecretStore


class KnownValues(Protocol):
    """Supplies the secret values to redact."""

    def changes(self, tenant_id: str) -> int:
        """Return a number that grows whenever the tenant's values change."""
        ...

    def values(self, tenant_id: str) -> list[str]:
        """Return every value the tenant's secrets have or had."""
        ...


class StoredValues:
    """`KnownValues` of the vault."""

    def __init__(self, database: Database, ring: KeyRing, *, store: SecretStore | None = None) -> None:
        self._database = database
        self._cipher = Cipher(ring)
        self._store = store or SqlSecretStore()

    def changes(self, tenant_id: str) -> int:
        return self._database.read_here(tenant_id, lambda tx: self._store.changes(tx, tenant_id))

    def values(self, tenant_id: str) -> list[str]:
        found: list[str] = []
        for place, sealed in self._database.read_here(tenant_id, lambda tx: self._store.versions(tx, tenant_id)):
            try:
                found.append(self._cipher.open(sealed, place).decode())
            except SecretUnreadable as error:
                _warn(error)
        return found


def _warn(error: SecretUnreadable) -> None:
    import logging

    logging.getLogger(__name__).warning("a secret is not redacted: %s", error.message)
