"""Prunes sessions in rounds and batches.

A round looks, without holding anybody up, for sessions that are old enough and for the outputs that only they refer to.
Its batches then remove a few sessions each, in short transactions that look again before they act: a session that got
another event meanwhile stays, an output that somebody else began to refer to stays too. An output leaves with the last
event that names it, in the same transaction, so nothing is ever left over or missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from twinraven.audit import NewAuditEntry
from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import InvalidInput, StorageBusy
from twinraven.foundation.ids import new_id
from twinraven.muninn.hourly_sql import folded_part, unfold
from twinraven.muninn.retention.model import RetentionNote, RetentionReport, hash_events
from twinraven.muninn.retention.ports import NoteSigner, RetentionAudit, SparedEvents
from twinraven.muninn.retention.sql import (
    LOG,
    VERDICTS,
    WRITTEN_IN_ORDER,
    AgedSession,
    SampledByChains,
    StoredEvent,
    add_note,
    aged_sessions,
    delete_outputs,
    delete_sessions,
    events_of,
    notes_of,
    outputs_kept,
    outputs_named_since,
)
from twinraven.storage import (
    Connection,
    Database,
    Transaction,
    clear_residue,
    lifted,
    maintained,
    pruning,
    settled_arrival,
)

ROUND_EVENTS = 200_000
BATCH_EVENTS = 2_000
PRUNED = "muninn.sessions_pruned"
_RACES = 5

Progress = Callable[[int], None]
"""Told how many events have left."""


@dataclass(slots=True)
class _Round:
    """Sessions that may leave, and what is known of their outputs."""

    sessions: list[AgedSession]
    settled: int
    """Up to which arrival the log was looked at."""
    outputs: dict[str, list[str]]
    """What the events of each session name."""
    kept: set[str]
    """Outputs that sessions outside the round name too."""
    named: Counter[str] = field(default_factory=Counter[str])
    """How many events of the round that are still there name an output."""

    def __post_init__(self) -> None:
        self.named.update(hashed for hashes in self.outputs.values() for hashed in hashes)

    def forget(self, session_ids: Iterable[str]) -> None:
        """These sessions are gone."""
        for session_id in session_ids:
            self.named.subtract(self.outputs.pop(session_id, ()))

    def batches(self, events: int) -> Iterator[list[str]]:
        batch: list[str] = []
        total = 0
        for session in self.sessions:
            if batch and total + session.events > events:
                yield batch
                batch, total = [], 0
            batch.append(session.session_id)
            total += session.events
        if batch:
            yield batch


@dataclass(slots=True)
class _Found:
    """What became of a batch's sessions when the transaction looked at them."""

    leaving: list[StoredEvent] = field(default_factory=list[StoredEvent])
    gone: list[str] = field(default_factory=list[str])
    spared: int = 0


