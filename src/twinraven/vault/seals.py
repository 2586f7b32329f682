"""Seals values at rest under a tenant's own key: what runs keep, as ciphertext that opens only where it belongs.

The key is derived from the ring that outlives every rotation, so what was sealed before one opens after it. What a text
belongs to is authenticated with it: moved to another tenant, run or step, it does not open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from twinraven.vault.errors import SecretUnreadable
from twinraven.vault.tokens import TenantKeys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


class TenantSeals:
    """Encrypts and decrypts with AES-256-GCM, one derived key for each tenant."""

    def __init__(self, keys: TenantKeys, purpose: str) -> None:
        self._keys = keys
        self._purpose = purpose
        self._ciphers: dict[str, AESGCM] = {}

    def seal(self, tenant_id: str, belongs_to: str, value: bytes) -> bytes:
        """Return the value as ciphertext for its place."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher(tenant_id).encrypt(nonce, value, belongs_to.encode())

    def open(self, tenant_id: str, belongs_to: str, sealed: bytes) -> bytes:
        """Open the value, if it is as it was and where it was."""
        from cryptography.exceptions import InvalidTag

        nonce, text = bytes(sealed[:_NONCE_BYTES]), bytes(sealed[_NONCE_BYTES:])
        try:
            return self._cipher(tenant_id).decrypt(nonce, text, belongs_to.encode())
        except (InvalidTag, ValueError):
            raise SecretUnreadable(
                f"what is kept of {belongs_to!r} does not open: it was changed or moved, or the keys are others",
                place=belongs_to,
            ) from None

    def _cipher(self, tenant_id: str) -> AESGCM:
        cipher = self._ciphers.get(tenant_id)
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            cipher = self._ciphers[tenant_id] = AESGCM(self._keys.derive(tenant_id, self._purpose))
        return cipher
