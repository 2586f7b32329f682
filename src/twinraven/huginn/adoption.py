"""Measures the adoption of learned tools: sessions they were offered to, fitted in and were taken by, and turns saved.

A tool fits where a session called it or made its chain by hand. An occurrence with the tool is a call of it and the
calls of its steps' tools straight after: an agent whose use failed and who then does the chain by hand spent both.
What it saved is the difference to the mean occurrence by hand, times the uses. The tool's own inner calls are nobody's
work by hand, and a script's calls are not the agent's own, so neither is read.

The newest calls are read as columns, once for all tools, and then only the sessions that a tool can fit in, without
arguments and answers. For `MOST_CALLS` that costs a fifth of a second where few sessions fit, and a second or two where
all do: little enough to measure when somebody asks, so that no figure is kept that could be old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from twinraven.catalog import BATCH_READS
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.huginn.instances import Instance, find_repeats, instances_of
from twinraven.huginn.traces import SessionTrace, load_traces
from twinraven.huginn.validation.judge import wilson_low
from twinraven.muninn import EventFilter, EventStore
from twinraven.registry import Adoption, RegisteredTool, SynthesizedTool

MOST_CALLS: Final = 50_000
"""Calls read, the newest of the log."""


class LoggedAdoption:
    """Measures adoption from the log, for the registry."""

    def __init__(self, events: EventStore, *, idle_gap_s: float, most_calls: int = MOST_CALLS) -> None:
        self._events = events
        self._idle_gap_s = idle_gap_s
        self._most_calls = most_calls

    async def measure(self, tenant_id: str, tools: Sequence[RegisteredTool], *, since: datetime) -> dict[str, Adoption]:
        """The adoption of each tool from its promotion on, or from `since` if that is later, by tool id."""
        if not tools:
            return {}
        after = await self._events.settled(tenant_id) - self._most_calls
        where = EventFilter(since=since, after_arrival=max(after, 0))
        wanted = [_Wanted.of(tool, since) for tool in tools]
        found = await self._events.read_columns(tenant_id, lambda rows: _survey(rows, wanted), where=where)
        if after > 0 and found.first_us is not None:
            # Older calls may not have been read, so nothing is claimed of the time before the first that was.
            wanted = [each.no_earlier_than(found.first_us) for each in wanted]
        log = await load_traces(
            self._events,
            tenant_id,
            idle_gap_s=self._idle_gap_s,
            sessions=found.fitting,
            where=where,
            with_values=False,
        )
        return await asyncio.to_thread(_measure, log.sessions, found, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """A tool to measure: its definition, the tools of its chain, and from when on it counts."""

    definition: SynthesizedTool
    chain: frozenset[str]
    start_us: int

    @classmethod
    def of(cls, tool: RegisteredTool, since: datetime) -> _Wanted:
        started = tool.record.in_service_since
        definition = tool.current.definition
        chain = frozenset(step.tool_id for step in definition.steps)
        return cls(definition, chain, to_micros(since if started is None else max(since, started)))

    def no_earlier_than(self, start_us: int) -> _Wanted:
        return replace(self, start_us=max(self.start_us, start_us))

    def may_fit(self, tools: AbstractSet[str]) -> bool:
        return self.definition.tool_id in tools or self.chain <= tools


@dataclass(slots=True)
class _Survey:
    """What the columns show: when each session made its last call, and the sessions that a tool can fit in."""

    last_us: list[int] = field(default_factory=list[int])
    first_us: int | None = None
    fitting: list[str] = field(default_factory=list[str])

    def offered_since(self, start_us: int) -> int:
        return sum(last >= start_us for last in self.last_us)


def _survey(batches: Iterator[list[tuple[Any, ...]]], wanted: Sequence[_Wanted]) -> _Survey:
    """Look at each session's tools in rows of `MINING_COLUMNS`; a call of unknown time counts as before all."""
    found = _Survey()
    rows = (row for batch in batches for row in batch)
    for session_id, calls in groupby(rows, key=itemgetter(0)):
        tools: set[str] = set()
        last_us = 0
        for _, tool, _, _, _, timestamp, time_known, _, _ in calls:
            tools.add(tool)
            if time_known:
                last_us = max(last_us, timestamp)
                found.first_us = timestamp if found.first_us is None else min(found.first_us, timestamp)
        found.last_us.append(last_us)
        # What a batch asks for does not stand in the columns, so any chain may be in it.
        if BATCH_READS in tools or any(each.may_fit(tools) for each in wanted):
            found.fitting.append(session_id)
    return found


