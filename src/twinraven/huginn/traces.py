"""Reads sessions as plain recorded calls, from the log or straight from a file.

Learning needs of a call only what it was given, what it answered, when the model asked for it, and whether anything
came from outside before it. `key` names a call by a digest of its tool and canonical arguments: calls are equal when
their keys are. A digest is as short for a call that was given a file as for one that was given a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any
from uuid import UUID

from twinraven.catalog import BATCH_READS, RUN_CODE
from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn import EventFilter, EventStore, LineError, Observation, Outcome, TraceFile, TraceReader

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
    batch_id: UUID | None = None
    """The call of the built-in batch that asked for it, together with others."""


@dataclass(frozen=True, slots=True, eq=False)
class SessionTrace:
    """A session's own calls in order, without the inner calls of composites."""

    session_id: str
    task_id: str | None
    failed: bool
    calls: tuple[RecordedCall, ...]
    turns_known: bool
    principal: str | None = None
    """On whose behalf the session's first call ran, such as `agent:planner`; None where the record does not say."""

    @property
    def turns(self) -> int:
        """The number of the assistant's turns, as far as the record shows."""
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
    cut_sessions: int = 0
    """Sessions of which only the first calls were read, because they are too long."""

    def complain(self, error: LineError) -> None:
        self.not_understood += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)

    @property
    def calls(self) -> int:
        return sum(len(session.calls) for session in self.sessions)


def call_key(tool_id: str, params: dict[str, Any]) -> str:
    """Return a digest of tool and canonical arguments, equal exactly for equal calls."""
    return _digest(tool_id, canonical_json(params))


def _digest(tool_id: str, canonical: bytes) -> str:
    # A cryptographic one: whoever writes sessions must not be able to make two different calls look equal.
    return blake2b(f"{tool_id}\0".encode("utf-8", "surrogatepass") + canonical, digest_size=16).hexdigest()


def read_traces(lines: Iterable[bytes]) -> TraceLog:
    """Sessions from a file of any format that can be imported; a call given twice counts once."""
    reading = _Reading()
    reading.read(lines)
    return reading.finish()


def read_trace_files(files: Iterable[TraceFile], *, most_calls: int | None = None) -> TraceLog:
    """Read sessions from several files; a file that was not named and holds no traces is a complaint.

    Of a session with more than `most_calls` calls the first ones are read, and the log says how many are cut.
    """
    reading = _Reading(most_calls)
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

    def __init__(self, most_calls: int | None = None) -> None:
        self.log = TraceLog([])
        self._most_calls = most_calls
        self._cut: set[str] = set()
        self._drafts: dict[str, _Draft] = {}
        self._keys: set[str] = set()

    def read(self, lines: Iterable[bytes]) -> None:
        reader = TraceReader(lines, "")
        for heard in reader:
            if isinstance(heard, LineError):
                self.log.complain(heard)
            elif heard.source_key not in self._keys and heard.parent_event_id is None:
                draft = self._drafts.get(heard.session_id)
                if draft is not None and self._most_calls is not None and len(draft.calls) >= self._most_calls:
                    self._cut.add(heard.session_id)
                    continue
                self._keys.add(heard.source_key or "")
                _take(self._drafts, heard)
        self.log.seen.append(f"read as {reader.format}, {reader.seen}")

    def finish(self) -> TraceLog:
        self.log.sessions = [draft.finish() for draft in self._drafts.values()]
        self.log.cut_sessions = len(self._cut)
        return self.log


def _take(drafts: dict[str, _Draft], call: Observation) -> None:
    """Add a call to its session."""
    draft = drafts.setdefault(call.session_id, _Draft(call.session_id, call.task_id, call.outcome == "failure"))
    draft.note_actor(call.timestamp, call.actor)
    draft.add(
        RecordedCall(
            seq=call.timestamp,
            tool_id=call.tool_id,
            params=parse_json(call.params),
            key=_digest(call.tool_id, call.params),
            output=None if call.output is None else parse_json(call.output),
            turn=call.turn or 0,
            outside_input=call.outside_input,
            raised=call.raised,
            start_us=call.timestamp if call.time_known else None,
            latency_ms=call.latency_ms if call.time_known else None,
        )
    )


async def load_traces(
    store: EventStore,
    tenant_id: str,
    *,
    idle_gap_s: float,
    sessions: Sequence[str] | None = None,
    where: EventFilter | None = None,
    most_calls: int | None = None,
    with_values: bool = True,
) -> TraceLog:
    """Sessions from Muninn's log, with the outputs it kept; a long idle gap counts as outside input.

    With `sessions`, only those. A session of more than `most_calls` calls ends there, and the log says how many do.
    Without values, calls have no outputs and a hash for their arguments, which is enough to tell equal calls.
    """
    verdicts = await store.verdicts(tenant_id, sessions=sessions)

    def read(batches: Iterator[list[tuple[Any, ...]]]) -> TraceLog:
        reader = _Reader(idle_gap_s, most_calls)
        for batch in batches:
            for row in batch:
                reader.add(row)
        return reader.finish(verdicts)

    # What an agent asks for in a batch are its own calls, made in one turn; the batch itself is none.
    return await store.read_calls(
        tenant_id, read, sessions=sessions, where=where, through=BATCH_READS, with_values=with_values
    )


