"""Turns agents' scripts into sessions that learning reads, where the same script recurs over sessions.

An agent in code mode writes its data flow down: a script calls one tool and hands what it answered to the next. The
log has the script (the argument of the `run_code` event) and the calls it made (events with that one as their parent).
Scripts with equal skeletons are one script used again. Each of its runs becomes a trace of its own: the calls in order,
each a turn, and the literals of the script said before the first. So the existing miner, wiring and replay treat them
like calls that a model asked for one by one, and a tool made of them is proven on history like every other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from twinraven.catalog import RUN_CODE
from twinraven.foundation.canonical import content_hash
from twinraven.foundation.clock import to_micros
from twinraven.huginn.script_skeletons import ScriptSkeleton, skeleton_of
from twinraven.huginn.traces import RecordedCall, SessionTrace, call_key
from twinraven.muninn import EventFilter, EventStore, MuninnEvent

PAGE: Final = 1_000
LEAST_SESSIONS: Final = 3
"""In how many sessions a script must have run to count as one that recurs."""


@dataclass(frozen=True, slots=True, eq=False)
class ScriptRun:
    """One run of a script, and the calls it made itself, in order."""

    event_id: UUID
    session_id: str
    task_id: str | None
    code: str
    skeleton: ScriptSkeleton
    raised: bool
    calls: tuple[RecordedCall, ...]

    @property
    def trace(self) -> SessionTrace:
        """The run as a session; runs of one session count as one task, so that they are no independent evidence."""
        task = self.task_id or f"session {self.session_id}"
        return SessionTrace(f"{self.session_id}/{self.event_id}", task, self.raised, self.calls, turns_known=True)


@dataclass(frozen=True, slots=True, eq=False)
class RecurringScript:
    """A script that ran in several sessions, with whatever values."""

    skeleton: str
    runs: tuple[ScriptRun, ...]

    @property
    def script_id(self) -> str:
        return content_hash(self.skeleton.encode())

    @property
    def sessions(self) -> int:
        return len({run.session_id for run in self.runs})

    @property
    def varying(self) -> tuple[int, ...]:
        """Return the lifted literals that differ between runs: the parameters of a tool made of the script."""
        columns = zip(*(run.skeleton.literals for run in self.runs), strict=True)
        return tuple(place for place, values in enumerate(columns) if len({repr(value) for value in values}) > 1)


@dataclass(slots=True)
class ScriptTraces:
    """Scripts that recur, the one that ran most first, and their runs as sessions to learn from."""

    scripts: list[RecurringScript] = field(default_factory=list[RecurringScript])

    @property
    def sessions(self) -> list[SessionTrace]:
        return [run.trace for script in self.scripts for run in script.runs if run.calls]

    @property
    def event_ids(self) -> set[UUID]:
        """The runs, by the events that recorded them."""
        return {run.event_id for script in self.scripts for run in script.runs}


async def load_script_traces(
    store: EventStore,
    tenant_id: str,
    *,
    least_sessions: int = LEAST_SESSIONS,
    where: EventFilter | None = None,
    last_sessions: int | None = None,
) -> ScriptTraces:
    """Load the scripts of a tenant's log that recur in at least so many sessions.

    `where` restricts which scripts are looked at; with `last_sessions`, only those of the sessions that ran one last.
    """
    chosen = replace(where or EventFilter(), tool_id=RUN_CODE, is_uncorrected=True)
    events = [event for event in await _all_events(store, tenant_id, chosen) if event.parent_event_id is None]
    if last_sessions is not None:
        latest = list(dict.fromkeys(event.session_id for event in reversed(events)))[:last_sessions]
        events = [event for event in events if event.session_id in set(latest)]
    events.sort(key=lambda event: (event.session_id, event.timestamp, event.arrival))
    runs: list[ScriptRun] = []
    for event in events:
        inside = EventFilter(
            parent_event_id=str(event.event_id), through_arrival=chosen.through_arrival, is_uncorrected=True
        )
        inner = await _all_events(store, tenant_id, inside)
        outputs = await store.outputs(tenant_id, [call.output_hash for call in inner if call.output_hash])
        run = _run(event, inner, outputs)
        if run is not None:
            runs.append(run)
    return ScriptTraces(group_scripts(runs, least_sessions=least_sessions))


class ToolCallRef(NamedTuple):
    """One call of a tool, wherever it was made."""

    event_id: UUID
    session_id: str
    parent_event_id: UUID | None


async def uses_of_tool(
    store: EventStore, tenant_id: str, tool_id: str, *, where: EventFilter | None = None
) -> list[ToolCallRef]:
    """Return every call of a tool, by itself or inside a script or a batch, in the order of time."""
    chosen = replace(where or EventFilter(), tool_id=tool_id, is_uncorrected=True)
    return [
        ToolCallRef(event.event_id, event.session_id, event.parent_event_id)
        async for page in _pages(store, tenant_id, chosen)
        for event in page
    ]


async def _all_events(store: EventStore, tenant_id: str, where: EventFilter) -> list[MuninnEvent]:
    """Return every event of a filter, by time."""
    return [event async for page in _pages(store, tenant_id, where) for event in page]


async def _pages(store: EventStore, tenant_id: str, where: EventFilter) -> AsyncIterator[list[MuninnEvent]]:
    page = await store.events(tenant_id, replace(where, limit=PAGE))
    while page:
        yield page
        last = page[-1]
        beyond = (to_micros(last.timestamp), last.arrival)
        page = await store.events(tenant_id, replace(where, limit=PAGE, beyond=beyond)) if len(page) == PAGE else []


def group_scripts(runs: Iterable[ScriptRun], *, least_sessions: int = LEAST_SESSIONS) -> list[RecurringScript]:
    """Runs with equal skeletons, where they ran in enough sessions."""
    groups: dict[str, list[ScriptRun]] = {}
    for run in runs:
        groups.setdefault(run.skeleton.text, []).append(run)
    scripts = [RecurringScript(text, tuple(group)) for text, group in groups.items()]
    recurring = [script for script in scripts if script.sessions >= least_sessions]
    return sorted(recurring, key=lambda script: (-script.sessions, -len(script.runs), script.skeleton))


def _run(event: MuninnEvent, inner: list[MuninnEvent], outputs: dict[str, Any]) -> ScriptRun | None:
    code = event.input_params.get("code")
    skeleton = skeleton_of(code) if isinstance(code, str) else None
    if skeleton is None:
        return None
    ordered = sorted(inner, key=lambda call: call.timestamp)
    # What the agent wrote into the script it knew before the first call, as it knows what a user told it.
    stated = "\n".join(str(word) for literal in skeleton.literals for word in _words(literal))
    calls = tuple(_call(number, call, outputs, stated) for number, call in enumerate(ordered))
    return ScriptRun(event.event_id, event.session_id, event.task_id, str(code), skeleton, event.raised, calls)


def _words(literal: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", literal) if isinstance(literal, tuple) else (literal,)


def _call(number: int, event: MuninnEvent, outputs: dict[str, Any], stated: str) -> RecordedCall:
    return RecordedCall(
        seq=number,
        tool_id=event.tool_id,
        params=event.input_params,
        key=call_key(event.tool_id, event.input_params),
        output=None if event.output_hash is None else outputs.get(event.output_hash),
        turn=number + 1,
        # A call that somebody approved was not made at once: what they said came in between.
        outside_input=stated if number == 0 else event.outside_input,
        raised=event.raised,
        event_id=event.event_id,
        start_us=int(event.timestamp.timestamp() * 1_000_000) if event.time_known else None,
        latency_ms=event.latency_ms if event.time_known else None,
    )
