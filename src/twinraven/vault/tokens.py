"""Derives the token that replaces a secret: the same for the same value, within one tenant.

Mining and replay compare recorded values, so equal must stay equal after redaction; and nobody may test guesses against
a token, so it is keyed. The key of a tenant is derived from one root that is never rotated with the others: a new root
would make the same value look like another.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinraven.audit import KeyRing

_TOKEN_DIGITS = 12


class TenantKeys:
    """Keys for hashes that must be stable within a tenant and useless outside of it."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._derived: dict[tuple[str, str], bytes] = {}

    def token(self, tenant_id: str, value: bytes) -> str:
        """Return the token that is stored instead of a value."""
        return f"[secret:{self.hash(tenant_id, 'redaction', value)[:_TOKEN_DIGITS]}]"

    def hash(self, tenant_id: str, purpose: str, body: bytes) -> str:
        """Return a keyed hash, against which values cannot be tried without the key."""
        return hmac.digest(self.derive(tenant_id, purpose), body, "sha256").hex()

    def derive(self, tenant_id: str, purpose: str) -> bytes:
        """Return the 32 bytes of key that a tenant has for a purpose."""
        key = self._derived.get((tenant_id, purpose))
        if key is None:
            root = self._ring.first().key
            label = b"\0".join(part.encode("utf-8", "surrogatepass") for part in ("twinraven", purpose, tenant_id))
            key = self._derived[tenant_id, purpose] = hmac.digest(root, label, "sha256")
        return key
