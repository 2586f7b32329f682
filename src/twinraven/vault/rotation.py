"""Rotates the key-encryption key, safe against being killed at any point.

The new generation is in the key file, durably, before anything is wrapped with it. Then each tenant is moved in one
transaction that holds the tenant's state row: whoever writes a secret meanwhile locks the same row and wraps with the
generation it names, so nothing can appear under the old one behind the rotation's back. A rotation that was killed
leaves some tenants moved and some not, all of them readable; the next one moves the rest.

A retired generation is dropped only when no tenant uses it and it has been retired for a day: by then no transaction
that chose it can still be open, and yesterday's backup can still be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import TypeVar

from twinraven.audit import AuditLog, KeyRing, NewAuditEntry
from twinraven.storage import Database, Transaction
from twinraven.tenancy import DIRECTORY
from twinraven.vault.cipher import Cipher
from twinraven.vault.errors import SecretUnreadable
from twinraven.vault.model import KekRotation
from twinraven.vault.store import SecretStore, StoredVersion

T = TypeVar("T")
KEPT_AFTER_RETIREMENT = timedelta(days=1)


async def rotate_kek(
    database: Database,
    ring: KeyRing,
    cipher: Cipher,
    store: SecretStore,
    audit: AuditLog,
    *,
    micros: Callable[[], int],
) -> KekRotation:
    """Make a new generation (or take the one the environment gives) and wrap every data key with it."""
    import asyncio

    with ExitStack() as alone:
        await asyncio.to_thread(alone.enter_context, ring.rotation())
        await asyncio.to_thread(ring.reload if ring.is_given else ring.renew)
        target = ring.active().id
        rewrapped = unreadable = 0
        tenants = await database.read(DIRECTORY, store.tenants)
        in_use: set[str] = set()
        for tenant_id in tenants:
            move = _Move(cipher, store, audit, tenant_id, target)
            done, left = await database.write(tenant_id, move)
            rewrapped, unreadable = rewrapped + done, unreadable + left
            in_use |= await database.read(tenant_id, lambda tx, of=tenant_id: store.keks_in_use(tx, of))
        long_ago = micros() - KEPT_AFTER_RETIREMENT // timedelta(microseconds=1)
        unused = [one.id for one in ring.generations() if _retired_before(one.retired_at, long_ago)]
        dropped = await asyncio.to_thread(ring.drop, set(unused) - in_use)
    return KekRotation(target, len(tenants), rewrapped, unreadable, tuple(dropped))


def _retired_before(retired_at: int | None, moment: int) -> bool:
    return retired_at is not None and retired_at < moment


class _Move:
    """Moves one tenant to a generation, inside one transaction."""

    def __init__(self, cipher: Cipher, store: SecretStore, audit: AuditLog, tenant_id: str, target: str) -> None:
        self._cipher = cipher
        self._store = store
        self._audit = audit
        self._tenant_id = tenant_id
        self._target = target

    def __call__(self, tx: Transaction) -> tuple[int, int]:
        """Return how many data keys were wrapped anew, and how many no key opens."""
        self._store.lock_state(tx, self._tenant_id, self._target)
        stale = [one for one in self._store.versions(tx, self._tenant_id) if one.sealed.kek_id != self._target]
        moved = sum(self._rewrap(tx, version) for version in stale)
        self._store.set_kek(tx, self._tenant_id, self._target)
        data = {"kek_id": self._target, "rewrapped": moved, "unreadable": len(stale) - moved}
        self._audit.append(tx, NewAuditEntry(self._tenant_id, "vault.kek_rotated", "vault", self._target, data=data))
        return moved, len(stale) - moved

    def _rewrap(self, tx: Transaction, version: StoredVersion) -> bool:
        try:
            sealed = self._cipher.rewrap(version.sealed, version.place, kek_id=self._target)
        except SecretUnreadable:
            # One damaged row must not keep all others under a key that is to be given up.
            return False
        self._store.rewrap(tx, StoredVersion(version.place, sealed))
        return True
