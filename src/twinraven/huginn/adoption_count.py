"""Counts the adoption of one learned tool in one session: whether it fitted, was taken, and the turns of each way.

A tool fits where a session called it or made its chain by hand. An occurrence with the tool is a call of it and the
calls of its steps' tools straight after: an agent whose use failed and who then does the chain by hand spent both.
What it saved is the difference to the mean occurrence by hand, times the uses. The tool's own inner calls are nobody's
work by hand, and a script's calls are not the agent's own, so neither is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from twinraven.catalog import BATCH_READS
from twinraven.huginn.instances import Instance, find_repeats, instances_of
from twinraven.huginn.traces import SessionTrace
from twinraven.registry import SynthesizedTool


@dataclass(frozen=True, slots=True, eq=False)
class CountedTool:
    """A learned tool to count: its definition, the tools of its chain, and from when on its uses count."""

    definition: SynthesizedTool
    chain: frozenset[str]
    start_us: int

    @classmethod
    def of(cls, definition: SynthesizedTool, start_us: int) -> CountedTool:
        return cls(definition, frozenset(step.tool_id for step in definition.steps), start_us)

    def may_fit(self, tools: AbstractSet[str]) -> bool:
        # What a batch asks for may be calls inside it, so any chain may be in it.
        return self.definition.tool_id in tools or self.chain <= tools or BATCH_READS in tools


class SessionFigures(NamedTuple):
    """The adoption figures of one tool in one session, or their sums."""

    fitted: int = 0
    taken: int = 0
    raised: int = 0
    uses: int = 0
    use_turns: int = 0
    by_hand: int = 0
    hand_turns: int = 0
    earlier: int = 0
    """Occurrences by hand before the tool came into service."""
    earlier_turns: int = 0


def figures_of(session: SessionTrace, tool: CountedTool) -> SessionFigures:
    """Count a session's calls before and since a tool came into service."""
    definition = tool.definition
    before, since = _split(session, tool.start_us)
    earlier = [_turns(each) for each in _by_hand(before, definition)]
    uses = _uses(since, definition.tool_id, tool.chain)
    spent = {position for use in uses for position in use}
    found = list(_by_hand(since, definition))
    by_hand = [_turns(each) for each in found if not any(spent.intersection(run) for run in each.runs)]
    return SessionFigures(
        fitted=int(bool(uses or found)),
        taken=int(bool(uses)),
        raised=sum(call.raised for call in since.calls if call.tool_id == definition.tool_id),
        uses=len(uses),
        use_turns=sum(len({since.calls[position].turn for position in use}) for use in uses),
        by_hand=len(by_hand),
        hand_turns=sum(by_hand),
        earlier=len(earlier),
        earlier_turns=sum(earlier),
    )


def last_time(session: SessionTrace) -> int:
    """Return the time of a session's last call; an unknown time counts as before all."""
    return max((call.start_us or 0 for call in session.calls), default=0)


def _split(session: SessionTrace, start_us: int) -> tuple[SessionTrace, SessionTrace]:
    """Return a session's calls before a time, and those from then on."""
    later = tuple(call for call in session.calls if (call.start_us or 0) >= start_us)
    earlier = tuple(call for call in session.calls if (call.start_us or 0) < start_us)
    return replace(session, calls=earlier), replace(session, calls=later)


def _uses(session: SessionTrace, tool_id: str, chain: frozenset[str]) -> list[list[int]]:
    """Return the positions of each use: calls of the tool in one turn, and calls of its steps' tools straight after."""
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
    """Yield the occurrences of a definition's chain among calls; immediate repeats of a tool are one step there."""
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
