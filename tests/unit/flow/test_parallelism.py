"""Steps run at once only where both sides allow it, and what comes out does not depend on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.flow.fakes import FakeTools, define, failing, run, slow, step
from twinraven.flow import compile_flow
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import ToolError
from twinraven.registry import SynthesizedTool

pytestmark = pytest.mark.req("TR-16")


async def test_steps_that_allow_each_other_run_at_once() -> None:
    """Two tools that wait for each other both end, so they did run at the same time; the third came after both."""
    barrier = asyncio.Barrier(2)

    async def meet(_: dict[str, Any]) -> str:
        await asyncio.wait_for(barrier.wait(), 5)
        return "met"

    tools = FakeTools(meet=meet)
    tool = define(
        step("meet", parallelizable_with=[1]),
        step("meet", parallelizable_with=[0]),
        step("echo", {"a": "$.steps[0].output", "b": "$.steps[1].output"}),
    )
    result = await run(tool, tools)
    assert result.output["result"] == {"a": "met", "b": "met"}
    assert tools.called == ["meet", "meet", "echo"]


@pytest.mark.parametrize(("first", "second"), [([], []), ([1], []), ([], [0])])
async def test_permission_of_one_side_is_not_enough(first: list[int], second: list[int]) -> None:
    """An empty list means strictly sequential, whatever the other step says."""
    tools = FakeTools(work=slow(0.002))
    await run(define(step("work", parallelizable_with=first), step("work", parallelizable_with=second)), tools)
    assert tools.most_running == 1


async def test_a_step_starts_as_soon_as_those_before_it_ended() -> None:
    """A step waits for those it may not run beside and for no other."""
    released = asyncio.Event()

    async def wait(_: dict[str, Any]) -> str:
        await asyncio.wait_for(released.wait(), 5)
        return "waited"

    def release(_: dict[str, Any]) -> str:
        released.set()
        return "released"

    tools = FakeTools(wait=wait, release=release)
    tool = define(
        step("wait", parallelizable_with=[1, 2]),
        step("echo", parallelizable_with=[0]),
        step("release", {"x": "$.steps[1].output"}, parallelizable_with=[0]),
    )
    assert (await run(tool, tools)).status == "success"


async def test_wiring_sees_the_later_of_two_parallel_steps() -> None:
    """A named value that joins two parallel steps is complete whichever of them ended last."""
    tools = FakeTools(quick=lambda _: {"v": 1}, late=slow(0.003, then={"v": 2}))
    for order in (["quick", "late"], ["late", "quick"]):
        tool = define(
            step(order[0], parallelizable_with=[1]),
            step(order[1], parallelizable_with=[0]),
            step("echo", {"both": "$.internal_wiring.1.both"}),
            internal_wiring={"1": {"both": ["$.steps[0].output.v", "$.steps[1].output.v"]}},
        )
        result = await run(tool, tools)
        assert sorted(result.output["result"]["both"]) == [1, 2]


async def test_a_failure_cancels_reads_and_lets_a_write_finish() -> None:
    """When one of three fails, the read beside it is cancelled and the write beside it comes to its end."""
    writing, tools = beside_a_failure()
    tool = define(
        step("flaky", parallelizable_with=[1, 2]),
        step("read", parallelizable_with=[0, 2]),
        step("write", parallelizable_with=[0, 1]),
    )
    result = await asyncio.wait_for(run(tool, tools, writers={"write"}), 10)
    assert [part.status for part in result.steps] == ["failed", "cancelled", "ran"]
    assert writing.is_set()
    assert tools.running == 0


@pytest.mark.parametrize("failing_first", [True, False])
async def test_a_failure_keeps_further_writes_from_starting(failing_first: bool) -> None:
    """A map of writes beside a failing step finishes the write under way and starts no other."""
    _, tools = beside_a_failure()
    flaky = step("flaky")
    write = step("write", {"n": "$.item"}, for_each="$.parameters.rows")
    first, second = (flaky, write) if failing_first else (write, flaky)
    tool = define({**first, "parallelizable_with": [1]}, {**second, "parallelizable_with": [0]})
    result = await run(tool, tools, {"rows": [1, 2, 3]}, writers={"write"})
    assert sorted(tools.called) == ["flaky", "write"]
    assert sorted(part.status for part in result.steps) == ["cancelled", "failed"]
    assert result.error is not None
    assert result.error.details["tool_id"] == "flaky"


def beside_a_failure() -> tuple[asyncio.Event, FakeTools]:
    """A tool that fails once a write is under way, and a write that goes on once it failed."""
    writing, failed = asyncio.Event(), asyncio.Event()

    async def write(_: dict[str, Any]) -> str:
        writing.set()
        await failed.wait()
        return "written"

    async def flaky(_: dict[str, Any]) -> Any:
        await writing.wait()
        failed.set()
        raise ToolError("it broke")

    return writing, FakeTools(flaky=flaky, read=slow(30), write=write)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[SynthesizedTool, list[int]]:
    """A definition with random needs and random permissions where needs allow them, and a delay for each step."""
    count = draw(st.integers(2, 7))
    needs = [draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set[int]() for number in range(count)]
    reached: list[set[int]] = []
    for direct in needs:
        reached.append(direct.union(*(reached[before] for before in direct)))
    beside: list[set[int]] = [set() for _ in range(count)]
    for later in range(count):
        for earlier in range(later):
            if earlier not in reached[later] and draw(st.booleans()):
                beside[later].add(earlier)
                if draw(st.integers(0, 4)):
                    beside[earlier].add(later)
    steps = [
        step(
            draw(st.sampled_from(["hash", "sometimes"])),
            {"step": number, "seen": [f"$.steps[{before}].output" for before in sorted(needs[number])]},
            parallelizable_with=sorted(beside[number]),
        )
        for number in range(count)
    ]
    strategy = {"default_behavior": draw(st.sampled_from(["skip", "retry"]))}
    return define(*steps, error_strategy=strategy), draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))


@given(graphs())
@settings(max_examples=80, deadline=None)
async def test_running_at_once_changes_nothing_but_time(graph: tuple[SynthesizedTool, list[int]]) -> None:
    """For any graph, the outputs with parallel steps equal those of the same steps one after another."""
    tool = graph[0]
    delays: list[int] = graph[1]
    order: list[tuple[str, int]] = []

    async def hash_it(params: dict[str, Any]) -> Any:
        number: int = params["step"]
        order.append(("start", number))
        for _ in range(delays[number]):
            await asyncio.sleep(0)
        order.append(("end", number))
        return hash(canonical_json(params)) % 1000

    async def sometimes(params: dict[str, Any]) -> Any:
        return await hash_it(params) if params["step"] % 3 else failing()(params)

    alone = replace(tool, steps=tuple(replace(part, parallelizable_with=()) for part in tool.steps))
    sequential = await run(alone, FakeTools(hash=hash_it, sometimes=sometimes))
    order.clear()
    parallel = await run(tool, FakeTools(hash=hash_it, sometimes=sometimes))
    if tool.error_strategy.default_behavior == "skip":
        assert parallel.output == sequential.output
        assert [part.inputs for part in parallel.steps] == [part.inputs for part in sequential.steps]
    assert parallel.status == sequential.status
    _check_order(tool, order)


def _check_order(tool: SynthesizedTool, order: list[tuple[str, int]]) -> None:
    after: list[set[int]] = []
    for before in compile_flow(tool).graph.before:
        after.append(set(before).union(*(after[number] for number in before)))
    for place, (what, number) in enumerate(order):
        if what == "start":
            ended = {other for kind, other in order[:place] if kind == "end"}
            began = {other for _, other in order}
            assert after[number] & began <= ended
