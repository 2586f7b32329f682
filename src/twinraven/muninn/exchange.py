"""Events as JSON Lines, out and in.

`calls` is the plain format of recorded agent traces: one call a line with session_id, seq, tool, params, output and, where
known, ok, session_outcome, user_before, llm_turn and task_id. Importing is idempotent (each line has an identity made of
format, session, seq and content), resumable (a batch is committed or not there), and constant in memory. A line that
cannot be understood is reported by number and the rest goes on.

Traces without times get times by sequence. The base is a whole multiple of 1,000 seconds, so that a later import of a
missing line finds the same base and the order stays the file's.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import orjson
import xxhash

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.muninn.collector import clean_text, encode_output, encode_params
from twinraven.muninn.model import MuninnEvent, check_name
from twinraven.muninn.row import EncodingRules, Observation, Redact, RowEncoder, keep_everything
from twinraven.muninn.store import EventStore
from twinraven.muninn.writer import write_rows
from twinraven.storage import Database, Transaction, chunks

TIME_BASE = 1_000_000_000
BATCH = 2000
MAX_ERRORS = 1000
_OUTCOMES = ("success", "failure", "partial")

Progress = Callable[[int], None]
"""Told how many lines are done."""


@dataclass(frozen=True, slots=True)
class LineError:
    line: int
    reason: str


@dataclass(slots=True)
class ImportReport:
    """What an import did; counts are of this run."""

    sessions: int = 0
    events: int = 0
    duplicates: int = 0
    errors: list[LineError] = field(default_factory=list[LineError])

    def as_json(self) -> dict[str, Any]:
        return {
            "sessions": self.sessions,
            "events": self.events,
            "duplicates": self.duplicates,
            "errors": [{"line": error.line, "reason": error.reason} for error in self.errors],
        }


class Importer:
    """Reads foreign traces into the log."""

    def __init__(
        self, database: Database, *, rules: EncodingRules | None = None, redact: Redact = keep_everything
    ) -> None:
        self._database = database
        self._encoder = RowEncoder(rules or EncodingRules(), redact)

    async def import_calls(
        self, tenant_id: str, lines: Iterable[bytes], *, progress: Progress | None = None
    ) -> ImportReport:
        """Import the `calls` format."""
        report = ImportReport()
        sessions: set[int] = set()
        numbered = enumerate(lines, start=1)
        base = now_micros() // TIME_BASE * TIME_BASE
        for part in chunks(numbered, BATCH):
            seen = list(_understood(part, tenant_id, report))
            stored = await self._database.write(tenant_id, self._work(tenant_id, seen, base))
            report.events += stored
            report.duplicates += len(seen) - stored
            sessions.update(hash(item.session_id) for item in seen)
            report.sessions = len(sessions)
            if progress is not None:
                progress(part[-1][0])
        return report

    def _work(self, tenant_id: str, seen: list[Observation], base: int) -> Callable[[Transaction], int]:
        def work(tx: Transaction) -> int:
            keys = [item.source_key for item in seen if item.source_key is not None]
            known = tx.present("muninn_event_log", "source_key", keys, tenant_id=tenant_id)
            fresh = {item.source_key: item for item in seen if item.source_key not in known}
            if not fresh:
                return 0
            bases = _session_bases(tx, tenant_id, {item.session_id for item in fresh.values()})
            rows = [
                self._encoder.encode(item._replace(timestamp=bases.get(item.session_id, base) + item.timestamp))
                for item in fresh.values()
            ]
            write_rows(tx, rows)
            return len(rows)

        return work


def _session_bases(tx: Transaction, tenant_id: str, sessions: set[str]) -> dict[str, int]:
    """The time base of sessions that are already in the log with times by sequence."""
    known = tx.present("muninn_event_log", "session_id", sorted(sessions), tenant_id=tenant_id)
    bases: dict[str, int] = {}
    for session in sorted(known):
        row = tx.fetch_one(
            "SELECT min(timestamp) AS first FROM muninn_event_log WHERE tenant_id = :tenant "
            "AND session_id = :session AND time_known = 0",
            tenant=tenant_id,
            session=session,
        )
        if row is not None and row["first"] is not None:
            bases[session] = row["first"] // TIME_BASE * TIME_BASE
    return bases


def _understood(part: list[tuple[int, bytes]], tenant_id: str, report: ImportReport) -> Iterator[Observation]:
    for number, line in part:
        if not line.strip():
            continue
        try:
            yield parse_call(line, tenant_id)
        except TwinRavenError as error:
            if len(report.errors) < MAX_ERRORS:
                report.errors.append(LineError(number, error.message))


def parse_call(line: bytes, tenant_id: str) -> Observation:
    """One line of the `calls` format; its timestamp is only its place in the session."""
    call = _object(line)
    session_id = check_name(_need(call, "session_id"), field="session_id")
    seq = _whole(call, "seq")
    params = call.get("params")
    encoded = encode_params(params if isinstance(params, dict) else {"input": params})
    output = None if call.get("output") is None else encode_output(call["output"])
    tool_id = check_name(_need(call, "tool"), field="tool")
    content = xxhash.xxh64(tool_id.encode() + b"\0" + encoded + b"\0" + (output or b""))
    task = call.get("task_id")
    return Observation(
        tenant_id=tenant_id,
        event_id=new_uuid(),
        session_id=session_id,
        tool_id=tool_id,
        params=encoded,
        output=output,
        timestamp=seq,
        latency_ms=0,
        outcome=_outcome(call),
        tags=(),
        parent_event_id=None,
        raised=call.get("ok") is False,
        error_code="TOOL_FAILED" if call.get("ok") is False else None,
        turn=None if call.get("llm_turn") is None else _whole(call, "llm_turn"),
        task_id=None if task is None else check_name(str(task), field="task_id"),
        outside_input=_said(call),
        source_key=f"calls:{session_id}:{seq}:{content.hexdigest()}",
        time_known=False,
        correlation_id=None,
    )


def _object(line: bytes) -> dict[str, Any]:
    call = parse_json(line, field="line")
    if not isinstance(call, dict):
        raise InvalidInput("the line is not a JSON object", field="line")
    return call  # pyright: ignore[reportUnknownVariableType]


def _need(call: dict[str, Any], name: str) -> str:
    value = call.get(name)
    if value is None:
        raise InvalidInput(f"{name} is missing", field=name)
    return value


def _whole(call: dict[str, Any], name: str) -> int:
    value = call.get(name)
    if type(value) is not int or not 0 <= value < TIME_BASE:
        raise InvalidInput(f"{name} must be a whole number from 0, not {value!r}", field=name)
    return value


def _outcome(call: dict[str, Any]) -> str:
    outcome = call.get("session_outcome")
    if outcome is None:
        return "failure" if call.get("ok") is False else "partial"
    if outcome not in _OUTCOMES:
        raise InvalidInput(f"session_outcome must be success, failure or partial, not {outcome!r}", field="outcome")
    return outcome


def _said(call: dict[str, Any]) -> str | None:
    said = call.get("user_before")
    if said is None:
        return None
    return clean_text(said if isinstance(said, str) else orjson.dumps(said).decode())


def open_lines(path: Path | None) -> IO[bytes]:
    """A file, gzip or plain, or standard input, as lines of bytes."""
    if path is None:
        import sys

        return sys.stdin.buffer
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file") from error
    magic = raw.read(2)
    raw.seek(0)
    if magic == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 20)  # pyright: ignore[reportArgumentType]
    return raw


async def export_json(store: EventStore, tenant_id: str, out: IO[bytes]) -> int:
    """Every event as one JSON line, in session order; says how many."""
    written = 0

    def visit(events: list[MuninnEvent]) -> None:
        nonlocal written
        for event in events:
            out.write(orjson.dumps(event.as_json()) + b"\n")
        written += len(events)

    await store.scan(tenant_id, visit)
    return written