class _Reader:
    """Builds sessions from rows; equal tools, arguments and outputs are one object in all of them."""

    def __init__(self, idle_gap_s: float, most_calls: int | None) -> None:
        self._idle_gap_us = idle_gap_s * 1_000_000
        self._most_calls = most_calls
        self._drafts: dict[str, _Draft] = {}
        self._tools: dict[str, str] = {}
        self._inputs: dict[str, tuple[str, dict[str, Any]]] = {}
        self._outputs: dict[str, Any] = {}
        self._last: RecordedCall | None = None
        self._cut: set[str] = set()
        self._after_script: str | None = None

    def add(self, row: tuple[Any, ...]) -> None:
        """One row of `TRACE_COLUMNS`; the rows of a session follow each other in its order."""
        (
            session_id,
            tool,
            text,
            hashed,
            body,
            turn,
            task,
            outside,
            raised,
            event_id,
            at,
            latency,
            timed,
            outcome,
            batch,
            actor_type,
            actor_id,
        ) = row
        if tool == BATCH_READS:
            return
        if tool == RUN_CODE:
            # No step of a tool; what follows it may come of its answer, which no step gave.
            self._after_script = session_id
            return
        draft = self._drafts.get(session_id)
        if draft is None:
            draft = self._drafts[session_id] = _Draft(session_id, task, False)
            draft.note_actor(0, None if actor_type is None else Actor(actor_type, actor_id))
            self._last = None
        draft.failed = outcome == Outcome.FAILURE
        if self._most_calls is not None and len(draft.calls) >= self._most_calls:
            self._cut.add(session_id)
            return
        tool_id = self._tools.setdefault(tool, tool)
        given = parse_json(text, field="input_params")
        key = call_key(tool_id, given)
        key, params = self._inputs.setdefault(key, (key, given))
        call = RecordedCall(
            seq=len(draft.calls),
            tool_id=tool_id,
            params=params,
            key=key,
            output=None if body is None else self._output(hashed, body),
            turn=turn or 0,
            outside_input=self._outside(session_id, outside, at if timed else None),
            raised=bool(raised),
            event_id=UUID(event_id),
            start_us=at if timed else None,
            latency_ms=latency if timed else None,
            batch_id=None if batch is None else UUID(batch),
        )
        draft.add(call)
        self._last = call

    def finish(self, verdicts: Mapping[str, Outcome]) -> TraceLog:
        for session_id, outcome in verdicts.items():
            if session_id in self._drafts:
                self._drafts[session_id].failed = outcome is Outcome.FAILURE
        return TraceLog([draft.finish() for draft in self._drafts.values()], cut_sessions=len(self._cut))

    def _output(self, hashed: str, body: bytes) -> Any:
        if hashed not in self._outputs:
            self._outputs[hashed] = parse_json(bytes(body), field="output")
        return self._outputs[hashed]

    def _outside(self, session_id: str, stated: str | None, start_us: int | None) -> str | None:
        last, after_script = self._last, session_id == self._after_script
        self._after_script = None
        if stated is None and after_script:
            return ""
        if stated is not None or last is None or start_us is None or last.start_us is None:
            return stated
        idle_us = start_us - last.start_us - (last.latency_ms or 0) * 1_000
        return "" if idle_us > self._idle_gap_us else None


@dataclass(slots=True)
class _Draft:
    session_id: str
    task_id: str | None
    failed: bool
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    first: int | None = None
    principal: str | None = None

    def note_actor(self, place: int, actor: Actor | None) -> None:
        """Keep the actor of the call with the lowest place; of several with one place, the first that came."""
        if self.first is None or place < self.first:
            self.first, self.principal = place, None if actor is None else str(actor)

    def add(self, call: RecordedCall) -> None:
        self.calls.append(call)

    def finish(self) -> SessionTrace:
        """Order the calls; where the model's turns are not recorded, each call is a turn of its own."""
        ordered = sorted(self.calls, key=lambda call: call.seq)
        known = bool(ordered) and all(call.turn > 0 for call in ordered)
        if not known:
            ordered = list(_numbered(ordered))
        return SessionTrace(self.session_id, self.task_id, self.failed, tuple(ordered), known, self.principal)


def _numbered(calls: list[RecordedCall]) -> Iterator[RecordedCall]:
    turn, batch = 0, None
    for call in calls:
        turn += call.batch_id is None or call.batch_id != batch
        batch = call.batch_id
        yield replace(call, turn=turn)
