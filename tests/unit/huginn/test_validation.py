"""Validation: what passes, what does not, and the words it says so with."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.huginn.billing_world import INVOICE, LOAD, LOOKUP, SessionScript, billing_sessions, traces
from tests.unit.huginn.test_synthesis import synthesize
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn import Criteria, SessionTrace, ToolCandidate, ToolFacts, ValidationResult
from twinraven.huginn.rehearsal import RecordedAnswers, Rehearsal
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.validation.judge import validate, wilson_low
from twinraven.huginn.validation.similarity import similarity
from twinraven.registry import SynthesizedTool

NOW = datetime(2026, 3, 2, tzinfo=UTC)


async def judge(
    tool: ToolCandidate, sessions: list[SessionTrace], criteria: Criteria | None = None
) -> ValidationResult:
    rehearsal = Rehearsal(RecordedAnswers(sessions), TraceIndex(), ToolFacts().writes)
    return await validate(tool, sessions, rehearsal, criteria or Criteria(), now=NOW)


def learned(*tools: str) -> ToolCandidate:
    tool = synthesize(billing_sessions(200, seed=31), *tools)
    assert isinstance(tool, ToolCandidate), tool
    return tool


@pytest.mark.req("TR-19")
async def test_a_sound_tool_passes_on_other_sessions() -> None:
    """Replay on sessions that synthesis did not see agrees in every use, and the result has every field."""
    verdict = await judge(learned(LOOKUP, LOAD, INVOICE), billing_sessions(100, seed=32))
    assert verdict.passed
    assert verdict.failure_reasons == ()
    assert verdict.sessions_replayed == 100
    assert verdict.hits == verdict.uses == 100
    assert verdict.error_parity
    assert verdict.latency_ratio is None
    assert (verdict.tool_id, verdict.tool_version) == ("search_customer_load_customer_get_invoice_each", 1)


@pytest.mark.req("TR-19")
async def test_a_wiring_error_cannot_hide() -> None:
    """A tool that takes the wrong field makes calls history cannot answer, and fails with a reason in words."""
    tool = learned(LOOKUP, LOAD)
    body = tool.definition.as_json()
    body["internal_wiring"]["0"]["customer_id"] = "$.steps[0].output.hits"
    wrong = ToolCandidate(SynthesizedTool.from_json(body), tool.chain)
    verdict = await judge(wrong, billing_sessions(100, seed=33))
    assert not verdict.passed
    assert verdict.hits == 0
    assert "with other arguments than the agent's" in verdict.failure_reasons[0]


@pytest.mark.req("TR-19")
async def test_too_little_evidence_is_said_as_such() -> None:
    """A tool that agrees everywhere but was tried too seldom is promising, not proven."""
    verdict = await judge(learned(LOOKUP, LOAD), billing_sessions(9, seed=34))
    assert not verdict.passed
    (reason,) = verdict.failure_reasons
    assert reason.startswith("promising: 9 of 12 sessions; the bound is wide (0.85 to 1), wait for more sessions")


@pytest.mark.req("TR-19")
async def test_a_tool_that_hides_failures_fails_on_parity() -> None:
    """Where the record shows a failing step, a composite that answers as if nothing happened is not equivalent."""
    tool = learned(LOOKUP, LOAD)
    body = tool.definition.as_json()
    body["output"] = {"always": "fine"}
    body["error_strategy"] = {**body["error_strategy"], "default_behavior": "skip", "abort_conditions": []}
    hiding = ToolCandidate(SynthesizedTool.from_json(body), tool.chain)
    sessions = [*billing_sessions(60, seed=35), *_failing(20)]
    assert (await judge(tool, sessions)).error_parity
    verdict = await judge(hiding, sessions)
    assert not verdict.error_parity
    assert any("as if nothing failed" in reason for reason in verdict.failure_reasons)


@pytest.mark.req("TR-19")
@pytest.mark.parametrize(("slowest", "passes"), [(1.0, True), (0.2, False)])
async def test_time_is_judged_where_it_was_measured(slowest: float, passes: bool) -> None:
    """With recorded latencies the ratio is measured from the overlap a map allows, and a limit on it holds."""
    timed = [_timed(session) for session in billing_sessions(100, seed=36)]
    verdict = await judge(learned(LOOKUP, LOAD, INVOICE), timed, Criteria(max_latency_ratio=slowest))
    assert verdict.latency_ratio is not None
    assert 0.3 < verdict.latency_ratio < 1.0
    assert verdict.passed is passes


@pytest.mark.req("TR-20")
async def test_the_score_names_its_method_and_threshold() -> None:
    """Mean, minimum, method and threshold are reported for both methods."""
    for method in ("exact_match", "cosine_tfidf"):
        criteria = Criteria(similarity=method, threshold=0.9)
        score = (await judge(learned(LOOKUP, LOAD), billing_sessions(40, seed=37), criteria)).equivalence_score
        assert (score.mean_similarity, score.min_similarity) == (1.0, 1.0)
        assert (score.method, score.threshold) == (method, 0.9)


@pytest.mark.req("TR-20")
def test_cosine_grades_what_exact_match_only_refuses() -> None:
    """Texts that share most words are nearly alike by words and not alike exactly."""
    pairs: list[tuple[Any, Any]] = [("the red fox ran far away", "the red fox ran away"), ("a b c", "x y z")]
    alike, different = similarity("cosine_tfidf")(pairs)
    assert 0.7 < alike < 1.0
    assert different == 0.0
    assert similarity("exact_match")(pairs) == [0.0, 0.0]


def test_an_unknown_method_is_named() -> None:
    """A similarity nobody wrote is refused with the ones there are."""
    with pytest.raises(InvalidInput, match="exact_match, cosine_tfidf"):
        similarity("vibes")


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_wilson_bound_lies_below_the_share(hits: int, misses: int) -> None:
    """The lower bound is a share, below the observed one, and rises with evidence."""
    total = hits + misses
    low = wilson_low(hits, total)
    assert 0.0 <= low <= (hits / total if total else 0.0) + 1e-12
    assert wilson_low(hits * 2, total * 2) >= low - 1e-12
    assert math.isclose(wilson_low(30, 30), 0.8865, abs_tol=1e-3)


def _failing(count: int) -> list[SessionTrace]:
    scripts: list[SessionScript] = []
    for number in range(count):
        script = SessionScript(f"f{number}", f"task-{number}")
        email, customer = f"f{number}@x.test", f"C-f{number}"
        script.call(LOOKUP, {"email": email}, {"hits": 1, "customer": {"id": customer}}, said=email)
        script.call(LOAD, {"customer_id": customer, "detail": "full"}, "no such customer", ok=False)
        scripts.append(script)
    return traces(scripts)


def _timed(session: SessionTrace) -> SessionTrace:
    calls = tuple(replace(call, latency_ms=100, start_us=call.seq * 1_000_000) for call in session.calls)
    return replace(session, calls=calls)
