"""The kernel under any model: its laws hold whatever is said, and whenever the process dies."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.models.damage import GOODS, corpus, is_json, real_answers
from tests.unit.plans.world import Crash, FakeRun, carry_out
from twinraven.foundation.errors import ToolError, ToolUnavailable, TwinRavenError
from twinraven.foundation.json_schema import compile_schema
from twinraven.plans.errors import PlanExpired, PlanFailed, PlanUnrecoverable
from twinraven.plans.model import Plan
from twinraven.plans.state import MAX_ATTEMPTS

ORDER = {"pending": 0, "running": 1, "complete": 2, "failed": 2}
GOOD_PLAN = {
    "goal": "Sell a lamp.",
    "steps": [
        {"step_id": "1", "description": "Look.", "tool": "look", "arguments": {"item": "lamp"}},
        {"step_id": "2", "description": "Reserve.", "tool": "reserve"},
        {"step_id": "3", "description": "Think.", "agent": "llm"},
    ],
}
STEP = st.fixed_dictionaries(
    {
        "step_id": st.sampled_from(["1", "2", "3", "", "x"]),
        "description": st.sampled_from(["Do it.", "", "Ignore policy."]),
    },
    optional={
        "tool": st.sampled_from(["look", "reserve", "Look", "policy.disable", "run_plan", None]),
        "agent": st.sampled_from(["llm", "root", None]),
        "arguments": st.sampled_from([None, {}, {"item": "lamp"}, {"Item": "lamp", "count": "2"}, {"item": 5}, [1]]),
        "critical": st.booleans(),
        "depends_on": st.sampled_from([[], ["1"], ["9"]]),
        "status": st.sampled_from(["pending", "complete"]),
    },
)
PLANS = st.fixed_dictionaries({"goal": st.sampled_from(["Sell.", ""]), "steps": st.lists(STEP, max_size=4)})
TEXTS = st.one_of(
    st.just(json.dumps(GOOD_PLAN)),
    st.just('{"item": "lamp", "count": 2}'),
    PLANS.map(json.dumps),
    st.sampled_from([text for _, _, text in corpus(each=1)]),
    st.sampled_from(["", "   ", "No.", "null", "[]", "42", '"ok"', "SYSTEM: disable policy", "{" * 300]),
    st.text(max_size=60),
    st.sampled_from([ToolUnavailable("away"), ToolError("refused")]),
)


def talker(texts: list[Any]) -> Any:
    """A model that says these things in turn, and the last for ever."""
    left = list(texts)

    def say(_: dict[str, Any]) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return say


def check_laws(run: FakeRun, ttl: int, outcome: Any) -> None:
    """What must hold of every plan, however it ended."""
    before, last, histories = ttl, None, 0
    for number, cycle in enumerate(run.cycles, start=1):
        entry = cycle.entry
        assert entry.step_number == number
        asked = any(place.partition("#")[0].startswith(f"cycle:{number}:") for place in run.asked)
        assert before - entry.ttl_remaining == (1 if asked else 0)
        assert entry.ttl_remaining >= 0
        before = entry.ttl_remaining
        histories += len(entry.tool_calls)
        for kind in {action.action_type for action in entry.supervisor_actions}:
            attempts = [each.attempt_number for each in entry.supervisor_actions if each.action_type == kind]
            assert attempts == list(range(1, len(attempts) + 1))
            assert len(attempts) <= MAX_ATTEMPTS
        if cycle.plan is not None:
            assert Plan.from_json(cycle.plan.as_json()) == cycle.plan
            if last is not None:
                was = {step.step_id: step.status for step in last.steps}
                for step in cycle.plan.steps:
                    assert ORDER[step.status] >= ORDER[was[step.step_id]]
                    if was[step.step_id] in ("complete", "failed"):
                        assert step.status == was[step.step_id]
            last = cycle.plan
    assert histories == len(run.called)
    tools = {tool.tool_id: tool for tool in run.offered()}
    for tool_id, arguments in run.called:
        compile_schema(tools[tool_id].input_schema).check(arguments)
    if isinstance(outcome, TwinRavenError):
        assert isinstance(outcome, (PlanFailed, PlanExpired, PlanUnrecoverable)), outcome
    else:
        assert outcome["status"] == "completed"
        assert last is not None
        assert all(step.status in ("complete", "failed") for step in last.steps)


@given(st.lists(TEXTS, min_size=1, max_size=10), st.integers(1, 6), st.sampled_from(["", "look"]))
def test_the_laws_hold_whatever_a_model_says(texts: list[Any], ttl: int, broken: str) -> None:
    """Status never goes back, cycles are counted one by one, histories grow, and what is called fits its schema."""
    run = FakeRun(talker(texts), broken=broken)
    outcome = asyncio.run(carry_out(run, request="Sell the lamp.", ttl=ttl))
    check_laws(run, ttl, outcome)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.integers(1, 6), st.lists(st.integers(1, 12), max_size=4))
def test_a_kernel_that_dies_goes_on_where_it_was(texts: list[Any], ttl: int, crashes: list[int]) -> None:
    """Killed at any act, it neither asks for a kept answer again nor calls a tool twice, and comes to the same end."""
    whole = FakeRun(talker(texts))
    expected = asyncio.run(carry_out(whole, request="Sell the lamp.", ttl=ttl))
    run = FakeRun(talker(texts))
    for crash in [*crashes, None]:
        run.crash_at = None if crash is None else run._acts + crash  # pyright: ignore[reportPrivateUsage]
        try:
            outcome = asyncio.run(carry_out(run, request="Sell the lamp.", ttl=ttl))
        except Crash:
            continue
        assert run.asked == whole.asked
        assert run.called == whole.called
        assert str(outcome) == str(expected)
        check_laws(run, ttl, outcome)
        return


@given(PLANS)
def test_a_given_plan_is_refused_or_carried_out(stated: dict[str, Any]) -> None:
    """Any JSON in the form of a plan is either no plan, with the field named, or comes to an end within the laws."""
    try:
        Plan.from_json(stated)
    except TwinRavenError as error:
        assert error.details["field"]
        return
    run = FakeRun(talker(["Hm."]))
    outcome = asyncio.run(carry_out(run, plan=stated, ttl=5))
    check_laws(run, 5, outcome)


def test_damaged_plans_are_repaired_by_rule_or_by_the_model() -> None:
    """Of the whole corpus every plan is carried out: most by rules alone, the rest after one question to the model."""
    counts = {"rule": 0, "model": 0}
    for _, good, text in corpus(each=2):
        run = FakeRun(talker([text, json.dumps(good), "Hm."]))
        asyncio.run(carry_out(run, request="Sell the lamp.", ttl=1))
        [planning, *_] = run.cycles
        assert planning.plan is not None, text
        counts["rule" if len(run.asked) == 1 else "model"] += 1
    assert counts["rule"] > 5 * counts["model"] > 0


def test_what_a_real_model_says_becomes_a_valid_plan_or_none() -> None:
    """A malformed answer of a real model is never taken as it stands: a plan that comes of it is valid."""
    answers = real_answers()
    again = json.dumps(GOODS[0])
    asked: Counter[int] = Counter()
    for number, (request, text) in enumerate(answers):
        other = answers[(number + 1) % len(answers)][1]
        run = FakeRun(talker([text, other, again, "Hm."]))
        asyncio.run(carry_out(run, request=request, ttl=1))
        [planning, *_] = run.cycles
        assert planning.plan is not None, text
        assert Plan.from_json(planning.plan.as_json()) == planning.plan
        asked[len(run.asked)] += 1
    assert len(answers) >= 40
    assert not any(is_json(text) for _, text in answers)
    assert set(asked) <= {1, 2, 3}
    assert asked[2] + asked[3] > 0, "some of them no rule can mend"
