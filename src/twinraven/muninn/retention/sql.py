"""Selects and deletes pruned sessions in SQL, the same for both databases."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.muninn.retention.model import NoteSignature, RetentionNote
from twinraven.storage import Row, Transaction, chunks

LOG, VERDICTS, BLOBS = "muninn_event_log", "session_verdicts", "blobs"
WRITTEN_IN_ORDER = (BLOBS, LOG, VERDICTS)
"""Outputs before the events that name them, as the writer does."""

_AGED = (
    f"SELECT session_id, count(*) AS events FROM {LOG} WHERE tenant_id = :tenant AND session_id > :after "
    "GROUP BY session_id HAVING max(timestamp) < :cutoff ORDER BY session_id"
)
_NOTE = (
    "tenant_id",
    "note_id",
    "made_at",
    "cutoff",
    "sessions",
    "events",
    "verdicts",
    "outputs",
    "first_at",
    "last_at",
    "events_hash",
    "key_id",
    "signature",
)


class StoredEvent(NamedTuple):
    """The columns of an event that retention needs."""

    arrival: int
    event_id: str
    session_id: str
    timestamp: int
    output_hash: str | None


class AgedSession(NamedTuple):
    session_id: str
    events: int


class SampledByChains:
    """`SparedEvents`: those that stored chains name as their samples."""

    tables = ("candidate_chains",)

    def event_ids(self, tx: Transaction, tenant_id: str) -> set[str]:
        found: set[str] = set()
        sql = "SELECT sample_event_ids FROM candidate_chains WHERE tenant_id = :tenant"
        for batch in tx.stream(sql, tenant=tenant_id):
            for (samples,) in batch:
                found.update(orjson.loads(samples))
        return found


def aged_sessions(tx: Transaction, tenant_id: str, cutoff: int, *, after: str, events: int) -> list[AgedSession]:
    """Sessions whose last event is older, by id, until they have so many events together; at least one."""
    chosen: list[AgedSession] = []
    total = 0
    for batch in tx.stream(_AGED, batch=1000, tenant=tenant_id, cutoff=cutoff, after=after):
        for session_id, count in batch:
            if chosen and total + count > events:
                return chosen
            chosen.append(AgedSession(session_id, count))
            total += count
    return chosen


def events_of(tx: Transaction, tenant_id: str, session_ids: Iterable[str]) -> Iterator[list[StoredEvent]]:
    """Yield the events of each session."""
    sql = (
        f"SELECT arrival, event_id, session_id, timestamp, output_hash FROM {LOG} "
        "WHERE tenant_id = :tenant AND session_id = :session ORDER BY timestamp, arrival"
    )
    for session_id in session_ids:
        yield [StoredEvent(**row) for row in tx.fetch_all(sql, tenant=tenant_id, session=session_id)]


def outputs_kept(
    tx: Transaction, tenant_id: str, leaving: Container[str], hashes: Container[str], *, through: int
) -> set[str]:
    """Return which of these outputs a remaining session refers to; one pass over the log up to an arrival."""
    sql = (
        f"SELECT session_id, output_hash FROM {LOG} "
        "WHERE tenant_id = :tenant AND arrival <= :through AND output_hash IS NOT NULL"
    )
    kept: set[str] = set()
    for batch in tx.stream(sql, tenant=tenant_id, through=through):
        kept.update(hashed for session, hashed in batch if hashed in hashes and session not in leaving)
    return kept


def outputs_named_since(tx: Transaction, tenant_id: str, arrival: int) -> set[str]:
    """Return the outputs that events stored after an arrival refer to."""
    # The tenant is compared as an expression: its index would lead through the whole log, the arrival does not.
    sql = (
        f"SELECT DISTINCT output_hash FROM {LOG} "
        "WHERE arrival > :arrival AND tenant_id || '' = :tenant AND output_hash IS NOT NULL"
    )
    return {row["output_hash"] for row in tx.fetch_all(sql, tenant=tenant_id, arrival=arrival)}


def delete_sessions(tx: Transaction, tenant_id: str, session_ids: Iterable[str]) -> tuple[int, int]:
    """Remove sessions' events and verdicts; says how many of each."""
    events = verdicts = 0
    for session_id in session_ids:
        where = "WHERE tenant_id = :tenant AND session_id = :session"
        events += tx.execute(f"DELETE FROM {LOG} {where}", tenant=tenant_id, session=session_id)
        verdicts += tx.execute(f"DELETE FROM {VERDICTS} {where}", tenant=tenant_id, session=session_id)
    return events, verdicts


def delete_outputs(tx: Transaction, tenant_id: str, hashes: Iterable[str]) -> int:
    """Remove outputs; says how many were there."""
    removed = 0
    for part in chunks(sorted(hashes), 500):
        present = tx.present(BLOBS, "hash", part, tenant_id=tenant_id)
        removed += len(present)
        tx.execute_many(f"DELETE FROM {BLOBS} WHERE tenant_id = ? AND hash = ?", [(tenant_id, key) for key in part])
    return removed


def add_note(tx: Transaction, note: RetentionNote) -> None:
    signed = note.signed
    row: tuple[Any, ...] = (
        note.tenant_id,
        note.note_id,
        to_micros(note.made_at),
        to_micros(note.cutoff),
        note.sessions,
        note.events,
        note.verdicts,
        note.outputs,
        to_micros(note.first_at),
        to_micros(note.last_at),
        note.events_hash,
        None if signed is None else signed.key_id,
        None if signed is None else signed.signature,
    )
    tx.insert_rows("retention_notes", _NOTE, [row])


def notes_of(tx: Transaction, tenant_id: str, *, limit: int) -> list[RetentionNote]:
    """Return the retention notes, the newest first."""
    sql = (
        f"SELECT {', '.join(_NOTE)} FROM retention_notes WHERE tenant_id = :tenant "
        "ORDER BY made_at DESC, note_id LIMIT :limit"
    )
    return [_to_note(row) for row in tx.fetch_all(sql, tenant=tenant_id, limit=limit)]


def _to_note(row: Row) -> RetentionNote:
    facts: dict[str, Any] = {name: row[name] for name in _NOTE if name not in ("key_id", "signature")}
    facts |= {name: from_micros(row[name]) for name in ("made_at", "cutoff", "first_at", "last_at")}
    signed = None if row["signature"] is None else NoteSignature(row["key_id"], row["signature"])
    return RetentionNote(**facts, signed=signed)
