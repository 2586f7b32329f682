"""Declares the port to the audit tables; each method runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from twinraven.audit.chain import ChainRow
from twinraven.audit.model import AuditFilter, AuditRecord, Head
from twinraven.storage import Transaction


class ChainEnd(NamedTuple):
    """The end of the chain, after which the next entry is appended."""

    sequence: int
    entry_hash: str


class AuditStore(Protocol):
    """One tenant's chain."""

    def lock_end(self, tx: Transaction, tenant_id: str) -> ChainEnd:
        """Return the end of the chain, held by this transaction until it ends, so that chains stay linear."""
        ...

    def add(self, tx: Transaction, row: ChainRow) -> None:
        """Insert an entry and, where it has one, its body."""
        ...

    def set_head(self, tx: Transaction, head: Head) -> None: ...

    def head(self, tx: Transaction, tenant_id: str) -> Head | None: ...

    def chain(self, tx: Transaction, tenant_id: str) -> Iterator[list[ChainRow]]:
        """Return every entry in order, with the bodies that are there, a batch at a time."""
        ...

    def entries(self, tx: Transaction, tenant_id: str, where: AuditFilter) -> list[AuditRecord]: ...

    def entry(self, tx: Transaction, tenant_id: str, entry_id: str) -> AuditRecord | None:
        """Return one entry with its body."""
        ...

    def about(
        self, tx: Transaction, tenant_id: str, subject_type: str, subject_ids: Sequence[str]
    ) -> dict[str, list[Mapping[str, Any]]]:
        """Return the data of the entries about each of these subjects."""
        ...

    def last_of(self, tx: Transaction, tenant_id: str, event_type: str) -> AuditRecord | None:
        """Return the newest entry of a kind."""
        ...

    def with_bodies(self, tx: Transaction, tenant_id: str, entry_ids: Sequence[str]) -> set[str]:
        """Return which of these entries have a body that was not erased."""
        ...

    def erase_bodies(self, tx: Transaction, tenant_id: str, entry_ids: Sequence[str]) -> None: ...
