"""Measures what learned tools would have saved in recorded sessions.

The agent is assumed to take a tool wherever it fits: wherever its first call occurs and every other parameter's value
was already known. Where several fit, it takes the one whose calls it goes on to make. A turn is saved when all its
calls had already been made by a composite in that session, with no write since, and none of them asks again for what
the agent had been told before. Every use counts, also those whose calls nobody needed; a call that the session did not
make before the next write, or had made already, is extra.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinraven.huginn.batching import BATCH_TOOL_ID, batch_at
from twinraven.huginn.rehearsal import MadeCall, Rehearsal, RehearsedRun, ToolCandidate
from twinraven.huginn.traces import RecordedCall, SessionTrace


@dataclass(slots=True)
class Use:
    """One use of one tool in one session; `tool` is None for the built-in batch."""

    tool: ToolCandidate | None
    position: int
    parameters: dict[str, Any]
    calls: Sequence[MadeCall]
    seqs: tuple[int | None, ...]
    turns_saved: list[int] = field(default_factory=list[int])
    plain_turns: int = 0
    """Saved turns that came straight on: nothing arrived from outside between the use and them."""

    @property
    def extra_calls(self) -> int:
        return sum(seq is None for seq in self.seqs)

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_id": BATCH_TOOL_ID if self.tool is None else self.tool.tool_id,
            "parameters": self.parameters,
            "calls": [
                {"tool": call.tool_id, "params": call.params, "seq": seq}
                for call, seq in zip(self.calls, self.seqs, strict=True)
            ],
            "turns_saved": self.turns_saved,
        }


@dataclass(slots=True)
class Savings:
    """The savings of uses, over some sessions."""

    uses: int = 0
    misses: int = 0
    turns_saved: int = 0
    plain_turns: int = 0
    extra_calls: int = 0

    def add(self, use: Use) -> None:
        self.uses += 1
        self.misses += use.extra_calls > 0
        self.turns_saved += len(use.turns_saved)
        self.plain_turns += use.plain_turns
        self.extra_calls += use.extra_calls

    def join(self, other: Savings) -> None:
        """Add what other uses came to."""
        self.uses += other.uses
        self.misses += other.misses
        self.turns_saved += other.turns_saved
        self.plain_turns += other.plain_turns
        self.extra_calls += other.extra_calls


class _Record:
    """A session's calls as savings are counted on them: stretches without a write, and what was asked before."""

    def __init__(self, session: SessionTrace, writes: Callable[[str], bool]) -> None:
        self.session = session
        self.stretch: list[int] = []
        """For each call, the number of runs of writes before it."""
        self.repeats: list[bool] = []
        """For each call, whether the agent had its answer already."""
        self._places: dict[tuple[int, str], list[int]] = {}
        number = 0
        writing: str | None = None
        for position, call in enumerate(session.calls):
            # Writes of one tool in a row end one stretch together: a composite may make them all.
            number += writing is not None and call.tool_id != writing
            writing = call.tool_id if writes(call.tool_id) else None
            places = self._places.setdefault((number, call.key), [])
            self.repeats.append(bool(places))
            places.append(position)
            self.stretch.append(number)

    def twin(self, key: str, position: int) -> int | None:
        """Return where the agent first makes this call, from here on and before the next write."""
        places = self._places.get((self.stretch[position], key), ())
        return places[0] if places and places[0] >= position else position if position in places else None


async def uses_in(
    session: SessionTrace, tools: Sequence[ToolCandidate], rehearsal: Rehearsal, *, with_batch: bool = False
) -> list[Use]:
    """Return the uses an agent with these tools, best first, would have made in a session."""
    record = _Record(session, rehearsal.writes)
    uses: list[Use] = []
    made: dict[str, Use] = {}
    covered: list[Use | None] = []
    for position, call in enumerate(session.calls):
        if call.key in made:
            covered.append(made[call.key])
            if rehearsal.writes(call.tool_id):
                made = {key: use for key, use in made.items() if key in _writes_of(use, rehearsal)}
            continue
        covered.append(None)
        if rehearsal.writes(call.tool_id):
            made.clear()
            continue
        use = await _use_at(record, position, tools, rehearsal)
        chosen = [] if use is None else [use]
        if with_batch and (use is None or not _needed(use, session)):
            ready, waiting = await _uses_in_a_batch(record, position, tools, rehearsal)
            batch = _batch_use(record, position, rehearsal, {*made, *waiting})
            if batch is not None:
                chosen = [batch, *(ready[inner.key] for inner in batch.calls if inner.key in ready)]
        uses += chosen
        for each in reversed(chosen):
            made.update(dict.fromkeys((inner.key for inner in each.calls), each))
    _credit_turns(record, covered)
    return uses


