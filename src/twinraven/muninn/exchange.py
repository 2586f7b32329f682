"""Imports traces and exports events: the part that is the same for every format.

Importing is idempotent (a line that is in the log already is counted as a duplicate), resumable (a batch is committed
or not there), and constant in memory. A line that cannot be understood is reported by number and the rest goes on.

Traces without times get times by sequence. The base is a whole multiple of 1,000 seconds, so that a later import of a
missing line finds the same base and the order stays the file's. Tags are extracted from every line, also from those
that are in the log already, so that they do not depend on where an earlier import broke off.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import orjson

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, InvalidInput
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn.batch import Encoded, write_rows
from twinraven.muninn.columns import BLOB_COLUMNS, COLUMNS, Row
from twinraven.muninn.formats import AUTO, LineError, TraceReader
from twinraven.muninn.formats.calls import SEQUENCE_LIMIT
from twinraven.muninn.model import MAX_TENANT, MuninnEvent, check_name
from twinraven.muninn.outer_first import HeldBackCalls, outer_first
from twinraven.muninn.row import EncodingRules, RowEncoder
from twinraven.muninn.store import EventStore
from twinraven.storage import Database, Transaction

BATCH = 8000
BATCH_BYTES = 8 << 20
"""Rows are committed together up to so many, or so many bytes of arguments and outputs."""
MAX_ERRORS = 1000
MAX_REASONS = 100
MOST_UNPACKED = 16 << 30
"""Bytes that a compressed file may have when it is unpacked."""
_LONGEST_REASON = 200
_DETAIL = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+|[0-9a-f]{16,}")
TIME_BASE = SEQUENCE_LIMIT
_RACES = 5
_PARAMS, _BODY = COLUMNS.index("input_params"), BLOB_COLUMNS.index("body")
_EVENT, _SESSION, _TIMESTAMP, _SOURCE_KEY, _TIME_KNOWN = (
    COLUMNS.index(name) for name in ("event_id", "session_id", "timestamp", "source_key", "time_known")
)

Progress = Callable[[int], None]
"""Told how many lines are done."""


@dataclass(slots=True)
class Reason:
    """Complaints that differ in details alone."""

    example: str
    first_line: int
    count: int = 1


@dataclass(slots=True)
class ImportReport:
    """The report of an import; counts are of this run."""

    session_hashes: set[int] = field(default_factory=set[int])
    """Of the sessions that were met; several files may tell of the same."""
    events: int = 0
    duplicates: int = 0
    format: str = AUTO
    """What the lines were taken for."""
    errors: list[LineError] = field(default_factory=list[LineError])
    """The first complaints, in full."""
    not_understood: int = 0
    """How many complaints there were."""
    reasons: dict[str, Reason] = field(default_factory=dict[str, "Reason"])
    """The complaints by what they are about."""
    seen: str = ""
    """What the trace holds, in words, for a trace without calls."""

    @property
    def sessions(self) -> int:
        """How many sessions were met."""
        return len(self.session_hashes)

    @property
    def is_understood(self) -> bool:
        """Whether any call was read, new or not."""
        return self.events + self.duplicates > 0

    def complain(self, error: LineError) -> None:
        """Count a complaint."""
        self.not_understood += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        kind = _DETAIL.sub("…", error.reason)[:_LONGEST_REASON]
        found = self.reasons.get(kind)
        if found is not None:
            found.count += 1
        elif len(self.reasons) < MAX_REASONS:
            self.reasons[kind] = Reason(error.reason, error.line)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "sessions": self.sessions,
            "events": self.events,
            "duplicates": self.duplicates,
            "not_understood": self.not_understood,
            "reasons": [
                {"reason": each.example, "count": each.count, "first_line": each.first_line}
                for each in self.reasons.values()
            ],
            "errors": [{"line": error.line, "reason": error.reason} for error in self.errors],
        }


class Importer:
    """Reads foreign traces into the log."""

    def __init__(
        self,
        database: Database,
        *,
        rules: EncodingRules | None = None,
        redact: Redact = keep_everything,
        redact_names: Redact | None = None,
    ) -> None:
        self._database = database
        self._rules = rules or EncodingRules()
        self._redact = redact
        self._redact_names = redact_names

    async def import_calls(
        self, tenant_id: str, lines: Iterable[bytes], *, progress: Progress | None = None
    ) -> ImportReport:
        """Import the `calls` format."""
        return await self.import_trace(tenant_id, lines, format="calls", progress=progress)

    async def import_trace(
        self,
        tenant_id: str,
        lines: Iterable[bytes] | IO[bytes],
        *,
        format: str = AUTO,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import any of `FORMATS`, or whatever `auto` takes the lines for."""
        check_name(tenant_id, field="tenant_id", limit=MAX_TENANT)
        encoder = RowEncoder(self._rules, self._redact, redact_names=self._redact_names)
        # Reading and parsing happen on a thread: a file may be slow, and a thousand lines keep a loop waiting.
        reader = await asyncio.to_thread(lambda: _Reader(lines, format, tenant_id, encoder))
        report = reader.report
        base = now_micros() // TIME_BASE * TIME_BASE
        held = HeldBackCalls()
        while batch := await asyncio.to_thread(reader.read):
            report.session_hashes.update(map(hash, {row[_SESSION] for row, _ in batch}))
            missing = await self._not_stored(tenant_id, held.missing(batch))
            await self._take(tenant_id, held.admit(batch, missing), base, reader)
            if progress is not None:
                progress(reader.line)
        await self._take(tenant_id, held.rest(), base, reader)
        return report

    async def _not_stored(self, tenant_id: str, event_ids: set[str]) -> set[str]:
        """Return which of some events the log does not have."""
        if not event_ids:
            return event_ids
        wanted = sorted(event_ids)
        known = await self._database.read(
            tenant_id, lambda tx: tx.present("muninn_event_log", "event_id", wanted, tenant_id=tenant_id)
        )
        return event_ids.difference(known)

    async def _take(self, tenant_id: str, batch: list[Encoded], base: int, reader: _Reader) -> None:
        """Store rows and count them; of those that the log refuses, each is reported and the others are stored."""
        report = reader.report
        try:
            stored = await self._store(tenant_id, batch, base, keeps_ids=reader.keeps_ids) if batch else 0
        except InvalidInput as error:
            if error.details.get("field") != "parent_event_id":
                raise
            if len(batch) == 1:
                reason = f"call {batch[0][0][_EVENT]} is not taken: {error.message}"
                report.complain(LineError(reader.line, reason))
                return
            half = len(batch) // 2
            await self._take(tenant_id, batch[:half], base, reader)
            await self._take(tenant_id, batch[half:], base, reader)
            return
        report.events += stored
        report.duplicates += len(batch) - stored

    async def _store(self, tenant_id: str, batch: list[Encoded], base: int, *, keeps_ids: bool) -> int:
        def write(tx: Transaction) -> int:
            return write_new(tx, tenant_id, batch, base, keeps_ids=keeps_ids)

        for _ in range(_RACES):
            try:
                return await self._database.write(tenant_id, write)
            except Conflict:
                # Another import of the same lines was faster; on the next look they are there.
                continue
        return await self._database.write(tenant_id, write)


