"""An exported function does what a run of its definition does, without TwinRaven."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, settings
from hypothesis import strategies as st

from tests.unit.flow.fakes import define, step
from tests.unit.registry.exports.worlds import World, definitions, load, quickly, writes
from twinraven.flow import FlowExecutor, FlowResult, compile_flow
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidDefinition
from twinraven.registry import SynthesizedTool
from twinraven.registry.exports.python import python_module, python_name

_SLOW = settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
PARAMETERS = st.fixed_dictionaries(
    {"q": st.sampled_from(["", "b-2", "12"])},
    optional={"maybe": st.just(3), "many": st.just([{"id": 1}, 2]), "class": st.just("x")},
)


@_SLOW
@given(definitions(is_rich=False), PARAMETERS, st.integers(0, 255), st.sampled_from([0, 0, 15, 40]))
def test_a_chain_does_the_same_as_code(
    definition: SynthesizedTool, parameters: dict[str, Any], seed: int, failing: int
) -> None:
    """Chains with loops and retries make the same calls and give the same answer as an exported function."""
    asyncio.run(compare(definition, parameters, seed, failing))


@_SLOW
@given(definitions(is_rich=True), PARAMETERS, st.integers(0, 255), st.sampled_from([0, 15, 40, 70]))
def test_everything_does_the_same_as_code(
    definition: SynthesizedTool, parameters: dict[str, Any], seed: int, failing: int
) -> None:
    """So do definitions with conditions, fallbacks, skipped failures, abort conditions and steps side by side."""
    asyncio.run(compare(definition, parameters, seed, failing))


async def compare(definition: SynthesizedTool, parameters: dict[str, Any], seed: int, failing: int) -> None:
    try:
        compile_flow(definition)
    except InvalidDefinition:
        assume(False)
    ours, theirs = World(seed, failing), World(seed, failing)
    executor = FlowExecutor(sleep=lambda _: asyncio.sleep(0))
    result: FlowResult = await quickly(lambda: executor.run(definition, parameters, ours.invoke, writes=writes))
    text = python_module(definition, writes=writes)
    module = load(text)
    function = module[python_name(definition)]
    named = {"class_" if name == "class" else name: value for name, value in parameters.items()}
    event(result.status)
    if result.status == "failed":
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the tool raised
            await quickly(lambda: function(theirs.call, **named))
    else:
        answer = await quickly(lambda: function(theirs.call, **named))
        assert canonical_json(without_words(answer)) == canonical_json(without_words(result.output)), text
    overlaps = any(step.parallelizable_with or step.for_each for step in definition.steps)
    if result.status == "success" or not overlaps:
        assert theirs.made == ours.made, text


def without_words(answer: Any) -> Any:
    """An answer whose errors are reduced to their codes."""
    if not isinstance(answer, dict) or "incomplete" not in answer:
        return cast("Any", answer)
    whole = cast("dict[str, Any]", answer)
    shortened = [{**each, "error": each["error"] and each["error"]["code"]} for each in whole["incomplete"]]
    return {**whole, "incomplete": shortened}


@pytest.mark.parametrize("fields", [{"timeout_ms": 20}, {}])
async def test_a_late_tool_ends_the_function(fields: dict[str, Any]) -> None:
    """A step's own limit and the limit of the whole end an exported function as they end a run."""
    own = {} if fields else {"timeout_ms": 20}
    definition = define(step("slow", {}, **own), step("never", {}), **fields)
    function = load(python_module(definition, writes=writes))[python_name(definition)]
    called: list[str] = []

    async def call(tool_id: str, arguments: dict[str, Any]) -> Any:
        called.append(tool_id)
        await asyncio.sleep(5)

    with pytest.raises(Exception) as late:  # noqa: PT011 - the class is the export's own
        await function(call)
    assert getattr(late.value, "code", None) == "TOOL_TIMEOUT"
    assert called == ["slow"]
