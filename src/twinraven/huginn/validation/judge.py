"""Judges a tool on sessions that its synthesis did not see.

Wherever the tool fits and the agent went on as the chain does, the tool is run on the record, and what the agent did is
compared with what the tool did: the same calls with the same arguments and answers, or not. Each session has one vote.
What the agent never did says nothing about the wiring and costs extra calls instead; of a map with a cap, the wiring
of all its elements is judged. Where calls failed in the record,
the composite must fail or say what is missing, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress
from typing import Any

from twinraven.foundation.ids import new_uuid
from twinraven.huginn.rehearsal import Rehearsal, RehearsedRun, ToolCandidate
from twinraven.huginn.traces import RecordedCall, SessionTrace
from twinraven.huginn.validation.model import MOST_DIFFERING, Criteria, EquivalenceScore, ValidationResult
from twinraven.huginn.validation.similarity import similarity
from twinraven.huginn.voting import Votes, set_aside

_NOTHING = "\0nothing"


@dataclass(slots=True)
class _Tally:
    """What replaying came to, on so many sessions."""

    sessions: int
    fitted: int = 0
    uses: int = 0
    hits: int = 0
    pairs: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    owners: list[SessionTrace] = field(default_factory=list[SessionTrace])
    steps: list[int] = field(default_factory=list[int])
    """For each pair, the step of the tool that it belongs to."""
    unheard: list[bool] = field(default_factory=list[bool])
    """For each pair, whether the tool makes another call than the agent, whose arguments nothing names."""
    failures: int = 0
    masked: int = 0
    unasked: int = 0
    """Uses in which the tool writes what the agent did not."""
    original_ms: int = 0
    composite_ms: int = 0
    timed: bool = True
    differing: list[str] = field(default_factory=list[str])
    """The first events of uses that differ from the record."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tool is tried."""

    tool: ToolCandidate
    session: SessionTrace
    position: int
    rehearsal: Rehearsal

    @property
    def first(self) -> RecordedCall:
        return self.session.calls[self.position]


@dataclass(frozen=True, slots=True)
class _Score:
    """The agreement of a tool with the record, by votes."""

    mean: float
    least: float
    votes: float
    counted: float
    """The votes less those set aside, because nothing names what the agent asked for."""
    agreed: float
    by_step: dict[int, set[SessionTrace]]
    """Sessions that agree with each step."""
    carried: bool
    unusual: tuple[str, ...]
    """Why steps rest on too few sessions, of all or of those that come to them, where nobody is named."""

    @property
    def low(self) -> float:
        return wilson_low(self.agreed, self.counted, z=SURENESS)


SURENESS = 1.2816
"""Nine times in ten, agreement lies above its lower bound. A surer bound refuses a dozen sessions for one mistake."""


def wilson_low(hits: float, total: float, *, z: float = 1.96) -> float:
    """Return the lower end of the Wilson interval for a share; by default that of 95 %."""
    if total <= 0:
        return 0.0
    share = min(1.0, hits / total)
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, (centre - spread) / (1 + z * z / total))


async def validate(
    tool: ToolCandidate,
    sessions: Sequence[SessionTrace],
    rehearsal: Rehearsal,
    criteria: Criteria,
    *,
    now: datetime,
    votes: Votes | None = None,
) -> ValidationResult:
    """Replay every place where the tool fits, and say whether it passes."""
    tally = _Tally(len(sessions))
    for session in sessions:
        for position, call in enumerate(session.calls):
            if call.tool_id != tool.first.tool_id:
                continue
            attempt = await rehearsal.whole(tool, session, position)
            if attempt is not None:
                _weigh(tally, attempt, _Place(tool, session, position, rehearsal))
    return _verdict(tool, tally, criteria, now, votes or Votes(sessions))


def _weigh(tally: _Tally, attempt: RehearsedRun, place: _Place) -> None:
    tally.fitted += 1
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
    for step, call in expected:
        if call.raised and call.key not in answers:
            if call.key in made:
                tally.failures += 1
                tally.masked += _hides_failure(attempt)
            continue
        given = answers.get(call.key, _NOTHING)
        good = good and given is not _NOTHING
        tally.pairs.append((given, call.output))
        tally.owners.append(place.session)
        tally.steps.append(step)
        tally.unheard.append(given is _NOTHING and _is_unheard_of(call, place))
    tally.uses += 1
    tally.hits += good
    if not good and len(tally.differing) < MOST_DIFFERING:
        tally.differing.append(str(place.first.event_id))
    tally.unasked += _writes_unasked(attempt, place, {call.key for _, call in expected})
    _time(tally, place, [call for _, call in expected])


