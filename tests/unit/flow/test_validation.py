"""Definitions that make no sense are refused before anything runs, with step and field named."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.flow.fakes import FakeTools, define, entry, run, seed_json, step
from twinraven.catalog import ToolEntry
from twinraven.flow import compile_flow
from twinraven.foundation.errors import InvalidDefinition, TwinRavenError
from twinraven.registry import SynthesizedTool, validate_tool

_NEEDY: dict[str, Any] = {"type": "object", "properties": {"url": {}, "n": {"default": 3}}, "required": ["url", "n"]}
_STRICT: dict[str, Any] = {"type": "object", "properties": {"x": {}}, "additionalProperties": False}
_FIRST = "$.steps[0].output.x"


def known(tool_id: str) -> ToolEntry | None:
    schemas: dict[str, Any] = {"echo": {"type": "object"}, "needy": _NEEDY, "strict": _STRICT}
    schemas |= {"search": {"type": "object"}, "read": {"type": "object"}, "summarize": {"type": "object"}}
    return entry(tool_id, input_schema=schemas[tool_id]) if tool_id in schemas else None


def refusal(*steps: dict[str, Any], **fields: Any) -> InvalidDefinition:
    with pytest.raises(InvalidDefinition) as caught:
        validate_tool(define(*steps, **fields), known)
    assert caught.value.message.startswith(caught.value.details["field"])
    return caught.value


@pytest.mark.req("RG-02")
def test_the_formats_own_example_is_valid() -> None:
    """The registry format's example passes as it stands."""
    validate_tool(SynthesizedTool.from_json(seed_json()), known)


@pytest.mark.parametrize(
    ("second", "field"),
    [
        (step("nobody"), "steps[1].tool_id"),
        (step("composite"), "steps[1].tool_id"),
        (step("bad\nname"), "steps[1].tool_id"),
        (step(step_index=2), "steps[1].step_index"),
        (step("echo", {"x": "$.steps[1].output"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.steps[2].output"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.steps[9].output"}), "steps[1].input_mapping"),
        (step("echo", {"x": ["$.steps[0].outputs"]}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.steps"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.steps['0a'].output"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.internal_wiring.0.nope"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.internal_wiring.1.own"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.internal_wiring"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.item"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.fallback[0].output"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.elsewhere"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$[0]"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.parameters.undeclared"}), "steps[1].input_mapping"),
        (step("echo", {"x": "$.a["}), "steps[1].input_mapping.x"),
        (step("echo", {"x": "y" * 70_000}), "steps[1].input_mapping.x"),
        (step(condition="$.steps[0].output =="), "steps[1].condition"),
        (step(condition="$.steps[1].output == null"), "steps[1].condition"),
        (step(condition="$.item == 1", for_each=_FIRST), "steps[1].condition"),
        (step(for_each="steps"), "steps[1].for_each"),
        (step(for_each="$.steps[2].output"), "steps[1].for_each"),
        (step(for_each="$.item.more"), "steps[1].for_each"),
        (step(for_each=_FIRST, max_items=0), "steps[1].max_items"),
        (step(for_each=_FIRST, max_items=5000), "steps[1].max_items"),
        (step(timeout_ms=0), "steps[1].timeout_ms"),
        (step(timeout_ms=-5), "steps[1].timeout_ms"),
        (step(parallelizable_with=[1]), "steps[1].parallelizable_with"),
        (step(parallelizable_with=[7]), "steps[1].parallelizable_with"),
        (step("echo", {"x": _FIRST}, parallelizable_with=[0]), "steps[1].parallelizable_with"),
        (step("needy", {"other": 1}), "steps[1].input_mapping"),
        (step("strict", {"x": 1, "y": 2}), "steps[1].input_mapping.y"),
    ],
)
def test_a_senseless_step_is_refused(second: dict[str, Any], field: str) -> None:
    """Every mistake a step can contain is found and named by the step's place and the field's name."""
    error = refusal(
        step(),
        second,
        step(),
        internal_wiring={"0": {"url": _FIRST}, "1": {"own": "$.steps[1].output"}},
        parameters={"type": "object", "properties": {"q": {"type": "string"}}},
    )
    assert error.details["field"] == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tool_id": "Has Spaces"}, "tool_id"),
        ({"tool_id": "trailing\n"}, "tool_id"),
        ({"tool_id": "../escape"}, "tool_id"),
        ({"tool_id": "x" * 129}, "tool_id"),
        ({"description": " "}, "description"),
        ({"version": 0}, "version"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"parameters": {"type": "array"}}, "parameters"),
        ({"parameters": {"type": "object", "properties": {"x": {"type": "strng"}}}}, "parameters"),
        ({"parameters": {"type": "object", "$ref": "http://example.com/schema"}}, "parameters"),
        ({"internal_wiring": {"x": {}}}, "internal_wiring"),
        ({"internal_wiring": {"2": {"a": 1}}}, "internal_wiring.2"),
        ({"internal_wiring": {"0": {"a": "$.steps[1].output"}}}, "internal_wiring.0.a"),
        ({"internal_wiring": {"0": {"a": "$.internal_wiring.0.a"}}}, "internal_wiring.0.a"),
        ({"output": {"x": "$.steps[5].output"}}, "output"),
        ({"output": {"x": "$.item"}}, "output"),
        ({"error_strategy": {"retry_policy": {"5": {"max_retries": 1}}}}, "error_strategy.retry_policy"),
        ({"error_strategy": {"retry_policy": {"0": {"max_retries": -1}}}}, "error_strategy.retry_policy.0.max_retries"),
        (
            {"error_strategy": {"retry_policy": {"0": {"max_retries": 999}}}},
            "error_strategy.retry_policy.0.max_retries",
        ),
        (
            {"error_strategy": {"retry_policy": {"0": {"max_retries": 1, "backoff_ms": -1}}}},
            "error_strategy.retry_policy.0.backoff_ms",
        ),
        ({"error_strategy": {"fallback_steps": {"9": [step(step_index=0)]}}}, "error_strategy.fallback_steps"),
        (
            {"error_strategy": {"fallback_steps": {"0": [step("nobody", step_index=0)]}}},
            "error_strategy.fallback_steps.0[0].tool_id",
        ),
        (
            {"error_strategy": {"fallback_steps": {"0": [step(step_index=0, for_each="$.parameters.l")]}}},
            "error_strategy.fallback_steps.0[0]",
        ),
        (
            {"error_strategy": {"fallback_steps": {"0": [step("echo", {"x": "$.fallback[0].output"}, step_index=0)]}}},
            "error_strategy.fallback_steps.0[0].input_mapping",
        ),
        (
            {"error_strategy": {"fallback_steps": {"0": [step(step_index=0)] * 17}}},
            "error_strategy.fallback_steps.0",
        ),
        ({"error_strategy": {"abort_conditions": ["$.steps[0].output ="]}}, "error_strategy.abort_conditions[0]"),
        ({"error_strategy": {"abort_conditions": ["$.steps[7].output"]}}, "error_strategy.abort_conditions[0]"),
        ({"error_strategy": {"abort_conditions": ["true"] * 65}}, "error_strategy.abort_conditions"),
    ],
)
def test_a_senseless_whole_is_refused(fields: dict[str, Any], field: str) -> None:
    """Mistakes outside the steps are found and named as well."""
    assert refusal(step(), step(), **fields).details["field"] == field