async def _uses_in_a_batch(
    record: _Record, position: int, tools: Sequence[ToolCandidate], rehearsal: Rehearsal
) -> tuple[dict[str, Use], set[str]]:
    """Return the uses of tools that a batch here could ask for, by the call that each begins with.

    And the calls that are better left for later, because the agent did not know yet what the tool asks for.
    """
    first_tools = {tool.first.tool_id for tool in tools}
    knowledge = rehearsal.knowledge(record.session)
    ready: dict[str, Use] = {}
    waiting: set[str] = set()
    for place, call in enumerate(record.session.calls[position + 1 :], start=position + 1):
        if call.outside_input is not None or rehearsal.writes(call.tool_id):
            break
        if call.tool_id not in first_tools or call.key in ready:
            continue
        use = await _use_at(record, place, tools, rehearsal)
        if use is None or not _needed(use, record.session):
            continue
        if all(knowledge.knows(value, position) for value in use.parameters.values()):
            ready[call.key] = use
        else:
            waiting.add(call.key)
    return ready, waiting


def _writes_of(use: Use, rehearsal: Rehearsal) -> set[str]:
    """Return the writes of a use: what was read before one of them is stale after it."""
    return {call.key for call in use.calls if rehearsal.writes(call.tool_id)}


async def _use_at(record: _Record, position: int, tools: Sequence[ToolCandidate], rehearsal: Rehearsal) -> Use | None:
    """Return the fitting tool whose calls are needed most; where none are, the one that stands first."""
    call = record.session.calls[position]
    best: Use | None = None
    best_rank = (0, 0)
    for tool in tools:
        if tool.first.tool_id != call.tool_id:
            continue
        attempt = await rehearsal.attempt(tool, record.session, position)
        if attempt is None:
            continue
        use = _as_use(tool, attempt, record, position)
        narrowed = await rehearsal.narrowed(
            tool, record.session, position, lambda made: record.twin(made.key, position) is not None
        )
        if narrowed is not None:
            other = _as_use(tool, narrowed, record, position)
            use = max(use, other, key=lambda one: (_needed(one, record.session), -one.extra_calls))
        needed = _needed(use, record.session)
        rank = (needed, -use.extra_calls if needed else 0)
        if best is None or rank > best_rank:
            best, best_rank = use, rank
    return best


def _as_use(tool: ToolCandidate, attempt: RehearsedRun, record: _Record, position: int) -> Use:
    return Use(tool, position, attempt.parameters, attempt.calls, _seqs(record, position, attempt.calls))


def _seqs(record: _Record, position: int, calls: Sequence[MadeCall]) -> tuple[int | None, ...]:
    twins = (record.twin(call.key, position) for call in calls)
    return tuple(None if twin is None else record.session.calls[twin].seq for twin in twins)


def _needed(use: Use, session: SessionTrace) -> int:
    """Return how many calls of a use the agent goes on to make."""
    here = session.calls[use.position].seq
    return sum(seq is not None and seq != here for seq in use.seqs)


def _batch_use(record: _Record, position: int, rehearsal: Rehearsal, left: set[str]) -> Use | None:
    """Return the batch that begins here, without the calls that were made already or are left for later."""

    def may_join(call: RecordedCall) -> bool:
        return call.key not in left and not rehearsal.writes(call.tool_id)

    calls = batch_at(record.session, position, rehearsal.knowledge(record.session), may_join)
    if calls is None:
        return None
    parameters = {"calls": [{"tool": call.tool_id, "arguments": call.params} for call in calls]}
    return Use(None, position, parameters, calls, _seqs(record, position, calls))


def _credit_turns(record: _Record, covered: Sequence[Use | None]) -> None:
    """A turn whose calls were all covered, none of them a repeat, is credited to the use that covered the first."""
    for turn, places in _by_turn(record.session):
        uses = [covered[place] for place in places]
        first = uses[0]
        if first is None or not all(uses) or any(record.repeats[place] for place in places):
            continue
        first.turns_saved.append(turn)
        calls = record.session.calls[first.position + 1 : places[-1] + 1]
        first.plain_turns += all(call.outside_input is None for call in calls)


def _by_turn(session: SessionTrace) -> Iterator[tuple[int, list[int]]]:
    turns: dict[int, list[int]] = {}
    for position, call in enumerate(session.calls):
        turns.setdefault(call.turn, []).append(position)
    yield from turns.items()
