"""Appends to the audit log inside the caller's transaction, and verifies the chain.

`append` takes the caller's transaction, so an effect and its entry are stored together or not at all. It holds the end
of the tenant's chain until that transaction ends: call it last. Everything is redacted before it is hashed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from twinraven.audit.chain import ChainRow, ChainWalk, hash_body, hash_entry, to_seal
from twinraven.audit.model import (
    Anchor,
    AuditFilter,
    AuditLogEvent,
    AuditRecord,
    Fault,
    Head,
    NewAuditEntry,
    UnlinkedEffect,
    VerifyReport,
)
from twinraven.audit.reads import LOG, digest_range
from twinraven.audit.signing import Signer, read_anchors, write_anchor
from twinraven.audit.sql import SqlAuditStore
from twinraven.audit.store import AuditStore
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.canonical import canonical_json, parse_json, to_json_value
from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.storage import Database, Transaction, settled_arrival

T = TypeVar("T")
LinkCheck = Callable[[Transaction, str], Iterable[UnlinkedEffect]]
"""Names the effects of a tenant that no entry links to their origin."""
KnownOf = Callable[[Transaction], Mapping[str, Any]]

SEAL_AT_MOST = 50_000
_SALT_BYTES = 32
_LONGEST_NAME = 500


class AuditLog:
    """One hash chain per tenant."""

    def __init__(
        self,
        database: Database,
        signer: Signer,
        *,
        redact: Redact = keep_everything,
        redact_names: Redact | None = None,
        store: AuditStore | None = None,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._signer = signer
        self._redact = redact
        self._redact_names = redact_names or redact
        self._store = store or SqlAuditStore()
        self._micros = micros
        self._links: list[LinkCheck] = []

    def register_links(self, check: LinkCheck) -> None:
        """Register a callback by which `verify` finds effects that no entry links to their origin."""
        self._links.append(check)

    def about(
        self, tx: Transaction, tenant_id: str, subject_type: str, subject_ids: Sequence[str]
    ) -> dict[str, list[Mapping[str, Any]]]:
        """Return the entries about each of these subjects, by subject."""
        return self._store.about(tx, tenant_id, subject_type, subject_ids)

    def append(self, tx: Transaction, entry: NewAuditEntry) -> AuditRecord:
        """Add an entry inside the caller's transaction; if this fails, so must that."""
        fields = self._clean(entry)
        end = self._store.lock_end(tx, entry.tenant_id)
        unlinked = fields._replace(sequence=end.sequence + 1, previous_hash=end.entry_hash)
        row = unlinked._replace(entry_hash=hash_entry(unlinked.hashed_fields))
        self._store.add(tx, row)
        self._store.set_head(tx, self._signer.sign(row.tenant_id, row.sequence, row.entry_hash))
        return _to_record(row, entry)

    def records(self, tx: Transaction, tenant_id: str, where: AuditFilter) -> list[AuditRecord]:
        """Entries without their bodies, inside the caller's transaction."""
        return self._store.entries(tx, tenant_id, where)

    def look(self, tx: Transaction, tenant_id: str, entry_id: str) -> AuditRecord | None:
        """Return one entry inside the caller's transaction, or None."""
        return self._store.entry(tx, tenant_id, entry_id)

    async def write(self, entry: NewAuditEntry, *, known: KnownOf | None = None) -> AuditRecord:
        """Add an entry that stands for itself, such as a refusal, in a transaction of its own.

        `known` looks up what else is to stand in its data, in that transaction.
        """

        def work(tx: Transaction) -> AuditRecord:
            whole = entry if known is None else replace(entry, data={**known(tx), **entry.data})
            return self.append(tx, whole)

        return await self._database.write(entry.tenant_id, work)

    async def entries(self, tenant_id: str, where: AuditFilter | None = None) -> list[AuditRecord]:
        """Entries without their bodies."""
        chosen = where or AuditFilter()
        return await self._database.read(tenant_id, lambda tx: self._store.entries(tx, tenant_id, chosen))

    async def entry(self, tenant_id: str, entry_id: str) -> AuditRecord:
        """Return one entry with its body."""
        found = await self._database.read(tenant_id, lambda tx: self._store.entry(tx, tenant_id, entry_id))
        if found is None:
            raise NotFound(f"no audit entry {entry_id!r}", entry_id=entry_id)
        return found

    async def head(self, tenant_id: str) -> Head | None:
        """Return the signed head; None as long as nothing was appended."""
        return await self._database.read(tenant_id, lambda tx: self._store.head(tx, tenant_id))

    async def anchor(self, tenant_id: str, path: Path) -> Anchor:
        """Write the signed head to a file that should lie where this machine's intruders cannot reach."""
        head = await self.head(tenant_id)
        if head is None:
            raise NotFound(f"tenant {tenant_id!r} has no audit entries yet", tenant_id=tenant_id)
        fault = self._signer.fault_of(head)
        if fault is not None:
            raise Conflict(f"the head cannot be anchored: {fault}; run `twinraven audit verify`")
        anchor = self._signer.anchor(head)
        await _off_the_loop(lambda: write_anchor(path, anchor))
        return anchor

    async def verify(self, tenant_id: str, *, anchor: Path | None = None, reads: bool = True) -> VerifyReport:
        """Follow the whole chain and say where it first departs from what was appended."""
        anchors = () if anchor is None else await _off_the_loop(lambda: read_anchors(anchor, tenant_id))

        def work(tx: Transaction) -> VerifyReport:
            report = self._verify(tx, tenant_id, anchors, reads=reads)
            return replace(report, unlinked=tuple(each for check in self._links for each in check(tx, tenant_id)))

        return await self._database.read(tenant_id, work)

    async def erase(
        self,
        tenant_id: str,
        entry_ids: Collection[str],
        *,
        reason: str,
        actor: Actor = SYSTEM,
        correlation_id: str | None = None,
    ) -> AuditRecord:
        """Remove bodies and salts for good, from the files too; the entries, and this one about it, stay."""
        if not reason.strip():
            raise InvalidInput("reason must say why the bodies are erased", field="reason")
        wanted = sorted(set(entry_ids))

        def work(tx: Transaction) -> AuditRecord:
            missing = set(wanted) - self._store.with_bodies(tx, tenant_id, wanted)
            if missing or not wanted:
                raise NotFound("some of these entries have no body to erase", entry_ids=sorted(missing))
            entry = NewAuditEntry(
                tenant_id,
                AuditLogEvent.BODIES_ERASED,
                "audit_log",
                wanted[0] if len(wanted) == 1 else tenant_id,
                actor,
                data={"entry_ids": wanted},
                message=reason,
                correlation_id=correlation_id or new_id(),
            )
            record = self.append(tx, entry)
            self._store.erase_bodies(tx, tenant_id, wanted)
            return record

        record = await self._database.write(tenant_id, work)
        await _off_the_loop(self._clear_residue)
        return record

    async def seal_reads(self, tenant_id: str, *, at_most: int = SEAL_AT_MOST) -> AuditRecord | None:
        """Seal the calls remembered since the last seal; None when there are none. Call until it says None."""
        settled = await settled_arrival(self._database, tenant_id, LOG)
        after = await self._database.read(tenant_id, lambda tx: self._sealed_through(tx, tenant_id))
        digest = await self._database.read(
            tenant_id, lambda tx: digest_range(tx, tenant_id, after=after, through=settled, limit=at_most)
        )
        if digest.count == 0:
            return None

        def work(tx: Transaction) -> AuditRecord | None:
            if self._sealed_through(tx, tenant_id) != after:
                return None
            entry = NewAuditEntry(tenant_id, AuditLogEvent.READS_SEALED, "events", tenant_id, data=digest.as_data())
            return self.append(tx, entry)

        return await self._database.write(tenant_id, work)

    def reseal_reads(
        self, tx: Transaction, tenant_id: str, removed: Collection[int], *, reason: str
    ) -> list[AuditRecord]:
        """Say, inside the transaction that will remove them, that these arrivals leave the sealed ranges."""
        arrivals = frozenset(removed)
        walk = self._walk(tx, tenant_id, ())
        records: list[AuditRecord] = []
        for seal in walk.seals.values():
            leaving = sum(1 for arrival in arrivals if seal.after < arrival <= seal.through)
            if not leaving:
                continue
            now = digest_range(tx, tenant_id, after=seal.after, through=seal.through, form=seal.form)
            if (now.count, now.hash) != (seal.count, seal.hash):
                raise Conflict(f"the calls sealed by entry {seal.sequence} are not what they were; nothing was removed")
            rest = digest_range(tx, tenant_id, after=seal.after, through=seal.through, form=seal.form, without=arrivals)
            data = rest.as_data() | {"removed": now.count - rest.count, "seal": seal.sequence}
            records.append(
                self.append(
                    tx,
                    NewAuditEntry(
                        tenant_id, AuditLogEvent.READS_RESEALED, "events", tenant_id, data=data, message=reason
                    ),
                )
            )
        return records

    def _clear_residue(self) -> None:
        """What was erased must not be read from the store's own log either."""
        import logging

        from twinraven.storage import clear_residue

        if not clear_residue(self._database, compact=False):
            logging.getLogger(__name__).warning(
                "erased bodies stay in the write-ahead log until it is emptied: somebody was reading all the while"
            )

    def _clean(self, entry: NewAuditEntry) -> ChainRow:
        """Return the entry as it will be stored, all but its place in the chain."""
        for name in ("tenant_id", "event_type", "subject_type", "subject_id", "correlation_id", "id"):
            _check_name(getattr(entry, name), name)
        actor = entry.actor
        if actor.id is not None:
            _check_name(actor.id, "actor_id")
        body = None if entry.body is None else self._redacted(entry.tenant_id, entry.body)
        salt = None if body is None else os.urandom(_SALT_BYTES)
        return ChainRow(
            tenant_id=entry.tenant_id,
            sequence=0,
            id=entry.id,
            subject_type=entry.subject_type,
            subject_id=self._clean_name(entry.tenant_id, entry.subject_id),
            event_type=entry.event_type,
            actor_type=actor.type,
            actor_id=None if actor.id is None else self._clean_name(entry.tenant_id, actor.id),
            timestamp=self._micros() if entry.timestamp is None else to_micros(entry.timestamp),
            correlation_id=self._clean_name(entry.tenant_id, entry.correlation_id),
            code=entry.code,
            message=None if entry.message is None else self._redacted_text(entry.tenant_id, entry.message),
            data_json=self._redacted(entry.tenant_id, dict(entry.data)).decode(),
            body_hash=None if salt is None or body is None else hash_body(salt, body),
            previous_hash="",
            entry_hash="",
            salt=salt,
            body=body,
        )

    def _clean_name(self, tenant_id: str, name: str) -> str:
        raw = name.encode("utf-8", "replace")
        cleaned = self._redact_names(tenant_id, raw)
        return name if cleaned is raw else cleaned.decode("utf-8", "replace")

    def _redacted(self, tenant_id: str, value: Any) -> bytes:
        return self._redact(tenant_id, canonical_json(to_json_value(value)))

    def _redacted_text(self, tenant_id: str, text: str) -> str:
        cleaned = parse_json(self._redacted(tenant_id, text), field="message")
        return str(cleaned).replace("\0", "\ufffd")

    def _sealed_through(self, tx: Transaction, tenant_id: str) -> int:
        last = self._store.last_of(tx, tenant_id, AuditLogEvent.READS_SEALED)
        return 0 if last is None else to_seal(last.sequence, last.data).through

    def _walk(self, tx: Transaction, tenant_id: str, anchors: Sequence[Anchor]) -> ChainWalk:
        walk = ChainWalk(tenant_id, anchors)
        for batch in self._store.chain(tx, tenant_id):
            if not walk.follow(batch):
                break
        return walk

    def _verify(self, tx: Transaction, tenant_id: str, anchors: Sequence[Anchor], *, reads: bool) -> VerifyReport:
        head = self._store.head(tx, tenant_id)
        walk = self._walk(tx, tenant_id, anchors)
        walk.close(head, self._signer.fault_of)
        fault = walk.fault or self._fault_of_anchors(anchors) or self._fault_of_erasures(tx, walk)
        if fault is None and reads:
            fault = _fault_of_reads(tx, walk)
        sealed = sum(seal.count for seal in walk.seals.values())
        return VerifyReport(tenant_id, walk.entries, head, len(walk.erased), sealed, fault)

    def _fault_of_anchors(self, anchors: Sequence[Anchor]) -> Fault | None:
        for anchor in anchors:
            why = self._signer.fault_of_anchor(anchor)
            if why is not None:
                return Fault(anchor.head.sequence, "anchor", f"the anchor is not one of ours: {why}")
        return None

    def _fault_of_erasures(self, tx: Transaction, walk: ChainWalk) -> Fault | None:
        back = self._store.with_bodies(tx, walk.tenant_id, sorted(walk.erased))
        if not back:
            return None
        entry = self._store.entry(tx, walk.tenant_id, min(back))
        sequence = 0 if entry is None else entry.sequence
        return Fault(sequence, "body", "the entry's body was erased and is back")


