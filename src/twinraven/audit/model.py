"""Models audit entries, the head of the chain, anchors, and the report of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from twinraven.foundation.actors import SYSTEM, Actor, ActorType
from twinraven.foundation.clock import iso
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.ids import new_id

RecordedActorType = ActorType | Literal["human", "external_node"]
"""The four kinds of actors, and the words that entries from before agents were told apart keep: their hash covers them.

Such an entry says "human" of whoever came through a door, an agent too.
"""


class AuditLogEvent(StrEnum):
    """The events the log writes about itself; every context names its own."""

    BODIES_ERASED = "audit.bodies_erased"
    READS_SEALED = "audit.reads_sealed"
    READS_RESEALED = "audit.reads_resealed"


@dataclass(frozen=True, slots=True)
class NewAuditEntry:
    """An audit entry before it is appended.

    `data`, `code` and `message` stay for ever: ids, amounts, decisions. What may have to be erased one day (arguments,
    names, free text of people) goes into `body`.
    """

    tenant_id: str
    event_type: str
    subject_type: str
    subject_id: str
    actor: Actor = SYSTEM
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Any = None
    code: str | None = None
    message: str | None = None
    correlation_id: str = field(default_factory=correlation_or_new)
    id: str = field(default_factory=new_id)
    timestamp: datetime | None = None
    """When it happened; None is when it is appended, by the log's clock."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry as it stands in the chain."""

    tenant_id: str
    sequence: int
    id: str
    subject_type: str
    subject_id: str
    event_type: str
    actor_type: RecordedActorType
    actor_id: str | None
    timestamp: datetime
    correlation_id: str
    code: str | None
    message: str | None
    data: Mapping[str, Any]
    body_hash: str | None
    previous_hash: str
    entry_hash: str
    body: Any = None
    """Read with the entry where it was asked for and has not been erased."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "tenant_id": self.tenant_id,
            "sequence": self.sequence,
            "subject_type": self.subject_type,
            "subject_id": self.subject_id,
            "event_type": self.event_type,
            "actor_type": self.actor_type,
            "actor_id": self.actor_id,
            "timestamp": iso(self.timestamp),
            "correlation_id": self.correlation_id,
            "code": self.code,
            "message": self.message,
            "data_json": dict(self.data),
            "body": self.body,
            "body_hash": self.body_hash,
            "previous_hash": self.previous_hash,
            "entry_hash": self.entry_hash,
        }


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a chain, signed with a key that is not in the database."""

    tenant_id: str
    sequence: int
    entry_hash: str
    signed_at: int
    key_id: str
    signature: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head kept outside: what the chain said at that time, it must still say."""

    head: Head
    public_key: str


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filters audit entries for a list."""

    subject_type: str | None = None
    subject_id: str | None = None
    event_type: str | None = None
    actor_id: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Entries from `since` on and before `until`."""
    after_sequence: int | None = None
    before_sequence: int | None = None
    limit: int = 100
    newest_first: bool = False


FaultKind = Literal[
    "edited", "missing", "order", "truncated", "beyond_head", "head", "signature", "body", "anchor", "reads"
]


@dataclass(frozen=True, slots=True)
class Fault:
    """The first place where a chain is not what it was."""

    sequence: int
    kind: FaultKind
    why: str


@dataclass(frozen=True, slots=True)
class UnlinkedEffect:
    """An effect that was sent, or may have been, and that no audit entry links to its origin."""

    subject_type: str
    subject_id: str
    status: str

    def as_json(self) -> dict[str, Any]:
        return {"subject_type": self.subject_type, "subject_id": self.subject_id, "status": self.status}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The report of a verification of one tenant's chain."""

    tenant_id: str
    entries: int
    head: Head | None
    erased_bodies: int
    sealed_reads: int
    fault: Fault | None
    unlinked: tuple[UnlinkedEffect, ...] = ()
    """Effects without an entry that links them to their task and their decision."""

    @property
    def ok(self) -> bool:
        return self.fault is None and not self.unlinked

    def as_json(self) -> dict[str, Any]:
        fault = self.fault
        return {
            "tenant_id": self.tenant_id,
            "ok": self.ok,
            "entries": self.entries,
            "head_sequence": None if self.head is None else self.head.sequence,
            "head_hash": None if self.head is None else self.head.entry_hash,
            "erased_bodies": self.erased_bodies,
            "sealed_reads": self.sealed_reads,
            "first_bad_sequence": None if fault is None else fault.sequence,
            "kind": None if fault is None else fault.kind,
            "why": None if fault is None else fault.why,
            "unlinked_effects": [effect.as_json() for effect in self.unlinked],
        }