def _expected(place: _Place) -> Iterator[tuple[int, RecordedCall]]:
    """Return the agent's next calls that the tool claims to make, up to another write or a new start."""
    tool, first, writes = place.tool, place.first, place.rehearsal.writes
    steps = tool.definition.steps
    calls = place.session.calls[place.position + 1 :]
    if tool.shape == "batch":
        yield 0, first
        for call in calls:
            if call.tool_id != first.tool_id or call.outside_input is not None:
                return
            yield 0, call
        return
    number = 1
    knowledge = place.rehearsal.knowledge(place.session)
    for index, call in enumerate(calls, start=place.position + 1):
        if number == len(steps) or (writes(call.tool_id) and call.tool_id != steps[number].tool_id):
            return
        if call.tool_id == steps[number].tool_id:
            if _comes_from_elsewhere(call, knowledge.since(call.params), place, index):
                continue
            if steps[number].for_each is not None and knowledge.was_told(call.params, place.position):
                continue
            yield number, call
            number += steps[number].for_each is None
        elif call.tool_id == first.tool_id:
            return


def _comes_from_elsewhere(call: RecordedCall, since: int, place: _Place, index: int) -> bool:
    """Return whether a call that came between, and is none of the tool's, first named what this call is given."""
    if not place.position + 1 < since <= index:
        return False
    between = place.session.calls[since - 1]
    return between.tool_id != call.tool_id and all(
        between.tool_id != step.tool_id for step in place.tool.definition.steps
    )


def _is_unheard_of(call: RecordedCall, place: _Place) -> bool:
    """Return whether nothing before a call names what it is given: the agent made it up."""
    position = place.session.calls.index(call)
    return place.rehearsal.knowledge(place.session).is_unheard_of(call.params, position)


def _writes_unasked(attempt: RehearsedRun, place: _Place, expected: set[str]) -> bool:
    """Return whether a composite makes a write that the agent, going on as the tool does, did not make."""
    return any(call.key not in expected and place.rehearsal.writes(call.tool_id) for call in attempt.calls)


def _hides_failure(attempt: RehearsedRun) -> bool:
    """Return whether a composite whose call failed says nothing of it."""
    output = attempt.result.output
    return attempt.result.status == "success" and not (isinstance(output, dict) and "incomplete" in output)


def _answers(attempt: RehearsedRun) -> dict[str, Any]:
    """Return the answers a composite got, by call."""
    return {call.key: call.output for call in attempt.calls if call.answered}


def _time(tally: _Tally, place: _Place, expected: Sequence[RecordedCall]) -> None:
    """One call after another in the record; in the composite the reads of a step together, writes one by one."""
    calls = [place.first, *(call for call in expected if call is not place.first)]
    if any(call.latency_ms is None for call in calls):
        tally.timed = False
        return
    tally.original_ms += sum(call.latency_ms or 0 for call in calls)
    slowest: dict[str, int] = {}
    for call in calls:
        before, own = slowest.get(call.tool_id, 0), call.latency_ms or 0
        slowest[call.tool_id] = before + own if place.rehearsal.writes(call.tool_id) else max(before, own)
    tally.composite_ms += sum(slowest.values())


def _score(tool: ToolCandidate, tally: _Tally, criteria: Criteria, votes: Votes) -> _Score:
    scores = similarity(criteria.similarity)(tally.pairs)
    weights = votes.weigh(tally.owners)
    total = sum(weights)
    agreed = sum(score * weight for score, weight in zip(scores, weights, strict=True))
    counted = total - set_aside(sum(compress(weights, tally.unheard)), total)
    voters: dict[int, set[SessionTrace]] = {}
    for step, owner, score in zip(tally.steps, tally.owners, scores, strict=True):
        if score >= criteria.threshold:
            voters.setdefault(step, set()).add(owner)
    return _Score(
        mean=agreed / counted if counted else 0.0,
        least=min(scores, default=0.0),
        votes=total,
        counted=counted,
        agreed=agreed,
        by_step=voters,
        carried=all(votes.carries(owners) for owners in voters.values()),
        unusual=tuple(_unusual_steps(tool, voters, votes, tally.sessions)),
    )