async def _off_the_loop(work: Callable[[], T]) -> T:
    # A command that reads one entry needs no event loop and does not pay for importing one.
    import asyncio

    return await asyncio.to_thread(work)


def _fault_of_reads(tx: Transaction, walk: ChainWalk) -> Fault | None:
    for seal in walk.seals.values():
        now = digest_range(tx, walk.tenant_id, after=seal.after, through=seal.through, form=seal.form)
        if now.count != seal.count:
            why = f"{seal.count} calls were sealed here, {now.count} are there"
            return Fault(seal.sequence, "reads", why)
        if now.hash != seal.hash:
            return Fault(seal.sequence, "reads", "the calls sealed here are not what they were")
    return None


def _check_name(value: str, field: str) -> None:
    if not value or len(value) > _LONGEST_NAME or "\0" in value:
        raise InvalidInput(f"{field} must have 1 to {_LONGEST_NAME} characters", field=field)


def _to_record(row: ChainRow, entry: NewAuditEntry) -> AuditRecord:
    return AuditRecord(
        tenant_id=row.tenant_id,
        sequence=row.sequence,
        id=row.id,
        subject_type=row.subject_type,
        subject_id=row.subject_id,
        event_type=row.event_type,
        actor_type=entry.actor.type,
        actor_id=row.actor_id,
        timestamp=from_micros(row.timestamp),
        correlation_id=row.correlation_id,
        code=row.code,
        message=row.message,
        data=parse_json(row.data_json),
        body_hash=row.body_hash,
        previous_hash=row.previous_hash,
        entry_hash=row.entry_hash,
        body=None if row.body is None else parse_json(row.body),
    )
