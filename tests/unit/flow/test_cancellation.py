"""Whenever a run is cancelled, it ends, and nothing of it goes on behind the caller's back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.flow.fakes import FakeTools, define, failing, slow, step
from twinraven.flow import FlowExecutor
from twinraven.foundation.errors import ToolError
from twinraven.registry import SynthesizedTool

_SHAPES: dict[str, SynthesizedTool] = {
    "one after another": define(step("work"), step("work"), step("work")),
    "at once": define(
        step("work", parallelizable_with=[1, 2]),
        step("work", parallelizable_with=[0, 2]),
        step("work", parallelizable_with=[0, 1]),
    ),
    "over a list": define(step("work", {"n": "$.item"}, for_each="$.parameters.rows")),
    "waiting for a retry": define(
        step("broken"),
        error_strategy={
            "retry_policy": {"0": {"max_retries": 9, "backoff_strategy": "fixed", "backoff_ms": 60_000}},
        },
    ),
    "in a fallback": define(
        step("broken"),
        error_strategy={"fallback_steps": {"0": [step("work", step_index=0)]}},
    ),
}


@pytest.mark.parametrize("shape", _SHAPES)
async def test_cancellation_reaches_every_call_under_way(shape: str) -> None:
    """Whatever the run is doing, cancelling it raises CancelledError and leaves no task and no call behind."""
    tools = FakeTools(work=slow(60), broken=failing())
    run = asyncio.create_task(
        FlowExecutor().run(_SHAPES[shape], {"rows": list(range(20))}, tools, writes=lambda _: False)
    )
    await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert tools.running == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


@given(st.sampled_from(sorted(_SHAPES)), st.integers(0, 40), st.booleans())
@settings(max_examples=60, deadline=None)
async def test_cancellation_at_any_moment_is_clean(shape: str, moment: int, writes: bool) -> None:
    """Cut off at any turn of the loop, reads or writes, a run leaves nothing running."""

    async def work(params: dict[str, Any]) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "done"

    tools = FakeTools(work=work, broken=failing())
    executor = FlowExecutor(sleep=lambda _: asyncio.sleep(0))
    run = asyncio.create_task(executor.run(_SHAPES[shape], {"rows": [1, 2, 3]}, tools, writes=lambda _: writes))
    for _ in range(moment):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait([run])
    assert tools.running == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_end_of_time_leaves_nothing_running() -> None:
    """A composite that ran out of time has stopped all its parallel calls."""
    tools = FakeTools(work=slow(60))
    tool = define(
        step("work", parallelizable_with=[1]),
        step("work", {"n": "$.item"}, for_each="$.parameters.rows", parallelizable_with=[0]),
        timeout_ms=20,
    )
    result = await FlowExecutor().run(tool, {"rows": list(range(20))}, tools, writes=lambda _: False)
    assert result.status == "failed"
    assert [part.status for part in result.steps] == ["cancelled", "cancelled"]
    assert tools.running == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_a_stopping_composite_ends_its_last_write_too() -> None:
    """A caller who goes away while a write is let finish does not wait for it any longer."""
    writing = asyncio.Event()

    async def write(_: dict[str, Any]) -> None:
        writing.set()
        await asyncio.sleep(60)

    async def flaky(_: dict[str, Any]) -> None:
        await writing.wait()
        raise ToolError("it broke")

    tools = FakeTools(flaky=flaky, write=write)
    tool = define(step("flaky", parallelizable_with=[1]), step("write", parallelizable_with=[0]))
    run = asyncio.create_task(FlowExecutor().run(tool, {}, tools))
    for _ in range(20):
        await asyncio.sleep(0)
    assert tools.running == 1
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert tools.running == 0
