"""Steps have ids, an order of their own and their own word on failure; definitions need not be learned ones."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.flow.fakes import FakeTools, define, failing, run, step
from twinraven.flow import FlowDefinition, FlowExecutor, compile_flow
from twinraven.foundation.errors import InvalidDefinition


def test_a_definition_that_nobody_learned_reads_and_writes_back() -> None:
    """A flow is its parameters, steps, wiring, strategy, output and time; what a learned tool adds is refused."""
    body: dict[str, Any] = {
        "tool_id": "onboard",
        "description": "A process.",
        "parameters": {"type": "object"},
        "internal_wiring": {"load": {"x": "$.steps.load.output.x"}},
        "steps": [
            step("load", step_index=0, id="load"),
            step("save", {"x": "$.internal_wiring.load.x"}, step_index=1, id="save", after=["load"], on_failure="skip"),
        ],
        "output": {"saved": "$.steps.save.output"},
        "timeout_ms": 9000,
    }
    definition = FlowDefinition.from_json(body)
    assert FlowDefinition.from_json(definition.as_json()) == definition
    assert {name: definition.as_json()[name] for name in ("output", "timeout_ms")} == {
        "output": body["output"],
        "timeout_ms": 9000,
    }
    with pytest.raises(InvalidDefinition, match="source_chain_id"):
        FlowDefinition.from_json({**body, "source_chain_id": "c"})


async def test_steps_are_found_by_id() -> None:
    """References, wiring and conditions name steps by id or by index, alike."""
    tool = define(
        step("echo", {"x": 1}, id="load"),
        step("echo", {"a": "$.steps.load.output.x", "b": "$.steps[0].output.x", "c": "$.internal_wiring.load.y"}),
        step("never", condition="$.steps.load.status != 'ran'"),
        internal_wiring={"load": {"y": "$.steps.load.output.x"}},
    )
    tools = FakeTools()
    result = await run(tool, tools)
    assert result.steps[1].output == {"a": 1, "b": 1, "c": 1}
    assert [made.key_suffix for _, _, made in tools.made] == ["load", "1"]


async def test_many_steps_stand_side_by_side_without_naming_each_other() -> None:
    """200 steps that come after one and before one take no pairs; how many steps there may be is an argument."""
    wide = [step("echo", {"n": number}, after=["first"]) for number in range(200)]
    tool = define(step("echo", id="first"), *wide, step("echo", {"last": "$.steps[200].output.n"}))
    with pytest.raises(InvalidDefinition, match="1 to 64 steps"):
        compile_flow(tool)
    graph = compile_flow(tool, max_steps=500).graph
    assert graph.blockers[1] == 1
    assert graph.blockers[201] == 200
    tools = FakeTools(echo=lambda params: params)
    result = await FlowExecutor(max_steps=500).run(tool, {}, tools)
    assert result.output["result"] == {"last": 199}


@pytest.mark.parametrize("links", [{}, {"after": True}])
def test_a_long_chain_is_compiled_in_time_that_grows_with_its_length(links: dict[str, bool]) -> None:
    """A flow comes from a request, so a long one must not hold up the loop: each step waits for the one before it."""
    chain = [
        step("echo", {"n": 1}, id=f"s{number}", **({"after": [f"s{number - 1}"] if number else []} if links else {}))
        for number in range(2_000)
    ]
    begun = time.process_time()
    graph = compile_flow(define(*chain), max_steps=2_000).graph
    assert time.process_time() - begun < 5
    assert graph.before == ((), *((number,) for number in range(1_999)))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (step(id="3"), "steps[0].id"),
        (step(id="a.b"), "steps[0].id"),
        (step(after=["b"]), "steps[0].after"),
        (step(after=["0"]), "steps[0].after"),
        (step("echo", {"x": "$.steps.b.output"}), "steps[0].input_mapping"),
        (step("echo", {"x": "$.steps.nobody.output"}), "steps[0].input_mapping"),
    ],
)
def test_ids_that_cannot_be_are_refused(body: dict[str, Any], field: str) -> None:
    """An id begins with a letter, and what comes before a step must be before it."""
    with pytest.raises(InvalidDefinition) as caught:
        compile_flow(define(body, step(id="b")))
    assert caught.value.details["field"].startswith(field)


def test_two_steps_of_one_id_are_refused() -> None:
    """An id names one step."""
    with pytest.raises(InvalidDefinition, match="already the id of step 0"):
        compile_flow(define(step(id="a"), step(id="a")))


@pytest.mark.parametrize(
    ("word", "whole", "status", "calls"),
    [("skip", "abort", "success", 3), ("abort", "skip", "failed", 2), ("retry", "skip", "failed", 3)],
)
async def test_a_step_has_its_own_word_on_failure(word: str, whole: str, status: str, calls: int) -> None:
    """`on_failure` of a step stands above the default of the whole."""
    tools = FakeTools(flaky=failing())
    tool = define(step(), step("flaky", on_failure=word), step(), error_strategy={"default_behavior": whole})
    assert (await run(tool, tools)).status == status
    assert len(tools.made) == calls


async def test_an_optional_step_may_lose_its_retries_and_its_fallback() -> None:
    """A step that may be skipped is, also after its fallback failed; without the word that ends the run."""
    strategy = {"fallback_steps": {"0": [step("flaky", step_index=0)]}}
    optional = define(step("flaky", on_failure="skip"), step(), error_strategy=strategy)
    result = await run(optional, FakeTools(flaky=failing()))
    assert result.status == "success"
    assert result.steps[0].status == "failed"
    needed = define(step("flaky"), step(), error_strategy=strategy)
    assert (await run(needed, FakeTools(flaky=failing()))).status == "failed"
