"""What a step does when it runs: its inputs, its condition, its list, its time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.flow.fakes import FakeTools, define, run, seed_json, slow, step
from twinraven.flow import FlowExecutor
from twinraven.foundation.errors import InvalidInput, ToolError
from twinraven.registry import SynthesizedTool

pytestmark = pytest.mark.req("TR-16")


@pytest.mark.req("RG-02")
async def test_the_formats_own_example_runs() -> None:
    """Parameters, defaults and wiring of the example reach the three tools as its author meant."""
    tools = FakeTools(
        search=lambda params: {"top_result_url": f"/{params['query']}"},
        read=lambda params: {"text": f"text of {params['url']}"},
        summarize=lambda params: params,
    )
    result = await run(SynthesizedTool.from_json(seed_json()), tools, {"query": "ravens"})
    assert result.status == "success"
    assert tools.params == [
        {"query": "ravens"},
        {"url": "/ravens"},
        {"content": "text of /ravens", "max_length": 500},
    ]
    assert tools.timeouts == [5000, 10000, 15000]
    assert result.output == {
        "result": {"content": "text of /ravens", "max_length": 500},
        "earlier": [
            {"tool_id": "search", "output": {"top_result_url": "/ravens"}},
            {"tool_id": "read", "output": {"text": "text of /ravens"}},
        ],
    }


async def test_parameters_are_checked_before_anything_is_called() -> None:
    """What the schema forbids is raised, names the field, and calls nothing."""
    tools = FakeTools()
    with pytest.raises(InvalidInput, match="query"):
        await run(SynthesizedTool.from_json(seed_json()), tools, {"query": 7})
    assert tools.made == []


async def test_inputs_come_from_everywhere_a_mapping_can_reach() -> None:
    """Parameters, earlier inputs and outputs, wiring, nesting and literals arrive as they are."""
    tools = FakeTools(first=lambda _: {"rows": [{"id": 1}, {"id": 2}]})
    tool = define(
        step("first", {"given": "$.parameters.x"}),
        step(
            "echo",
            {
                "from_output": "$.steps[0].output.rows[1].id",
                "from_input": "$.steps[0].input.given",
                "from_wiring": "$.internal_wiring.0.rows[0]",
                "nested": {"list": ["$.parameters.x", 5, None]},
                "literal": "$$.x",
            },
        ),
        internal_wiring={"0": {"rows": "$.steps[0].output.rows"}},
    )
    await run(tool, tools, {"x": "given"})
    assert tools.params[1] == {
        "from_output": 2,
        "from_input": "given",
        "from_wiring": {"id": 1},
        "nested": {"list": ["given", 5, None]},
        "literal": "$.x",
    }


async def test_a_tool_cannot_change_what_other_steps_see() -> None:
    """Tools get copies: one that scribbles on its arguments leaves outputs, records and literals as they were."""

    def scribble(params: dict[str, Any]) -> str:
        params["rows"].append("scribble")
        params["fixed"]["x"] = "scribble"
        return "done"

    tools = FakeTools(first=lambda _: [1, 2], scribble=scribble)
    mapping = {"rows": "$.steps[0].output", "fixed": {"x": 1}}
    tool = define(step("first"), step("scribble", mapping), step("scribble", mapping), step("echo", mapping))
    result = await run(tool, tools)
    assert result.steps[3].output == result.steps[1].inputs[0] == {"rows": [1, 2], "fixed": {"x": 1}}
    assert tool.steps[1].input_mapping["fixed"] == {"x": 1}


async def test_a_false_condition_skips_the_step() -> None:
    """A skipped step calls nothing, gives null, and is told apart in the result and in the output."""
    tools = FakeTools()
    tool = define(
        step("echo", {"x": 1}),
        step("echo", {"x": 2}, condition="$.steps[0].output.x > 5"),
        step(
            "echo", {"seen": "$.steps[1].output", "status": "$.steps[1].status"}, condition="$.steps[0].output.x == 1"
        ),
    )
    result = await run(tool, tools)
    assert [part.status for part in result.steps] == ["ran", "skipped", "ran"]
    assert result.steps[2].output == {"seen": None, "status": "skipped"}
    assert result.output["incomplete"] == [{"tool_id": "echo", "status": "skipped", "error": None}]


async def test_for_each_keeps_the_order_and_bounds_the_crowd() -> None:
    """A map over a list gives the outputs in the list's order, however they finish, at most eight at once."""

    async def work(params: dict[str, Any]) -> int:
        await asyncio.sleep(0.001 * (30 - params["n"]))
        return params["n"] * 10

    tools = FakeTools(work=work)
    tool = define(step("work", {"n": "$.item.n", "tag": "$.parameters.tag"}, for_each="$.parameters.rows"))
    result = await run(tool, tools, {"rows": [{"n": n} for n in range(30)], "tag": "t"})
    assert result.output["result"] == [n * 10 for n in range(30)]
    assert [params["n"] for params in result.steps[0].inputs] == list(range(30))
    assert tools.most_running == 8
    assert sorted(run.item or 0 for _, _, run in tools.made) == list(range(30))


async def test_writes_over_a_list_keep_their_order() -> None:
    """Effects of a map happen one after another, in the order of the list."""
    tools = FakeTools(work=slow(0.001))
    tool = define(step("work", {"n": "$.item"}, for_each="$.parameters.rows"))
    await run(tool, tools, {"rows": [3, 1, 2]}, writers={"work"})
    assert [params["n"] for params in tools.params] == [3, 1, 2]
    assert tools.most_running == 1