class _Reader:
    """Turns lines into rows, a batch at a time; where the trace has no times, with the place in the session for one."""

    def __init__(self, lines: Iterable[bytes] | IO[bytes], format: str, tenant_id: str, encoder: RowEncoder) -> None:
        self._encoder = encoder
        self._tenant_id = tenant_id
        with _readable():
            self._reader = TraceReader(lines, tenant_id, format=format)
        self.report = ImportReport(format=self._reader.format)
        self.keeps_ids = self._reader.keeps_ids
        self._rows = self._read_rows()

    @property
    def line(self) -> int:
        return self._reader.line

    def read(self) -> list[Encoded]:
        """Read the next rows, none at the end."""
        rows: list[Encoded] = []
        size = 0
        with _readable():
            for item in islice(self._rows, BATCH):
                rows.append(item)
                row, blob = item
                size += len(row[_PARAMS]) + (0 if blob is None else len(blob[_BODY]))
                if size > BATCH_BYTES:
                    break
        if not rows:
            self.report.seen = str(self._reader.seen)
        return rows

    def _read_rows(self) -> Iterator[Encoded]:
        for heard in self._reader:
            if isinstance(heard, LineError):
                self.report.complain(LineError(heard.line, self._encoder.clean(self._tenant_id, heard.reason)))
            else:
                yield self._encoder.encode(heard)


@contextmanager
def _readable() -> Generator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"the file cannot be read on: {error}", field="file") from error


