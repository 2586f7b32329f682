"""Models retention notes and reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.clock import iso, to_micros


class NoteSignature(NamedTuple):
    """The signature of a note in hex, and the id of its key."""

    key_id: str
    signature: str


@dataclass(frozen=True, slots=True)
class RetentionNote:
    """One batch of sessions that left together."""

    tenant_id: str
    note_id: str
    made_at: datetime
    cutoff: datetime
    sessions: int
    events: int
    verdicts: int
    outputs: int
    first_at: datetime
    last_at: datetime
    events_hash: str
    signed: NoteSignature | None = None

    def signed_text(self) -> bytes:
        """Return the signed bytes: every fact of the note, under a name that no other signature uses."""
        facts = (self.note_id, self.sessions, self.events, self.verdicts, self.outputs, self.events_hash)
        times = map(to_micros, (self.made_at, self.cutoff, self.first_at, self.last_at))
        return b"twinraven.retention.note.1\0" + canonical_json([self.tenant_id, *facts, *times])

    def as_json(self) -> dict[str, Any]:
        return {
            "note_id": self.note_id,
            "made_at": iso(self.made_at),
            "cutoff": iso(self.cutoff),
            "sessions": self.sessions,
            "events": self.events,
            "verdicts": self.verdicts,
            "outputs": self.outputs,
            "first_at": iso(self.first_at),
            "last_at": iso(self.last_at),
            "events_hash": self.events_hash,
            "key_id": None if self.signed is None else self.signed.key_id,
            "signature": None if self.signed is None else self.signed.signature,
        }


@dataclass(slots=True)
class RetentionReport:
    """The report of a pruning, or of a dry run."""

    cutoff: datetime
    sessions: int = 0
    events: int = 0
    verdicts: int = 0
    outputs: int = 0
    spared: int = 0
    """Sessions that are old enough and stay, because a stored chain samples them."""
    residue_cleared: bool = True
    """False where a lock was in the way, and residue may still be in SQLite's file or its log."""
    notes: list[RetentionNote] = field(default_factory=list[RetentionNote])

    def add(self, note: RetentionNote) -> None:
        self.notes.append(note)
        self.sessions += note.sessions
        self.events += note.events
        self.verdicts += note.verdicts
        self.outputs += note.outputs

    def as_json(self) -> dict[str, Any]:
        return {
            "cutoff": iso(self.cutoff),
            "sessions": self.sessions,
            "events": self.events,
            "verdicts": self.verdicts,
            "outputs": self.outputs,
            "spared": self.spared,
            "residue_cleared": self.residue_cleared,
            "notes": [note.note_id for note in self.notes],
        }


def hash_events(event_ids: Iterable[str]) -> str:
    """SHA-256 over the sorted ids, one a line: anyone who has the events can compute it."""
    return hashlib.sha256("".join(f"{event_id}\n" for event_id in sorted(event_ids)).encode()).hexdigest()