def test_needs_that_go_through_other_steps_forbid_running_at_once() -> None:
    """Two steps joined by a third cannot be parallel, whoever says so."""
    error = refusal(
        step(parallelizable_with=[2]),
        step("echo", {"x": _FIRST}),
        step("echo", {"x": "$.steps[1].output"}, parallelizable_with=[0]),
    )
    assert "step 2 uses what step 0 gives" in error.message


@pytest.mark.req("TR-15")
@pytest.mark.parametrize("name", ["", "Upper", "with space", "../up", "9lives", "é", "x" * 129])
def test_the_name_of_a_tool_is_a_slug(name: str) -> None:
    """A name that files, people and model providers could take for something else is refused."""
    with pytest.raises(InvalidDefinition) as caught:
        validate_tool(define(step(), step(), tool_id=name), known)
    assert caught.value.details["field"] == "tool_id"


@pytest.mark.req("TR-15")
def test_a_single_call_is_no_composite_but_a_single_map_is() -> None:
    """One step is too few, unless it runs over a list."""
    assert refusal(step()).details["field"] == "steps"
    validate_tool(define(step("echo", {"x": "$.item"}, for_each="$.parameters.l")), known)
    assert refusal().details["field"] == "steps"
    assert refusal(*[step()] * 65).details["field"] == "steps"


@given(st.data())
@settings(max_examples=200)
def test_whatever_is_put_where_the_answer_is_a_result_or_a_named_error(data: st.DataObject) -> None:
    """Random expressions in random places validate or are refused by InvalidDefinition, and nothing else happens."""
    text = data.draw(
        st.text(alphabet="$.[]'0123stepoutinalwrgmfb_=!&() ", max_size=40)
        | st.sampled_from(["$.steps[0].output", "$.internal_wiring.0.url", "$.parameters.query", "$.item.id", "null"])
    )
    body = copy.deepcopy(seed_json())
    place: Any = data.draw(
        st.sampled_from(
            [
                (body["steps"][1], "condition"),
                (body["steps"][2], "for_each"),
                (body["steps"][1]["input_mapping"], "url"),
                (body["internal_wiring"]["1"], "content"),
                (body["error_strategy"]["abort_conditions"], 0),
            ]
        )
    )
    place[0][place[1]] = text
    try:
        validate_tool(SynthesizedTool.from_json(body), known)
    except TwinRavenError as error:
        assert isinstance(error, InvalidDefinition), error


async def test_what_is_refused_is_not_run() -> None:
    """The executor compiles before it calls, so a contradiction reaches no tool."""
    tools = FakeTools()
    with pytest.raises(InvalidDefinition):
        await run(define(step(), step("echo", {"x": "$.steps[3].output"})), tools)
    assert tools.made == []


def test_the_time_for_the_whole_follows_from_the_steps() -> None:
    """Without a limit of its own, a composite may take what its attempts, waits and fallbacks may, and a second."""
    seed_ms = 5_000 + 3 * 10_000 + 3_000 + 15_000
    assert compile_flow(SynthesizedTool.from_json(seed_json())).budget_ms == seed_ms + 1_000
    assert compile_flow(define(step(), timeout_ms=77)).budget_ms == 77
    assert compile_flow(define(step(timeout_ms=8_000, for_each="$.parameters.l", max_items=9))).budget_ms == 17_000


def test_deep_schemas_and_evidence_built_in_python_are_refused_too() -> None:
    """A definition that never was JSON is bounded like one that was."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"x": deep}
    tool = define(step(), step())
    with pytest.raises(InvalidDefinition, match="evidence"):
        validate_tool(replace(tool, evidence=deep), known)
    with pytest.raises(InvalidDefinition, match="parameters"):
        validate_tool(replace(tool, parameters=deep), known)
