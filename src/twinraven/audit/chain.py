"""Computes and verifies the hash chain: binds each entry to the one before it and finds a broken link.

Each entry's hash covers all its fields, its number and the hash of its predecessor; the number of the last entry and
its hash are signed. So an edit breaks the entry, a deletion leaves a gap in the numbers, a reordering breaks the links,
and a truncation contradicts the signed head. Who rewrites the whole chain lacks the key; who restores an older chain
with its older head is found by an anchor that was kept outside.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from twinraven.audit.model import Anchor, AuditLogEvent, Fault, Head
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput

GENESIS = "0" * 64
"""What the first entry names as its predecessor."""


class ChainRow(NamedTuple):
    """One entry as stored, with its body where that is still there; the order of the columns is that of the hash."""

    tenant_id: str
    sequence: int
    id: str
    subject_type: str
    subject_id: str
    event_type: str
    actor_type: str
    actor_id: str | None
    timestamp: int
    correlation_id: str
    code: str | None
    message: str | None
    data_json: str
    body_hash: str | None
    previous_hash: str
    entry_hash: str
    salt: bytes | None
    body: bytes | None

    @property
    def hashed_fields(self) -> tuple[Any, ...]:
        return self[: ChainRow._fields.index("entry_hash")]


def hash_entry(fields: Sequence[Any]) -> str:
    """Return the hash of an entry: of everything up to and with its predecessor's hash."""
    return hashlib.sha256(b"twinraven.audit.entry.1\0" + canonical_json(list(fields))).hexdigest()


def hash_body(salt: bytes, body: bytes) -> str:
    """Hash a body with its salt, without which not even a short body can be guessed."""
    return hmac.digest(salt, b"twinraven.audit.body.1\0" + body, "sha256").hex()


@dataclass(frozen=True, slots=True)
class ReadSeal:
    """The seal of a range of recorded reads, `after` excluded and `through` included."""

    sequence: int
    after: int
    through: int
    count: int
    hash: str
    form: int


@dataclass(slots=True)
class ChainWalk:
    """Follows one tenant's chain from its first entry to its last and stops at the first fault."""

    tenant_id: str
    anchors: Sequence[Anchor] = ()
    entries: int = 0
    last_hash: str = GENESIS
    fault: Fault | None = None
    erased: set[str] = field(default_factory=set[str])
    bodiless: dict[str, int] = field(default_factory=dict[str, int])
    seals: dict[tuple[int, int], ReadSeal] = field(default_factory=dict[tuple[int, int], ReadSeal])

    def follow(self, rows: Iterable[ChainRow]) -> bool:
        """Take the next entries; False once there is a fault."""
        for row in rows:
            self.fault = self._fault_of(row) or self._take(row)
            if self.fault is not None:
                return False
        return True

    def close(self, head: Head | None, signature_fault: Callable[[Head], str | None]) -> None:
        """Hold the end of the chain against its head and the anchors."""
        if self.fault is None:
            self.fault = self._fault_at_end(head) or self._fault_of_head(head, signature_fault)

    def _fault_of(self, row: ChainRow) -> Fault | None:
        expected = self.entries + 1
        if row.sequence != expected:
            return Fault(expected, "missing", f"entry {expected} is not there; the next one is {row.sequence}")
        if hash_entry(row.hashed_fields) != row.entry_hash:
            return Fault(expected, "edited", "the entry does not match its own hash")
        if row.previous_hash != self.last_hash:
            return Fault(expected, "order", "the entry does not follow the one before it")
        if row.body is not None and not _matches(row):
            return Fault(expected, "body", "the entry's body is not the one it was appended with")
        for anchor in self.anchors:
            if anchor.head.sequence == expected and anchor.head.entry_hash != row.entry_hash:
                return Fault(expected, "anchor", "the anchor saw another entry here")
        return None

    def _take(self, row: ChainRow) -> Fault | None:
        self.entries += 1
        self.last_hash = row.entry_hash
        if row.body_hash is not None and row.body is None:
            self.bodiless[row.id] = row.sequence
        try:
            self._note(row)
        except (InvalidInput, KeyError, TypeError):
            # Only a chain that somebody wrote anew gets here; its head is not ours either, but this is where it begins.
            return Fault(row.sequence, "edited", f"the entry says {row.event_type} in a form the log never writes")
        return None

    def _note(self, row: ChainRow) -> None:
        if row.event_type == AuditLogEvent.BODIES_ERASED:
            self.erased.update(parse_json(row.data_json)["entry_ids"])
        elif row.event_type in (AuditLogEvent.READS_SEALED, AuditLogEvent.READS_RESEALED):
            seal = to_seal(row.sequence, parse_json(row.data_json))
            self.seals[seal.after, seal.through] = seal

    def _fault_at_end(self, head: Head | None) -> Fault | None:
        last = self.entries
        if head is None:
            return Fault(1, "head", "the chain has entries but no head") if last else self._fault_of_anchors()
        if head.sequence > last:
            return Fault(last + 1, "truncated", f"the head stands at {head.sequence}, the entries end at {last}")
        if head.sequence < last:
            why = f"there are entries up to {last} behind the head, which stands at {head.sequence}"
            return Fault(head.sequence + 1, "beyond_head", why)
        if head.entry_hash != self.last_hash:
            return Fault(last, "head", "the head does not name the last entry")
        return self._fault_of_anchors() or self._fault_of_bodies()

    def _fault_of_anchors(self) -> Fault | None:
        seen = max((anchor.head.sequence for anchor in self.anchors), default=0)
        if seen > self.entries:
            return Fault(self.entries + 1, "truncated", f"the anchor saw entry {seen}, the entries end before it")
        return None

    def _fault_of_bodies(self) -> Fault | None:
        lost = [sequence for entry_id, sequence in self.bodiless.items() if entry_id not in self.erased]
        return Fault(min(lost), "body", "the entry's body is gone, and no entry says it was erased") if lost else None

    def _fault_of_head(self, head: Head | None, signature_fault: Callable[[Head], str | None]) -> Fault | None:
        why = None if head is None else signature_fault(head)
        return None if head is None or why is None else Fault(head.sequence, "signature", why)


def to_seal(sequence: int, data: Any) -> ReadSeal:
    """Return a seal as its entry states it."""
    return ReadSeal(sequence, data["after"], data["through"], data["count"], data["hash"], data.get("form", 1))


def _matches(row: ChainRow) -> bool:
    return (
        row.salt is not None
        and row.body is not None
        and row.body_hash is not None
        and hash_body(row.salt, row.body) == row.body_hash
    )
