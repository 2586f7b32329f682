"""Encrypts values by envelope encryption: each version has its own data key, wrapped by a key-encryption key.

AES-256-GCM, twice. What each text belongs to (tenant, secret, version, owner, purpose) is authenticated with it, so a
row that was copied over another, moved to another tenant or given to another owner does not open. Rotating the
key-encryption key changes the wrapping of 32 bytes and never touches the value.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from twinraven.audit import KeyRing
from twinraven.foundation.canonical import canonical_json
from twinraven.vault.errors import SecretUnreadable

_FORMAT = b"\x01"
_NONCE_BYTES = 12
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class SealBinding:
    """The binding of a sealed value (associated data): it decrypts nowhere else."""

    tenant_id: str
    secret_id: str
    version: int
    owner_id: str

    def binding(self, purpose: Literal["value", "data-key"], kek_id: str = "") -> bytes:
        fields = ["twinraven.vault.1", purpose, kek_id, self.tenant_id, self.secret_id, self.version, self.owner_id]
        return canonical_json(fields)


@dataclass(frozen=True, slots=True)
class SealedValue:
    """A value as stored."""

    kek_id: str
    wrapped_key: bytes
    ciphertext: bytes


class Cipher:
    """Seals values under a ring of key-encryption keys."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def seal(self, value: bytes, place: SealBinding, *, kek_id: str) -> SealedValue:
        """Encrypt a value for its place, under a new data key."""
        data_key = os.urandom(_KEY_BYTES)
        wrapped = _encrypt(self._kek(kek_id), data_key, place.binding("data-key", kek_id))
        return SealedValue(kek_id, wrapped, _encrypt(data_key, value, place.binding("value")))

    def open(self, sealed: SealedValue, place: SealBinding) -> bytes:
        """Open the value, if everything about it is as it was when it was sealed."""
        return _decrypt(self._unwrap(sealed, place), sealed.ciphertext, place.binding("value"), place)

    def rewrap(self, sealed: SealedValue, place: SealBinding, *, kek_id: str) -> SealedValue:
        """Return the same value with its data key wrapped by another key-encryption key."""
        data_key = self._unwrap(sealed, place)
        wrapped = _encrypt(self._kek(kek_id), data_key, place.binding("data-key", kek_id))
        return SealedValue(kek_id, wrapped, sealed.ciphertext)

    def _unwrap(self, sealed: SealedValue, place: SealBinding) -> bytes:
        binding = place.binding("data-key", sealed.kek_id)
        return _decrypt(self._kek(sealed.kek_id), sealed.wrapped_key, binding, place)

    def _kek(self, kek_id: str) -> bytes:
        generation = self._ring.find(kek_id)
        if generation is None:
            raise SecretUnreadable(
                f"key-encryption key {kek_id!r} is not in {self._ring.path}; restore that file from the backup that "
                "belongs to this database",
                kek_id=kek_id,
            )
        return generation.key


def _encrypt(key: bytes, text: bytes, binding: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return _FORMAT + nonce + AESGCM(key).encrypt(nonce, text, binding)


def _decrypt(key: bytes, sealed: bytes, binding: bytes, place: SealBinding) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    head = len(_FORMAT) + _NONCE_BYTES
    try:
        if not sealed.startswith(_FORMAT):
            raise InvalidTag
        return AESGCM(key).decrypt(sealed[len(_FORMAT) : head], sealed[head:], binding)
    except (InvalidTag, ValueError):
        raise SecretUnreadable(
            f"secret {place.secret_id!r} version {place.version} does not open: it was changed or moved; "
            "set its value again",
            secret_id=place.secret_id,
            version=place.version,
        ) from None