@pytest.mark.parametrize(("rows", "made"), [([], 0), (None, 0), ([5], 1)])
async def test_an_empty_or_missing_list_is_no_work(rows: list[int] | None, made: int) -> None:
    """No elements, or no list at all, gives an empty list and no call."""
    tools = FakeTools()
    result = await run(define(step("echo", {"x": "$.item"}, for_each="$.parameters.rows")), tools, {"rows": rows})
    assert result.status == "success"
    assert len(result.output["result"]) == len(tools.made) == made


@pytest.mark.parametrize("rows", [list(range(6)), "not a list", {"a": 1}])
async def test_a_list_that_is_none_or_too_long_fails_the_step(rows: Any) -> None:
    """More elements than allowed, or something else than a list, is an error that says so; nothing is cut off."""
    tools = FakeTools()
    tool = define(step("echo", {"x": "$.item"}, for_each="$.parameters.rows", max_items=5))
    result = await run(tool, tools, {"rows": rows})
    assert tools.made == []
    assert result.error is not None
    assert result.error.code == "VALIDATION_FAILED"
    assert "for_each" in result.error.message


async def test_a_step_gets_its_own_time_or_that_of_the_whole() -> None:
    """A step without a time inherits the composite's; a step that outlives its own fails with TOOL_TIMEOUT."""
    tools = FakeTools(late=slow(5))
    result = await run(define(step(), step("late", timeout_ms=20), timeout_ms=900), tools)
    assert tools.timeouts == [900, 20]
    assert result.error is not None
    assert result.error.code == "TOOL_TIMEOUT"
    assert result.error.details["step_index"] == 1
    assert tools.running == 0


async def test_the_whole_has_a_time_of_its_own() -> None:
    """When the composite's time is over it ends, names itself, and says what had run."""
    tools = FakeTools(late=slow(5))
    result = await run(define(step(), step("late"), step(), timeout_ms=30), tools)
    assert result.error is not None
    assert result.error.code == "TOOL_TIMEOUT"
    assert "'composite' did not finish within 30 ms" in result.error.message
    assert [part.status for part in result.steps] == ["ran", "cancelled", "not_run"]
    assert tools.running == 0


async def test_an_output_mapping_decides_what_the_caller_gets() -> None:
    """With an output mapping the caller gets that and nothing else."""
    tool = define(
        step("echo", {"x": 1}), step("echo", {"y": 2}), output={"both": ["$.steps[0].output.x", "$.steps[1].output.y"]}
    )
    assert (await run(tool, FakeTools())).output == {"both": [1, 2]}


async def test_outputs_that_are_not_json_become_json_or_fail() -> None:
    """Later steps see the JSON form of what a tool returned; a value without one is that tool's failure."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    tools = FakeTools(pair=lambda _: {"pair": (1, 2)}, deep=lambda _: deep)
    good = await run(define(step("pair"), step("echo", {"x": "$.steps[0].output.pair[1]"})), tools)
    assert good.steps[1].output == {"x": 2}
    bad = await run(define(step("deep")), tools)
    assert bad.error is not None
    assert bad.error.code == "OUTPUT_INVALID"


async def test_the_result_says_what_ran() -> None:
    """Inputs, output, attempts and times of every step are in the result, as JSON too."""
    moments = iter(range(0, 1_000_000, 1000))
    executor = FlowExecutor(micros=lambda: next(moments))
    result = await executor.run(define(step("echo", {"x": 1}), step()), {}, FakeTools())
    body = result.as_json()
    assert result.latency_ms == 2
    assert body["steps"][0] == {
        "step_index": 0,
        "tool_id": "echo",
        "status": "ran",
        "attempts": 1,
        "latency_ms": 1,
        "inputs": [{"x": 1}],
        "output": {"x": 1},
        "error": None,
    }
    assert body["status"] == "success"
    assert body["error"] is None


async def test_errors_of_the_invoker_itself_are_not_swallowed() -> None:
    """Only named errors are a tool's failure; anything else is a fault in the machinery and surfaces as it is."""

    def broken(_: dict[str, Any]) -> Any:
        raise ZeroDivisionError("a bug")

    def late(_: dict[str, Any]) -> Any:
        raise TimeoutError("not ours")

    tools = FakeTools(broken=broken, late=late, wait=slow(5))
    parallel = define(step("wait", parallelizable_with=[1]), step("broken", parallelizable_with=[0]))
    for definition in (define(step("broken"), step()), parallel):
        with pytest.raises(ZeroDivisionError):
            await run(definition, tools)
    with pytest.raises(TimeoutError, match="not ours"):
        await run(define(step("late", timeout_ms=1000)), tools)
    assert tools.running == 0


async def test_plans_are_kept_but_not_for_ever() -> None:
    """An executor compiles a definition once and forgets the oldest of many."""
    executor = FlowExecutor()
    first = define(step())
    plan = executor.plan(first)
    assert executor.plan(first) is plan
    others = [define(step()) for _ in range(300)]
    for other in others:
        executor.plan(other)
    assert executor.plan(first) is not plan
    assert executor.plan(others[-1]).definition is others[-1]


async def test_a_failure_without_a_code_of_its_own_is_the_tools() -> None:
    """A plain tool error reaches the caller with the step, the tool and the words."""

    def broken(_: dict[str, Any]) -> Any:
        raise ToolError("no such page")

    result = await run(define(step(), step("broken")), FakeTools(broken=broken))
    assert result.status == "failed"
    assert result.output is None
    assert result.error is not None
    assert result.error.code == "TOOL_FAILED"
    assert result.error.message == "step 1 (broken) failed: no such page"
    assert result.error.details == {"step_index": 1, "tool_id": "broken", "changed": []}
