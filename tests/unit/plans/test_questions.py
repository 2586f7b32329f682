"""The questions of a plan: a model that is bound to their form cannot answer with what is no plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plans.world import LOOK, RESERVE, Cut, FakeRun, carry_out
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.json_schema import compile_schema
from twinraven.plans.errors import PlanUnrecoverable
from twinraven.plans.mending import mend_plan
from twinraven.plans.model import Plan
from twinraven.plans.questions import FEW, ask_plan, choice_schema, plan_schema

TOOLS = ("look", "reserve")
TEXT = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=300)
STEP_ID = st.from_regex(r"\A[1-9][0-9]{0,2}\Z")


@st.composite
def fitting_steps(draw: st.DrawFn) -> dict[str, Any]:
    """A step that calls, with or without arguments, or one that thinks."""
    target = draw(st.sampled_from(({"agent": "llm"}, {"tool": "look"}, {"tool": "reserve", "arguments": {"n": 1}})))
    return {"step_id": draw(STEP_ID), "description": draw(TEXT), **target}


@given(goal=TEXT, steps=st.lists(fitting_steps(), min_size=1, max_size=6))
def test_whatever_fits_the_form_is_a_plan(goal: str, steps: list[dict[str, Any]]) -> None:
    """An answer that fits the schema needs at most a rule that numbers its steps anew."""
    stated = {"goal": goal, "steps": steps}
    compile_schema(plan_schema(TOOLS)).check(stated, field="answer")
    plan = Plan.from_json(mend_plan(stated, goal, TOOLS))
    assert [step.tool for step in plan.steps] == [step.get("tool") for step in steps]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool": "rm_rf"},
        {},
        {"tool": None, "agent": None},
        {"tool": "look", "agent": "llm"},
        {"agent": "root"},
        {"agent": "llm", "description": "x" * 301},
        {"agent": "llm", "step_id": "first"},
        {"agent": "llm", "depends_on": ["9"]},
    ],
)
def test_what_no_plan_can_have_does_not_fit(wrong: dict[str, Any]) -> None:
    """Tools that are not offered, both or neither of tool and agent, endless texts and invented ids are no answer."""
    stated = {"goal": "Sell.", "steps": [{"step_id": "1", "description": "Do it.", **wrong}]}
    with pytest.raises(InvalidInput):
        compile_schema(plan_schema(TOOLS)).check(stated, field="answer")


def test_a_choice_is_a_tool_that_is_offered_or_thinking() -> None:
    """A step without a tool is given one from the list, or to the model; where there are no tools, to the model."""
    choice = compile_schema(choice_schema(TOOLS))
    for stated in ({"tool": "look"}, {"agent": "llm"}):
        choice.check(stated, field="answer")
    for stated in ({"tool": None}, {"tool": "rm_rf"}, {}):
        with pytest.raises(InvalidInput):
            choice.check(stated, field="answer")
    for schema in (choice_schema(()), plan_schema(())):
        assert "tool" not in json.dumps(schema)


async def test_a_plan_that_was_cut_off_is_asked_for_again_shorter() -> None:
    """The model is told of its limit, not of a missing bracket, and is bound to a few steps."""
    whole = json.dumps({"goal": "Sell.", "steps": [{"step_id": "1", "description": "Think.", "agent": "llm"}]})
    questions: list[dict[str, Any]] = []

    def say(question: dict[str, Any]) -> Any:
        questions.append(question)
        return {1: Cut('{"goal": "' + "x" * 5_000), 2: whole}.get(len(questions), "Done.")

    ended = await carry_out(FakeRun(say), ttl=3, request="Sell a lamp.")
    assert ended["status"] == "completed"
    assert questions[0] == ask_plan("Sell a lamp.", [LOOK, RESERVE]).as_json()
    assert questions[1]["schema"]["properties"]["steps"]["maxItems"] == FEW
    _, said, objection = questions[1]["messages"]
    assert len(said["content"]) <= 200
    assert "cut off at 2 tokens" in objection["content"]


async def test_a_limit_that_is_too_low_is_named() -> None:
    """A model that is cut off every time ends the plan, and the error says which setting to change."""
    ended = await carry_out(FakeRun(lambda _: Cut('{"goal": "Sell')), ttl=3, request="Sell a lamp.")
    assert isinstance(ended, PlanUnrecoverable)
    assert "model.max_tokens" in ended.message