def _unusual_steps(
    tool: ToolCandidate, voters: dict[int, set[SessionTrace]], votes: Votes, judged: int
) -> Iterator[str]:
    steps = tool.definition.steps
    for number in sorted(voters):
        refusal = votes.refusal_of_rare(voters[number], among=judged)
        if refusal is None and number:
            refusal = votes.refusal_to_lead(voters[number], after=steps[number - 1].tool_id, to=steps[number].tool_id)
        if refusal is not None:
            yield f"step {number} ({steps[number].tool_id}): {refusal}"


def _verdict(tool: ToolCandidate, tally: _Tally, criteria: Criteria, now: datetime, votes: Votes) -> ValidationResult:
    score = _score(tool, tally, criteria, votes)
    ratio = tally.composite_ms / tally.original_ms if tally.timed and tally.original_ms else None
    reasons = list(_reasons(tool, tally, score, ratio, criteria))
    backing = votes.backing(tally.owners)
    return ValidationResult(
        result_id=new_uuid(),
        tool_id=tool.tool_id,
        tool_version=tool.definition.version,
        sessions_replayed=backing.sessions,
        equivalence_score=EquivalenceScore(
            mean_similarity=score.mean,
            min_similarity=score.least,
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
        wired_low=score.low,
        failures_replayed=tally.failures,
        principals=backing.principals,
        differing=tuple(tally.differing),
    )


def _reasons(
    tool: ToolCandidate, tally: _Tally, score: _Score, ratio: float | None, criteria: Criteria
) -> Iterator[str]:
    yield from _too_little(tool, tally, score, criteria)
    if score.votes and score.mean < criteria.threshold:
        yield (
            f"its answers agree with the record by {score.mean:.3f} on average, {criteria.threshold} is asked: "
            f"{tally.uses - tally.hits} of {tally.uses} uses made a call with other arguments than the agent's"
        )
    elif score.votes >= criteria.min_uses and score.low < criteria.least_wired:
        yield (
            f"{tally.hits} of {tally.uses} uses agree with the record; the lower bound {score.low:.3f} is under "
            f"{criteria.least_wired}"
        )
    if not score.carried:
        yield "only one of several principals does this; a tool for all rests on the sessions of at least two"
    yield from score.unusual
    if tally.unasked:
        yield f"in {tally.unasked} of {tally.uses} uses it would have written what the agent did not"
    if tally.masked:
        yield f"in {tally.masked} of {tally.failures} recorded failures it would have answered as if nothing failed"
    if ratio is not None and ratio > criteria.max_latency_ratio:
        yield f"it takes {ratio:.2f} of the time of the separate calls, at most {criteria.max_latency_ratio} is asked"


def _too_little(tool: ToolCandidate, tally: _Tally, score: _Score, criteria: Criteria) -> Iterator[str]:
    """Return whether there is too little to judge by; never "wait" where waiting would change nothing."""
    if not tally.fitted:
        yield (
            "it fits nowhere in the record: what it asks of the caller was never known when the chain began, "
            "or its schema refuses what agents gave"
        )
        return
    if not tally.uses:
        yield f"it fits at {tally.fitted} places, and at none of them the agent went on as the tool does"
        return
    if score.votes < criteria.min_uses:
        yield (
            f"promising: {math.floor(score.votes)} of {criteria.min_uses} sessions; the bound is wide "
            f"({score.low:.2f} to 1), wait for more sessions before judging it"
        )
        return
    first = 0 if tool.shape == "batch" else 1
    # Of as many sessions as are asked, some may hold a mistake.
    enough = math.ceil(criteria.min_uses * criteria.threshold)
    for number in range(first, len(tool.definition.steps)):
        own = len(score.by_step.get(number, ()))
        if own < enough and score.mean >= criteria.threshold:
            step = tool.definition.steps[number].tool_id
            yield f"step {number} ({step}) agrees in {own} sessions of its own, {enough} are asked"
