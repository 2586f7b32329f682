"""Finds the instances of a chain in recorded sessions.

An instance is straight: nothing came from outside between its calls, and no step was asked for in an earlier model turn
than the one before it. Steps of one turn were asked for together, so none of them can have taken what another answered.
Immediate repeats of a tool are one run of one step, because an agent that looks at five orders in a row is doing one
thing five times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twinraven.huginn.traces import RecordedCall, SessionTrace


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One occurrence of a chain; `runs` holds, for each step, the positions of its calls."""

    session: SessionTrace
    runs: tuple[tuple[int, ...], ...]

    def calls(self, step: int) -> Iterator[RecordedCall]:
        return (self.session.calls[position] for position in self.runs[step])

    def last(self, step: int) -> RecordedCall:
        return self.session.calls[self.runs[step][-1]]

    def asked_together(self, step: int, call: RecordedCall) -> bool:
        """Return whether a step's last call belongs to the turn that made this call: its answer was unseen."""
        return self.last(step).turn >= call.turn

    @property
    def start(self) -> int:
        return self.runs[0][-1]

    @property
    def context(self) -> str:
        """The context that makes instances independent: the task or, where that is unknown, the input."""
        return self.session.task_id or self.session.calls[self.start].key


Runs = Sequence[tuple[int, ...]]
"""Runs of equal tools in one piece of a session, each as the positions of its calls."""

RunsOf = Callable[[SessionTrace], Iterable[Runs]]


class SessionsByPair:
    """Sessions by the tools that follow each other in them, so that a chain is looked for only where it can be."""

    def __init__(self, sessions: Sequence[SessionTrace]) -> None:
        self._sessions: dict[tuple[str, str], list[SessionTrace]] = {}
        self._runs: dict[SessionTrace, list[Runs]] = {}
        for session in sessions:
            for pair in {(call.tool_id, later.tool_id) for call, later in pairwise(session.calls)}:
                self._sessions.setdefault(pair, []).append(session)

    def holding(self, tools: Sequence[str]) -> Sequence[SessionTrace]:
        """Return the sessions that have the rarest two neighbours of a chain, in their order."""
        return min((self._sessions.get(pair, ()) for pair in pairwise(tools)), key=len)

    def runs(self, session: SessionTrace) -> list[Runs]:
        """Return the straight runs of a session, cut once for all chains."""
        runs = self._runs.get(session)
        if runs is None:
            runs = self._runs[session] = list(straight_runs(session))
        return runs


def straight_runs(session: SessionTrace) -> Iterator[list[tuple[int, ...]]]:
    """Yield the session cut where something came from outside; each piece as runs of equal tools."""
    runs: list[tuple[int, ...]] = []
    calls = session.calls
    for position, call in enumerate(calls):
        if position and call.outside_input is not None:
            yield runs
            runs = []
        if runs and calls[runs[-1][-1]].tool_id == call.tool_id:
            runs[-1] = (*runs[-1], position)
        else:
            runs.append((position,))
    if runs:
        yield runs


def find_instances(
    sessions: Iterable[SessionTrace], tools: Sequence[str], runs_of: RunsOf = straight_runs
) -> list[Instance]:
    """Find every straight instance of a chain, leftmost first and without overlap."""
    wanted = list(tools)
    length = len(wanted)
    found: list[Instance] = []
    for session in sessions:
        for runs in runs_of(session):
            names = [session.calls[run[0]].tool_id for run in runs]
            place = 0
            while place + length <= len(names):
                if names[place : place + length] == wanted and _in_turn(session, runs[place : place + length]):
                    found.append(Instance(session, tuple(runs[place : place + length])))
                    place += length
                else:
                    place += 1
    return found


def find_repeats(
    sessions: Iterable[SessionTrace], tools: Sequence[str], runs_of: RunsOf = straight_runs
) -> list[Instance]:
    """Find every straight run of a chain's one tool that has at least two different calls."""
    tool = tools[0]
    found: list[Instance] = []
    for session in sessions:
        for runs in runs_of(session):
            for run in runs:
                calls = [session.calls[position] for position in run]
                if calls[0].tool_id == tool and len({call.key for call in calls}) > 1:
                    found.append(Instance(session, (run,)))
    return found


def find_pairs(sessions: Iterable[SessionTrace], tool: str, runs_of: RunsOf = straight_runs) -> list[Instance]:
    """Find every straight run of one tool as a first call and those with other arguments that came after its answer."""
    found: list[Instance] = []
    for session in sessions:
        for runs in runs_of(session):
            for run in runs:
                first = session.calls[run[0]]
                pair = (run[:1], tuple(place for place in run[1:] if session.calls[place].key != first.key))
                if first.tool_id == tool and pair[1] and _in_turn(session, pair):
                    found.append(Instance(session, pair))
    return found


def instances_of(
    sessions: Iterable[SessionTrace], tools: Sequence[str], runs_of: RunsOf = straight_runs
) -> list[Instance]:
    """Return the instances of a chain, be it of different tools or of one tool that takes from its own answer."""
    if len(set(tools)) == 1:
        return find_pairs(sessions, tools[0], runs_of)
    return find_instances(sessions, tools, runs_of)


def _in_turn(session: SessionTrace, runs: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the steps were asked for in the order of turns, and the last one after an answer."""
    turns = [(session.calls[run[0]].turn, session.calls[run[-1]].turn) for run in runs]
    in_order = all(later[0] >= earlier[1] for earlier, later in pairwise(turns))
    return in_order and turns[-1][0] > turns[0][1]
