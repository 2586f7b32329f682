"""Signs retention notes with the keys of the audit chain, which write access to the database cannot forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.audit import KeyRing
from twinraven.muninn.retention.model import NoteSignature, RetentionNote

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class RingSigner:
    """`NoteSigner` on a ring of Ed25519 keys."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def sign(self, note: RetentionNote) -> NoteSignature:
        generation = self._ring.active()
        return NoteSignature(generation.id, _key(generation.key).sign(note.signed_text()).hex())

    def fault_of(self, note: RetentionNote) -> str | None:
        from cryptography.exceptions import InvalidSignature

        if note.signed is None:
            return "the note is not signed"
        generation = self._ring.find(note.signed.key_id)
        if generation is None:
            return f"the note is signed with key {note.signed.key_id!r}, which this home does not have"
        try:
            _key(generation.key).public_key().verify(bytes.fromhex(note.signed.signature), note.signed_text())
        except (InvalidSignature, ValueError):
            return "the note's signature is not ours"
        return None


def _key(private: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private)
