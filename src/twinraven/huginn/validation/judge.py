"""Judging a tool on sessions its synthesis did not see.

Wherever the tool fits, it is run on the record, and what the agent did next is compared with what the tool did: the
same calls with the same arguments and answers, or not. What the agent never did says nothing about the wiring and costs
extra calls instead. Where calls failed in the record, the composite must fail or say what is missing, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from twinraven.foundation.ids import new_uuid
from twinraven.huginn.rehearsal import Attempt, LearnedTool, Rehearsal
from twinraven.huginn.traces import RecordedCall, SessionTrace
from twinraven.huginn.validation.model import Criteria, EquivalenceScore, ValidationResult
from twinraven.huginn.validation.similarity import similarity

_NOTHING = "\0nothing"


@dataclass(slots=True)
class _Tally:
    """What replaying came to."""

    uses: int = 0
    hits: int = 0
    pairs: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    owners: list[str] = field(default_factory=list[str])
    failures: int = 0
    masked: int = 0
    original_ms: int = 0
    composite_ms: int = 0
    timed: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tool is tried."""

    tool: LearnedTool
    session: SessionTrace
    position: int
    rehearsal: Rehearsal

    @property
    def first(self) -> RecordedCall:
        return self.session.calls[self.position]


def wilson_low(hits: int, total: int, *, z: float = 1.96) -> float:
    """The lower end of the 95 % interval for a share."""
    if total == 0:
        return 0.0
    share = hits / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, (centre - spread) / (1 + z * z / total))


async def validate(
    tool: LearnedTool,
    sessions: Sequence[SessionTrace],
    rehearsal: Rehearsal,
    criteria: Criteria,
    *,
    now: datetime,
) -> ValidationResult:
    """Replay every place where the tool fits, and say whether it passes."""
    tally = _Tally()
    for session in sessions:
        for position, call in enumerate(session.calls):
            if call.tool_id != tool.first.tool_id:
                continue
            attempt = await rehearsal.attempt(tool, session, position)
            if attempt is not None:
                _weigh(tally, attempt, _Place(tool, session, position, rehearsal))
    return _verdict(tool, tally, criteria, now)


def _weigh(tally: _Tally, attempt: Attempt, place: _Place) -> None:
    if place.first.raised and place.tool.shape != "batch":
        tally.failures += 1
        tally.masked += _hides_failure(attempt)
        return
    expected = list(_expected(place))
    if not expected:
        return
    answers = _answers(attempt)
    made = {call.key for call in attempt.calls}
    good = True
    for call in expected:
        if call.raised and call.key not in answers:
            if call.key in made:
                tally.failures += 1
                tally.masked += _hides_failure(attempt)
            continue
        given = answers.get(call.key, _NOTHING)
        good = good and given is not _NOTHING
        tally.pairs.append((given, call.output))
        tally.owners.append(place.session.session_id)
    tally.uses += 1
    tally.hits += good
    _time(tally, place.first, expected)


def _expected(place: _Place) -> Iterator[RecordedCall]:
    """What the agent did next that the tool claims to do: up to a write, or a new start of the same kind."""
    tool, first, writes = place.tool, place.first, place.rehearsal.writes
    steps = tool.definition.steps
    once = {step.tool_id for step in steps[1:] if step.for_each is None}
    every = {step.tool_id for step in steps if step.for_each is not None}
    if tool.shape == "batch":
        yield first
    for call in place.session.calls[place.position + 1 :]:
        if writes(call.tool_id) or (call.tool_id == first.tool_id and tool.shape != "batch"):
            return
        if tool.shape == "batch" and (call.tool_id != first.tool_id or call.outside_input is not None):
            return
        if call.tool_id in every:
            yield call
        elif call.tool_id in once:
            once.discard(call.tool_id)
            yield call


def _hides_failure(attempt: Attempt) -> bool:
    """Whether a composite whose call failed says nothing of it."""
    output = attempt.result.output
    return attempt.result.status == "success" and not (isinstance(output, dict) and "incomplete" in output)


def _answers(attempt: Attempt) -> dict[str, Any]:
    """The answers a composite got, by call."""
    return {call.key: call.output for call in attempt.calls if call.answered}


def _time(tally: _Tally, first: RecordedCall, expected: Sequence[RecordedCall]) -> None:
    """One call after another in the record; together, per step, in the composite."""
    calls = [first, *(call for call in expected if call is not first)]
    if any(call.latency_ms is None for call in calls):
        tally.timed = False
        return
    tally.original_ms += sum(call.latency_ms or 0 for call in calls)
    slowest: dict[str, int] = {}
    for call in calls:
        slowest[call.tool_id] = max(slowest.get(call.tool_id, 0), call.latency_ms or 0)
    tally.composite_ms += sum(slowest.values())


def _verdict(tool: LearnedTool, tally: _Tally, criteria: Criteria, now: datetime) -> ValidationResult:
    scores = similarity(criteria.similarity)(tally.pairs)
    mean = sum(scores) / len(scores) if scores else 0.0
    low = wilson_low(tally.hits, tally.uses)
    ratio = tally.composite_ms / tally.original_ms if tally.timed and tally.original_ms else None
    reasons = list(_reasons(tally, mean, low, ratio, criteria))
    return ValidationResult(
        result_id=new_uuid(),
        tool_id=tool.tool_id,
        tool_version=tool.definition.version,
        sessions_replayed=len(set(tally.owners)),
        equivalence_score=EquivalenceScore(
            mean_similarity=mean,
            min_similarity=min(scores, default=0.0),
            method=criteria.similarity,
            threshold=criteria.threshold,
        ),
        error_parity=tally.masked == 0,
        latency_ratio=ratio,
        passed=not reasons,
        failure_reasons=tuple(reasons),
        validated_at=now,
        uses=tally.uses,
        hits=tally.hits,
        wired_low=low,
        failures_replayed=tally.failures,
    )


def _reasons(tally: _Tally, mean: float, low: float, ratio: float | None, criteria: Criteria) -> Iterator[str]:
    if tally.uses < criteria.min_uses:
        yield f"promising: {tally.uses} of {criteria.min_uses} uses; wait for more sessions before judging it"
    if tally.uses and mean < criteria.threshold:
        yield (
            f"its answers agree with the record by {mean:.3f} on average, {criteria.threshold} is asked: "
            f"{tally.uses - tally.hits} of {tally.uses} uses made a call with other arguments than the agent's"
        )
    elif tally.uses >= criteria.min_uses and low < criteria.least_wired:
        yield (
            f"{tally.hits} of {tally.uses} uses agree with the record; the lower bound {low:.3f} is under "
            f"{criteria.least_wired}"
        )
    if tally.masked:
        yield f"in {tally.masked} of {tally.failures} recorded failures it would have answered as if nothing failed"
    if ratio is not None and ratio > criteria.max_latency_ratio:
        yield f"it takes {ratio:.2f} of the time of the separate calls, at most {criteria.max_latency_ratio} is asked"
