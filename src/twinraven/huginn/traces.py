"""Sessions as Huginn reads them: plain recorded calls, from the log or straight from a file.

Learning needs of a call only what it was given, what it answered, when the model asked for it, and whether anything
came from outside before it. `key` names a call by tool and canonical arguments: calls are equal when their keys are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from twinraven.catalog import BATCH_READS, RUN_CODE
from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn import EventStore, LineError, MuninnEvent, Outcome, parse_call

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
        """How many turns the assistant took, as far as the record shows."""
        return max((call.turn for call in self.calls), default=0)


@dataclass(slots=True)
class TraceLog:
    """Sessions to learn from, and what could not be read."""

    sessions: list[SessionTrace]
    errors: list[LineError] = field(default_factory=list[LineError])

    @property
    def calls(self) -> int:
        return sum(len(session.calls) for session in self.sessions)


def call_key(tool_id: str, params: dict[str, Any]) -> str:
    """Tool and canonical arguments, as one string."""
    return f"{tool_id}\0{canonical_json(params).decode()}"


def read_traces(lines: Iterable[bytes]) -> TraceLog:
    """Sessions from lines of the `calls` format; a line given twice counts once."""
    drafts: dict[str, _Draft] = {}
    errors: list[LineError] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            call = parse_call(line, "")
        except InvalidInput as error:
            errors.append(LineError(number, error.message))
            continue
        if call.source_key is None or call.source_key in seen:
            continue
        seen.add(call.source_key)
        draft = drafts.setdefault(call.session_id, _Draft(call.session_id, call.task_id, call.outcome == "failure"))
        draft.note_actor(call.timestamp, call.actor)
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
            )
        )
    return TraceLog([draft.finish() for draft in drafts.values()], errors[:MAX_ERRORS])


async def load_traces(
    store: EventStore, tenant_id: str, *, idle_gap_s: float, wanted: Callable[[MuninnEvent], bool] | None = None
) -> TraceLog:
    """Sessions from Muninn's log, with the outputs it kept; a long idle gap counts as outside input."""
    drafts: dict[str, _Draft] = {}
    waiting: list[tuple[_Draft, MuninnEvent, str | None]] = []
    last: dict[str, MuninnEvent] = {}
    after_script: set[str] = set()
    batches: set[UUID] = set()

    def visit(events: list[MuninnEvent]) -> None:
        for event in events:
            if event.tool_id == BATCH_READS:
                # What an agent asks for in a batch are its own calls, made in one turn; the batch itself is none.
                batches.add(event.event_id)
                continue
            is_inner = event.parent_event_id is not None and event.parent_event_id not in batches
            if is_inner or (wanted is not None and not wanted(event)):
                continue
            if event.tool_id == RUN_CODE:
                # No step of a tool; what follows it may come of its answer, which no step gave.
                after_script.add(event.session_id)
                continue
            draft = drafts.setdefault(event.session_id, _Draft(event.session_id, event.task_id, False))
            draft.failed = event.outcome is Outcome.FAILURE
            draft.note_actor(0, event.actor)
            outside = _outside(event, last.get(event.session_id), idle_gap_s)
            if event.session_id in after_script:
                after_script.discard(event.session_id)
                outside = outside or ""
            waiting.append((draft, event, outside))
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
    from dataclasses import replace

    turn, batch = 0, None
    for call in calls:
        turn += call.batch_id is None or call.batch_id != batch
        batch = call.batch_id
        yield replace(call, turn=turn)


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
        batch_id=event.parent_event_id,
    )


def _outside(event: MuninnEvent, previous: MuninnEvent | None, idle_gap_s: float) -> str | None:
    if event.outside_input is not None or previous is None or not (event.time_known and previous.time_known):
        return event.outside_input
    idle = (event.timestamp - previous.timestamp).total_seconds() - previous.latency_ms / 1000
    return "" if idle > idle_gap_s else None