class Retention:
    """Takes whole sessions out of one tenant's log."""

    def __init__(
        self,
        database: Database,
        *,
        audit: RetentionAudit | None = None,
        signer: NoteSigner | None = None,
        spared: SparedEvents | None = None,
        micros: Callable[[], int] = now_micros,
        batch_events: int = BATCH_EVENTS,
    ) -> None:
        self._database = maintained(database)
        self._audit = audit
        self._signer = signer
        self._spared = spared or SampledByChains()
        self._micros = micros
        self._batch_events = batch_events

    async def preview(self, tenant_id: str, *, days: int) -> RetentionReport:
        """Report what `run` would remove now; outputs and verdicts are not counted."""
        report = RetentionReport(self._cutoff(days))

        def work(tx: Transaction) -> None:
            spared = self._spared.event_ids(tx, tenant_id)
            aged = aged_sessions(tx, tenant_id, to_micros(report.cutoff), after="", events=2**62)
            for events in events_of(tx, tenant_id, [session.session_id for session in aged]):
                if spared.isdisjoint(event.event_id for event in events):
                    report.sessions += 1
                    report.events += len(events)
                else:
                    report.spared += 1

        await self._database.read(tenant_id, work)
        return report

    async def run(
        self, tenant_id: str, *, days: int, compact: bool = True, progress: Progress | None = None
    ) -> RetentionReport:
        """Remove the sessions whose last event is older than so many days; `compact` also writes a SQLite file anew."""
        report = RetentionReport(self._cutoff(days))
        connection = self._database.maintenance()
        after = ""
        try:
            while chosen := await self._look(tenant_id, report.cutoff, after):
                for session_ids in chosen.batches(self._batch_events):
                    await asyncio.to_thread(self._prune, connection, tenant_id, session_ids, chosen, report)
                    if progress is not None:
                        progress(report.events)
                after = chosen.sessions[-1].session_id
        finally:
            connection.close()
        if report.notes:
            clear = partial(clear_residue, self._database, compact=compact)
            report.residue_cleared = await asyncio.to_thread(clear)
        return report

    async def notes(self, tenant_id: str, *, limit: int = 100) -> list[RetentionNote]:
        """Return the retention notes, the newest first."""
        return await self._database.read(tenant_id, lambda tx: notes_of(tx, tenant_id, limit=limit))

    def fault_of(self, note: RetentionNote) -> str | None:
        """Why a note cannot be trusted; None if it can."""
        return "there is no key to check it with" if self._signer is None else self._signer.fault_of(note)

    def _cutoff(self, days: int) -> datetime:
        if days < 1:
            raise InvalidInput(f"days must be at least 1, it is {days}", field="days")
        try:
            return from_micros(self._micros()) - timedelta(days=days)
        except OverflowError:
            raise InvalidInput(f"{days} days ago nobody counted days", field="days") from None

    async def _look(self, tenant_id: str, cutoff: datetime, after: str) -> _Round | None:
        settled = await settled_arrival(self._database, tenant_id, LOG)

        def work(tx: Transaction) -> _Round | None:
            sessions = aged_sessions(tx, tenant_id, to_micros(cutoff), after=after, events=ROUND_EVENTS)
            if not sessions:
                return None
            outputs = {
                session.session_id: [event.output_hash for event in events if event.output_hash]
                for session, events in zip(
                    sessions, events_of(tx, tenant_id, (session.session_id for session in sessions)), strict=True
                )
            }
            hashes = {hashed for named in outputs.values() for hashed in named}
            kept = outputs_kept(tx, tenant_id, outputs, hashes, through=settled) if hashes else hashes
            return _Round(sessions, settled, outputs, kept)

        return await self._database.read(tenant_id, work)

    def _prune(
        self, connection: Connection, tenant_id: str, session_ids: list[str], chosen: _Round, report: RetentionReport
    ) -> None:
        found, note = self._try(connection, tenant_id, session_ids, chosen, report.cutoff)
        report.spared += found.spared
        chosen.forget((*found.gone, *(event.session_id for event in found.leaving)))
        if note is not None:
            report.add(note)

    def _try(
        self, connection: Connection, tenant_id: str, session_ids: list[str], chosen: _Round, cutoff: datetime
    ) -> tuple[_Found, RetentionNote | None]:
        """Return one transaction, begun again where the store asks for it."""
        tables = (*WRITTEN_IN_ORDER, *self._spared.tables)
        races = 0
        while True:
            try:
                with pruning(connection, tenant_id, tables=tables) as tx:
                    found = self._look_again(tx, tenant_id, session_ids, chosen, cutoff)
                    note = self._remove(tx, tenant_id, found, chosen, cutoff) if found.leaving else None
                return found, note
            except StorageBusy:
                races += 1
                if races == _RACES:
                    raise

    def _look_again(
        self, tx: Transaction, tenant_id: str, session_ids: list[str], chosen: _Round, cutoff: datetime
    ) -> _Found:
        """Return what of a batch may be removed now that no other transaction can write."""
        spared = self._spared.event_ids(tx, tenant_id)
        found = _Found()
        for session_id, events in zip(session_ids, events_of(tx, tenant_id, session_ids), strict=True):
            if not events:
                found.gone.append(session_id)
            elif not spared.isdisjoint(event.event_id for event in events):
                found.spared += 1
            elif events[-1].timestamp < to_micros(cutoff) and all(event.arrival <= chosen.settled for event in events):
                found.leaving.extend(events)
        return found

    def _remove(
        self, tx: Transaction, tenant_id: str, found: _Found, chosen: _Round, cutoff: datetime
    ) -> RetentionNote:
        leaving = found.leaving
        reason = f"retention: sessions whose last call was before {cutoff:%Y-%m-%d %H:%M:%S} UTC"
        if self._audit is not None:
            self._audit.reseal_reads(tx, tenant_id, {event.arrival for event in leaving}, reason=reason)
        session_ids = dict.fromkeys(event.session_id for event in leaving)
        rolled_up = folded_part(tx, tenant_id, session_ids)
        with lifted(tx, LOG, VERDICTS):
            _, verdicts = delete_sessions(tx, tenant_id, session_ids)
        unfold(tx, tenant_id, rolled_up)
        outputs = delete_outputs(tx, tenant_id, _unnamed(tx, tenant_id, found, chosen))
        note = RetentionNote(
            tenant_id=tenant_id,
            note_id=new_id(),
            made_at=from_micros(self._micros()),
            cutoff=cutoff,
            sessions=len(session_ids),
            events=len(leaving),
            verdicts=verdicts,
            outputs=outputs,
            first_at=from_micros(min(event.timestamp for event in leaving)),
            last_at=from_micros(max(event.timestamp for event in leaving)),
            events_hash=hash_events(event.event_id for event in leaving),
        )
        if self._signer is not None:
            note = replace(note, signed=self._signer.sign(note))
        add_note(tx, note)
        if self._audit is not None:
            data = {name: value for name, value in note.as_json().items() if name not in ("key_id", "signature")}
            self._audit.append(tx, NewAuditEntry(tenant_id, PRUNED, "retention_note", note.note_id, data=data))
        return note


def _unnamed(tx: Transaction, tenant_id: str, found: _Found, chosen: _Round) -> set[str]:
    """Return the outputs that no event names any more, now that these have left."""
    gone = Counter(event.output_hash for event in found.leaving if event.output_hash)
    for session_id in found.gone:
        gone.update(chosen.outputs.get(session_id, ()))
    last = {hashed for hashed, count in gone.items() if hashed not in chosen.kept and chosen.named[hashed] <= count}
    return last - outputs_named_since(tx, tenant_id, chosen.settled) if last else last