def write_new(tx: Transaction, tenant_id: str, batch: list[Encoded], base: int = 0, *, keeps_ids: bool) -> int:
    """Insert the rows whose source is not in the log yet; says how many."""
    known = tx.present("muninn_event_log", "source_key", [row[_SOURCE_KEY] for row, _ in batch], tenant_id=tenant_id)
    fresh: dict[str, Encoded] = {}
    for item in batch:
        key = item[0][_SOURCE_KEY]
        if key not in known:
            fresh.setdefault(key, item)
    if keeps_ids:
        fresh = _without_known_ids(tx, tenant_id, fresh)
    if not fresh:
        return 0
    ordered = outer_first(list(fresh.values()))
    untimed = {row[_SESSION] for row, _ in ordered if not row[_TIME_KNOWN]}
    if untimed:
        bases = _session_bases(tx, tenant_id, untimed)
        ordered = [(_placed(row, bases.get(row[_SESSION], base)), blob) for row, blob in ordered]
    write_rows(tx, ordered)
    return len(fresh)


def _without_known_ids(tx: Transaction, tenant_id: str, fresh: dict[str, Encoded]) -> dict[str, Encoded]:
    """Leave out events that are in the log under their own id, such as those of a log that reads its own export."""
    by_id = {row[_EVENT]: key for key, (row, _) in reversed(fresh.items())}
    known = tx.present("muninn_event_log", "event_id", list(by_id), tenant_id=tenant_id)
    if not known and len(by_id) == len(fresh):
        return fresh
    kept = {key for event_id, key in by_id.items() if event_id not in known}
    return {key: item for key, item in fresh.items() if key in kept}


def _placed(row: Row, base: int) -> Row:
    """Return a row with its time; one that has only a place in its session gets a time by sequence."""
    if row[_TIME_KNOWN] or row[_TIMESTAMP] >= SEQUENCE_LIMIT:
        return row
    return (*row[:_TIMESTAMP], base + row[_TIMESTAMP], *row[_TIMESTAMP + 1 :])


def _session_bases(tx: Transaction, tenant_id: str, sessions: set[str]) -> dict[str, int]:
    """Return the time base of sessions that are already in the log with times by sequence."""
    bases: dict[str, int] = {}
    for session in sorted(tx.present("muninn_event_log", "session_id", sorted(sessions), tenant_id=tenant_id)):
        row = tx.fetch_one(
            "SELECT min(timestamp) AS first FROM muninn_event_log WHERE tenant_id = :tenant "
            "AND session_id = :session AND time_known = 0",
            tenant=tenant_id,
            session=session,
        )
        if row is not None and row["first"] is not None:
            bases[session] = row["first"] // TIME_BASE * TIME_BASE
    return bases


def open_lines(path: Path | None) -> IO[bytes]:
    """Open a file or pipe, gzip or plain, or standard input, as lines of bytes."""
    if path is None:
        import sys

        return _unpacked(cast("io.BufferedReader", sys.stdin.buffer))
    try:
        return _unpacked(path.open("rb"))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file") from error


def _unpacked(raw: io.BufferedReader) -> IO[bytes]:
    # Looking without taking: a pipe cannot be rewound.
    if raw.peek(2)[:2] != b"\x1f\x8b":
        return raw
    packed = _BoundedGzip(fileobj=raw)
    packed.myfileobj = cast("Any", raw)  # closed with the archive
    return io.BufferedReader(packed, 1 << 20)  # pyright: ignore[reportArgumentType]


class _BoundedGzip(gzip.GzipFile):
    """Refuses an archive that unpacks to more than anybody has recorded."""

    _unpacked_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._unpacked_bytes += len(found)
        if self._unpacked_bytes > MOST_UNPACKED:
            raise InvalidInput(
                f"the file unpacks to more than {MOST_UNPACKED >> 30} GB",
                field="file",
                fix="split it and import the parts",
            )
        return found


async def export_json(store: EventStore, tenant_id: str, out: IO[bytes]) -> int:
    """Return every event as one JSON line, in session order; says how many."""
    written = 0

    def visit(events: list[MuninnEvent]) -> None:
        nonlocal written
        out.writelines(_as_line(event) for event in events)
        written += len(events)

    await store.scan(tenant_id, visit)
    return written


def _as_line(event: MuninnEvent) -> bytes:
    body = event.as_json()
    try:
        return orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # Integers beyond 64 bits, which orjson does not write.
        return canonical_json(body) + b"\n"
