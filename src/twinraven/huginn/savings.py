"""What learned tools would have saved in recorded sessions.

The agent is assumed to take a tool wherever it fits: wherever its first call occurs and every parameter's value was
already known. A turn is saved when all its calls had already been made by a composite in that session, with no write
since. Every use counts, also those whose calls nobody needed; calls the session never made are extra.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinraven.huginn.rehearsal import Attempt, LearnedTool, MadeCall, Rehearsal, nearest_equal
from twinraven.huginn.traces import SessionTrace


@dataclass(slots=True)
class Use:
    """One use of one tool in one session."""

    tool: LearnedTool
    attempt: Attempt
    seqs: tuple[int | None, ...]
    turns_saved: list[int] = field(default_factory=list[int])

    @property
    def extra_calls(self) -> int:
        return sum(seq is None for seq in self.seqs)

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_id": self.tool.tool_id,
            "parameters": self.attempt.parameters,
            "calls": [
                {"tool": call.tool_id, "params": call.params, "seq": seq}
                for call, seq in zip(self.attempt.calls, self.seqs, strict=True)
            ],
            "turns_saved": self.turns_saved,
        }


@dataclass(slots=True)
class Savings:
    """What uses came to, over some sessions."""

    uses: int = 0
    misses: int = 0
    turns_saved: int = 0
    extra_calls: int = 0

    def add(self, use: Use) -> None:
        self.uses += 1
        self.misses += use.extra_calls > 0
        self.turns_saved += len(use.turns_saved)
        self.extra_calls += use.extra_calls


async def uses_in(session: SessionTrace, tools: Sequence[LearnedTool], rehearsal: Rehearsal) -> list[Use]:
    """The uses an agent with these tools, best first, would have made in a session."""
    uses: list[Use] = []
    made: dict[str, Use] = {}
    covered: list[Use | None] = []
    for position, call in enumerate(session.calls):
        if call.key in made:
            covered.append(made[call.key])
            continue
        covered.append(None)
        if rehearsal.writes(call.tool_id):
            made.clear()
            continue
        use = await _use_at(session, position, tools, rehearsal)
        if use is not None:
            uses.append(use)
            made.update(dict.fromkeys((inner.key for inner in use.attempt.calls), use))
    _credit_turns(session, covered)
    return uses


async def _use_at(
    session: SessionTrace, position: int, tools: Sequence[LearnedTool], rehearsal: Rehearsal
) -> Use | None:
    call = session.calls[position]
    for tool in tools:
        if tool.first.tool_id != call.tool_id:
            continue
        attempt = await rehearsal.attempt(tool, session, position)
        if attempt is not None:
            return Use(tool, attempt, _sequence_numbers(session, position, attempt.calls))
    return None


def _sequence_numbers(session: SessionTrace, position: int, calls: Iterable[MadeCall]) -> tuple[int | None, ...]:
    found = (nearest_equal(session, call.key, position) for call in calls)
    return tuple(None if call is None else call.seq for call in found)


def _credit_turns(session: SessionTrace, covered: Sequence[Use | None]) -> None:
    """A turn whose calls were all covered is credited to the use that covered the first of them."""
    turns: dict[int, list[Use | None]] = {}
    for call, use in zip(session.calls, covered, strict=True):
        turns.setdefault(call.turn, []).append(use)
    for turn, uses in turns.items():
        if uses[0] is not None and all(uses):
            uses[0].turns_saved.append(turn)
