"""Declares the ports of retention: the events that must stay, the note signer, and the audit log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from twinraven.audit import AuditRecord, NewAuditEntry
from twinraven.muninn.retention.model import NoteSignature, RetentionNote
from twinraven.storage import Transaction


class SparedEvents(Protocol):
    """Knows which events something else still stands on."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that name spared events, locked against writes while sessions are removed."""
        ...

    def event_ids(self, tx: Transaction, tenant_id: str) -> set[str]:
        """Return the events whose sessions must stay."""
        ...


class NoteSigner(Protocol):
    """Signs notes with a key that is not in the database."""

    def sign(self, note: RetentionNote) -> NoteSignature: ...

    def fault_of(self, note: RetentionNote) -> str | None:
        """Why a note's signature is not one of ours; None if it is."""
        ...


class RetentionAudit(Protocol):
    """The audit log, as far as retention writes to it."""

    def append(self, tx: Transaction, entry: NewAuditEntry) -> AuditRecord: ...

    def reseal_reads(
        self, tx: Transaction, tenant_id: str, removed: Collection[int], *, reason: str
    ) -> list[AuditRecord]:
        """Say, before they leave, that these arrivals leave the sealed ranges."""
        ...
