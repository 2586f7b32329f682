"""What retention asks of others: which events must stay, and a signature that is not the database's own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from twinraven.audit import AuditEntry, AuditRecord
from twinraven.muninn.retention.model import NoteSignature, RetentionNote
from twinraven.storage import Transaction


class SparedEvents(Protocol):
    """Knows which events something else still stands on."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Where that is written down; nobody writes there while sessions leave."""
        ...

    def event_ids(self, tx: Transaction, tenant_id: str) -> set[str]:
        """The events whose sessions must stay."""
        ...


class NoteSigner(Protocol):
    """Signs notes with a key that is not in the database."""

    def sign(self, note: RetentionNote) -> NoteSignature: ...

    def fault_of(self, note: RetentionNote) -> str | None:
        """Why a note's signature is not one of ours; None if it is."""
        ...


class Chronicle(Protocol):
    """The audit log, as far as retention writes to it."""

    def append(self, tx: Transaction, entry: AuditEntry) -> AuditRecord: ...

    def reseal_reads(
        self, tx: Transaction, tenant_id: str, removed: Collection[int], *, reason: str
    ) -> list[AuditRecord]:
        """Say, before they leave, that these arrivals leave the sealed ranges."""
        ...
