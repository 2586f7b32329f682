"""Signs heads and anchors with Ed25519, with a key that is kept in the home and not in the database.

Whoever can write to the database can make a chain that agrees with itself; they cannot make a head for it. An anchor is
a head copied to where they cannot reach, one JSON object a line, readable and checkable with the public key it names.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.audit.key_files import KeyRing, sync_folder
from twinraven.audit.model import Anchor, Head
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HEAD_FIELDS = ("tenant_id", "sequence", "entry_hash", "signed_at", "key_id", "signature")


class Signer:
    """Signs heads and tells genuine ones from others."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._keys: dict[str, Ed25519PrivateKey] = {}

    def sign(self, tenant_id: str, sequence: int, entry_hash: str) -> Head:
        """Return the head of a chain that now ends with this entry."""
        key_id, at = self._ring.active().id, now_micros()
        key = self._key(key_id)
        assert key is not None
        signature = key.sign(_signed_text(tenant_id, sequence, entry_hash, at, key_id))
        return Head(tenant_id, sequence, entry_hash, at, key_id, signature.hex())

    def fault_of(self, head: Head) -> str | None:
        """Why a head is not one of ours; None if it is."""
        from cryptography.exceptions import InvalidSignature

        key = self._key(head.key_id)
        if key is None:
            return f"the head is signed with key {head.key_id!r}, which this home does not have"
        text = _signed_text(head.tenant_id, head.sequence, head.entry_hash, head.signed_at, head.key_id)
        try:
            key.public_key().verify(bytes.fromhex(head.signature), text)
        except (InvalidSignature, ValueError):
            return "the head's signature is not ours"
        return None

    def fault_of_anchor(self, anchor: Anchor) -> str | None:
        """Why an anchor is not one of ours: its head, or a public key beside it that is not the key it names."""
        fault = self.fault_of(anchor.head)
        if fault is None and self.anchor(anchor.head).public_key != anchor.public_key:
            return f"its public key is not that of key {anchor.head.key_id!r}"
        return fault

    def anchor(self, head: Head) -> Anchor:
        """Return the head with what a stranger needs to check it."""
        key = self._key(head.key_id)
        if key is None:
            raise InvalidInput(f"the head is signed with key {head.key_id!r}, which this home does not have")
        return Anchor(head, base64.b64encode(key.public_key().public_bytes_raw()).decode())

    def _key(self, key_id: str) -> Ed25519PrivateKey | None:
        if key_id not in self._keys:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

            generation = self._ring.find(key_id)
            if generation is None:
                return None
            self._keys[key_id] = Ed25519PrivateKey.from_private_bytes(generation.key)
        return self._keys[key_id]


def _signed_text(*fields: Any) -> bytes:
    return b"twinraven.audit.head.1\0" + canonical_json(list(fields))


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Add an anchor to a file, durably."""
    line = {name: getattr(anchor.head, name) for name in _HEAD_FIELDS} | {"public_key": anchor.public_key}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}", field="anchor") from None


def read_anchors(path: Path, tenant_id: str) -> Sequence[Anchor]:
    """Read the tenant's anchors in a file; one with none, or with anything else in it, is refused."""
    try:
        lines = path.read_text("utf-8").splitlines()
        anchors = [_to_anchor(json.loads(line)) for line in lines if line.strip()]
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", field="anchor") from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{path} is not a file of anchors", field="anchor") from None
    mine = [anchor for anchor in anchors if anchor.head.tenant_id == tenant_id]
    if not mine:
        raise InvalidInput(f"{path} holds no anchor of tenant {tenant_id!r}", field="anchor")
    return mine


def _to_anchor(line: dict[str, Any]) -> Anchor:
    head = Head(
        tenant_id=str(line["tenant_id"]),
        sequence=int(line["sequence"]),
        entry_hash=str(line["entry_hash"]),
        signed_at=int(line["signed_at"]),
        key_id=str(line["key_id"]),
        signature=str(line["signature"]),
    )
    return Anchor(head, str(line["public_key"]))
