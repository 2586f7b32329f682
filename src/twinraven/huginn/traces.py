"""Sessions as Huginn reads them: plain recorded calls, from the log or straight from a file.

Learning needs of a call only what it was given, what it answered, when the model asked for it, and whether anything
came from outside before it. `key` names a call by tool and canonical arguments: calls are equal when their keys are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn import EventStore, LineError, MuninnEvent, Observation, Outcome, TraceFile, TraceReader

MAX_ERRORS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """One call of a recorded session; `seq` is its place in it."""

    seq: int
    tool_id: str
    params: dict[str, Any]
    key: str
    output: Any
    turn: int
    outside_input: str | None
    raised: bool
    event_id: UUID | None = None
    start_us: int | None = None
    latency_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SessionTrace:
    """A session's own calls in order, without the inner calls of composites."""

    session_id: str
    task_id: str | None
    failed: bool
    calls: tuple[RecordedCall, ...]
    turns_known: bool

    @property
    def turns(self) -> int:
        """How many turns the assistant took, as far as the record shows."""
        return max((call.turn for call in self.calls), default=0)


@dataclass(slots=True)
class TraceLog:
    """Sessions to learn from, and what could not be read."""

    sessions: list[SessionTrace]
    errors: list[LineError] = field(default_factory=list[LineError])
    """The first complaints."""
    not_understood: int = 0
    """How many complaints there were."""
    seen: list[str] = field(default_factory=list[str])
    """What each file holds, in words."""

    def complain(self, error: LineError) -> None:
        self.not_understood += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)

    @property
    def calls(self) -> int:
        return sum(len(session.calls) for session in self.sessions)


def call_key(tool_id: str, params: dict[str, Any]) -> str:
    """Tool and canonical arguments, as one string."""
    return f"{tool_id}\0{canonical_json(params).decode()}"


def read_traces(lines: Iterable[bytes]) -> TraceLog:
    """Sessions from a file of any format that can be imported; a call given twice counts once."""
    reading = _Reading()
    reading.read(lines)
    return reading.finish()


def read_trace_files(files: Iterable[TraceFile]) -> TraceLog:
    """Sessions from several files; one that nobody named and that holds no traces is a complaint."""
    reading = _Reading()
    for file in files:
        try:
            with file.opened() as lines:
                reading.read(lines)
        except InvalidInput as error:
            if file.is_named:
                raise
            reading.log.complain(LineError(0, f"{file.name}: {error.message}"))
    return reading.finish()


class _Reading:
    """Collects the sessions of files as they are read."""

    def __init__(self) -> None:
        self.log = TraceLog([])
        self._drafts: dict[str, _Draft] = {}
        self._keys: set[str] = set()

    def read(self, lines: Iterable[bytes]) -> None:
        reader = TraceReader(lines, "")
        for heard in reader:
            if isinstance(heard, LineError):
                self.log.complain(heard)
            elif heard.source_key not in self._keys and heard.parent_event_id is None:
                self._keys.add(heard.source_key or "")
                _take(self._drafts, heard)
        self.log.seen.append(f"read as {reader.format}, {reader.seen}")

    def finish(self) -> TraceLog:
        self.log.sessions = [draft.finish() for draft in self._drafts.values()]
        return self.log


def _take(drafts: dict[str, _Draft], call: Observation) -> None:
    """Add a call to its session."""
    draft = drafts.setdefault(call.session_id, _Draft(call.session_id, call.task_id, call.outcome == "failure"))
    draft.add(
        RecordedCall(
            seq=call.timestamp,
            tool_id=call.tool_id,
            params=parse_json(call.params),
            key=f"{call.tool_id}\0{call.params.decode()}",
            output=None if call.output is None else parse_json(call.output),
            turn=call.turn or 0,
            outside_input=call.outside_input,
            raised=call.raised,
            start_us=call.timestamp if call.time_known else None,
            latency_ms=call.latency_ms if call.time_known else None,
        )
    )


async def load_traces(
    store: EventStore, tenant_id: str, *, idle_gap_s: float, wanted: Callable[[MuninnEvent], bool] | None = None
) -> TraceLog:
    """Sessions from Muninn's log, with the outputs it kept; a long idle gap counts as outside input."""
    drafts: dict[str, _Draft] = {}
    waiting: list[tuple[_Draft, MuninnEvent, str | None]] = []
    last: dict[str, MuninnEvent] = {}

    def visit(events: list[MuninnEvent]) -> None:
        for event in events:
            if event.parent_event_id is not None or (wanted is not None and not wanted(event)):
                continue
            draft = drafts.setdefault(event.session_id, _Draft(event.session_id, event.task_id, False))
            draft.failed = event.outcome is Outcome.FAILURE
            waiting.append((draft, event, _outside(event, last.get(event.session_id), idle_gap_s)))
            last[event.session_id] = event

    await store.scan(tenant_id, visit)
    verdicts = await store.verdicts(tenant_id)
    outputs = await store.outputs(tenant_id, [event.output_hash for _, event, _ in waiting if event.output_hash])
    for draft, event, outside in waiting:
        draft.add(_recorded(draft, event, outside, outputs))
    for session_id, outcome in verdicts.items():
        if session_id in drafts:
            drafts[session_id].failed = outcome is Outcome.FAILURE
    return TraceLog([draft.finish() for draft in drafts.values()])


@dataclass(slots=True)
class _Draft:
    session_id: str
    task_id: str | None
    failed: bool
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])

    def add(self, call: RecordedCall) -> None:
        self.calls.append(call)

    def finish(self) -> SessionTrace:
        """Order the calls; where the model's turns are not recorded, each call is a turn of its own."""
        ordered = sorted(self.calls, key=lambda call: call.seq)
        known = bool(ordered) and all(call.turn > 0 for call in ordered)
        if not known:
            ordered = list(_numbered(ordered))
        return SessionTrace(self.session_id, self.task_id, self.failed, tuple(ordered), known)


def _numbered(calls: list[RecordedCall]) -> Iterator[RecordedCall]:
    from dataclasses import replace

    for number, call in enumerate(calls, start=1):
        yield replace(call, turn=number)


def _recorded(draft: _Draft, event: MuninnEvent, outside: str | None, outputs: dict[str, Any]) -> RecordedCall:
    return RecordedCall(
        seq=len(draft.calls),
        tool_id=event.tool_id,
        params=event.input_params,
        key=call_key(event.tool_id, event.input_params),
        output=None if event.output_hash is None else outputs.get(event.output_hash),
        turn=event.turn or 0,
        outside_input=outside,
        raised=event.raised,
        event_id=event.event_id,
        start_us=int(event.timestamp.timestamp() * 1_000_000) if event.time_known else None,
        latency_ms=event.latency_ms if event.time_known else None,
    )


def _outside(event: MuninnEvent, previous: MuninnEvent | None, idle_gap_s: float) -> str | None:
    if event.outside_input is not None or previous is None or not (event.time_known and previous.time_known):
        return event.outside_input
    idle = (event.timestamp - previous.timestamp).total_seconds() - previous.latency_ms / 1000
    return "" if idle > idle_gap_s else None
