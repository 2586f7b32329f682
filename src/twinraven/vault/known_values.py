"""Loads the secret values that redaction looks for.

Muninn's writer redacts on a thread of its own, without an event loop, so this reads by a connection of its own as well.
A value that no longer opens is left out: what we cannot read cannot leave through us, and one damaged row must not stop
everything from being recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from twinraven.audit import KeyRing
from twinraven.storage import Connection, Database, Transaction, forget_after_fork
from twinraven.vault.cipher import Cipher
from twinraven.vault.errors import SecretUnreadable
from twinraven.vault.sql import SqlSecretStore
from twinraven.vault.store import SecretStore

T = TypeVar("T")


class KnownValues(Protocol):
    """Supplies the secret values to redact."""

    def changes(self, tenant_id: str) -> int:
        """Return a number that grows whenever the tenant's values change."""
        ...

    def values(self, tenant_id: str) -> list[str]:
        """Return every value the tenant's secrets have or had."""
        ...

    def close(self) -> None: ...


class StoredValues:
    """`KnownValues` of the vault."""

    def __init__(self, database: Database, ring: KeyRing, *, store: SecretStore | None = None) -> None:
        self._database = database
        self._cipher = Cipher(ring)
        self._store = store or SqlSecretStore()
        self.after_fork()
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._turn = threading.Lock()
        self._connection: Connection | None = None

    def changes(self, tenant_id: str) -> int:
        return self._read(tenant_id, lambda tx: self._store.changes(tx, tenant_id))

    def values(self, tenant_id: str) -> list[str]:
        found: list[str] = []
        for place, sealed in self._read(tenant_id, lambda tx: self._store.versions(tx, tenant_id)):
            try:
                found.append(self._cipher.open(sealed, place).decode())
            except SecretUnreadable as error:
                _warn(error)
        return found

    def close(self) -> None:
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _read(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        with self._turn:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.transaction(tenant_id, write=False) as tx:
                return work(tx)


def _warn(error: SecretUnreadable) -> None:
    import logging

    logging.getLogger(__name__).warning("a secret is not redacted: %s", error.message)
