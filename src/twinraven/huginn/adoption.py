"""Measures the adoption of learned tools: sessions they were offered to, fitted in and were taken by, and turns saved.

A tool fits where a session called it or made its chain by hand. An occurrence with the tool is a call of it and the
calls of its steps' tools straight after: an agent whose use failed and who then does the chain by hand spent both.
What it saved is the difference to the mean occurrence by hand, times the uses. The tool's own inner calls are nobody's
work by hand, and a script's calls are not the agent's own, so neither is read.

The newest calls are read, without arguments and answers, once for all tools: half a second for `MOST_CALLS`. That is
little enough to measure when somebody asks, so that no figure is kept that could be old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Final

from twinraven.flow import SynthesizedTool
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.huginn.instances import Instance, find_repeats, instances_of
from twinraven.huginn.traces import SessionTrace, load_traces
from twinraven.huginn.validation.judge import wilson_low
from twinraven.muninn import EventFilter, EventStore
from twinraven.registry import Adoption, RegisteredTool

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
        log = await load_traces(self._events, tenant_id, idle_gap_s=self._idle_gap_s, where=where, with_values=False)
        return await asyncio.to_thread(_measure, log.sessions, tools, since, after > 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A session with what decides whether its calls must be looked at for a tool."""

    session: SessionTrace
    tools: frozenset[str]
    last_us: int

    @classmethod
    def of(cls, session: SessionTrace) -> _Seen:
        tools = frozenset(call.tool_id for call in session.calls)
        return cls(session, tools, max((call.start_us or 0 for call in session.calls), default=0))

    def split(self, start_us: int) -> tuple[SessionTrace, SessionTrace]:
        """Its calls before a time and those from then on; a call of unknown time counts as before."""
        calls = self.session.calls
        later = tuple(call for call in calls if (call.start_us or 0) >= start_us)
        earlier = tuple(call for call in calls if (call.start_us or 0) < start_us)
        return replace(self.session, calls=earlier), replace(self.session, calls=later)


@dataclass(slots=True)
class _Tally:
    """Sums over the sessions of one tool; turns are one number for each occurrence."""

    offered: int = 0
    fitted: int = 0
    taken: int = 0
    raised: int = 0
    use_turns: list[int] = field(default_factory=list[int])
    hand_turns: list[int] = field(default_factory=list[int])
    earlier_turns: list[int] = field(default_factory=list[int])


def _measure(
    sessions: Sequence[SessionTrace], tools: Sequence[RegisteredTool], since: datetime, is_cut: bool
) -> dict[str, Adoption]:
    seen = [_Seen.of(session) for session in sessions]
    if is_cut:
        # Older calls may not have been read, so nothing is claimed of the time before the first that was.
        times = [call.start_us for session in sessions for call in session.calls if call.start_us is not None]
        since = max(since, from_micros(min(times))) if times else since
    return {tool.record.tool_id: _adoption(tool, seen, since) for tool in tools}


def _adoption(tool: RegisteredTool, seen: Iterable[_Seen], since: datetime) -> Adoption:
    started = tool.record.in_service_since
    since = since if started is None else max(since, started)
    tally = _tally(tool.current.definition, seen, to_micros(since))
    by_hand = tally.hand_turns or tally.earlier_turns
    return Adoption(
        since=since,
        offered=tally.offered,
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


def _tally(definition: SynthesizedTool, seen: Iterable[_Seen], start_us: int) -> _Tally:
    tally = _Tally()
    chain = frozenset(step.tool_id for step in definition.steps)
    for each in seen:
        is_offered = each.last_us >= start_us
        tally.offered += is_offered
        if definition.tool_id not in each.tools and not chain <= each.tools:
            continue
        earlier, later = each.split(start_us)
        tally.earlier_turns += [_turns(instance) for instance in _by_hand(earlier, definition)]
        if is_offered:
            _add(tally, later, definition, chain)
    return tally


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