@dataclass(slots=True)
class _Tally:
    """Sums over the sessions of one tool; turns are one number for each occurrence."""

    fitted: int = 0
    taken: int = 0
    raised: int = 0
    use_turns: list[int] = field(default_factory=list[int])
    hand_turns: list[int] = field(default_factory=list[int])
    earlier_turns: list[int] = field(default_factory=list[int])


def _measure(sessions: Sequence[SessionTrace], found: _Survey, wanted: Sequence[_Wanted]) -> dict[str, Adoption]:
    seen = [(session, frozenset(call.tool_id for call in session.calls)) for session in sessions]
    return {
        each.definition.tool_id: _adoption(
            each,
            (session for session, tools in seen if each.may_fit(tools)),
            offered=found.offered_since(each.start_us),
        )
        for each in wanted
    }


def _adoption(wanted: _Wanted, sessions: Iterable[SessionTrace], *, offered: int) -> Adoption:
    tally = _Tally()
    for session in sessions:
        earlier, later = _split(session, wanted.start_us)
        tally.earlier_turns += [_turns(instance) for instance in _by_hand(earlier, wanted.definition)]
        _add(tally, later, wanted.definition, wanted.chain)
    by_hand = tally.hand_turns or tally.earlier_turns
    return Adoption(
        since=from_micros(wanted.start_us),
        offered=offered,
        fitted=tally.fitted,
        taken=tally.taken,
        share_low=wilson_low(tally.taken, tally.fitted),
        share_high=1.0 - wilson_low(tally.fitted - tally.taken, tally.fitted),
        uses=len(tally.use_turns),
        raised=tally.raised,
        by_hand=len(by_hand),
        turns_per_use=_mean(tally.use_turns),
        turns_by_hand=_mean(by_hand),
    )


def _split(session: SessionTrace, start_us: int) -> tuple[SessionTrace, SessionTrace]:
    """A session's calls before a time, and those from then on."""
    later = tuple(call for call in session.calls if (call.start_us or 0) >= start_us)
    earlier = tuple(call for call in session.calls if (call.start_us or 0) < start_us)
    return replace(session, calls=earlier), replace(session, calls=later)


def _add(tally: _Tally, session: SessionTrace, definition: SynthesizedTool, chain: frozenset[str]) -> None:
    """Count a session's calls since the promotion."""
    uses = _uses(session, definition.tool_id, chain)
    spent = {position for use in uses for position in use}
    found = list(_by_hand(session, definition))
    tally.taken += bool(uses)
    tally.fitted += bool(uses or found)
    tally.raised += sum(call.raised for call in session.calls if call.tool_id == definition.tool_id)
    tally.use_turns += [len({session.calls[position].turn for position in use}) for use in uses]
    tally.hand_turns += [_turns(each) for each in found if not any(spent.intersection(run) for run in each.runs)]


def _uses(session: SessionTrace, tool_id: str, chain: frozenset[str]) -> list[list[int]]:
    """The positions of each use: calls of the tool in one turn, and calls of its steps' tools straight after."""
    uses: list[list[int]] = []
    turn, is_straight = None, False
    for position, call in enumerate(session.calls):
        is_straight = is_straight and call.outside_input is None
        if call.tool_id == tool_id:
            if call.turn != turn:
                uses.append([])
            uses[-1].append(position)
            turn, is_straight = call.turn, True
        elif is_straight and call.tool_id in chain:
            uses[-1].append(position)
        else:
            is_straight = False
    return uses


def _by_hand(session: SessionTrace, definition: SynthesizedTool) -> Iterator[Instance]:
    """The occurrences of a definition's chain among calls; immediate repeats of a tool are one step there."""
    tools = [step.tool_id for step in definition.steps]
    if len(tools) == 1:
        yield from find_repeats([session], tools)
    elif len(set(tools)) == 1:
        yield from instances_of([session], tools)
    else:
        yield from instances_of([session], [tool for tool, _ in groupby(tools)])


def _turns(instance: Instance) -> int:
    calls = instance.session.calls
    return len({calls[position].turn for run in instance.runs for position in run})


def _mean(turns: Sequence[int]) -> float | None:
    return sum(turns) / len(turns) if turns else None
