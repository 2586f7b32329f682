"""What a durable run needs of the asyncio driver: waits, pauses, a deadline from outside, and a way to halt it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.unit.flow.fakes import FakeTools, Tool, define, slow, step
from twinraven.flow import FlowExecutor, StepRun, Waiting
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, ToolUnavailable

_RETRIED: Final = {"retry_policy": {"0": {"max_retries": 1, "backoff_ms": 50}}}


async def test_a_durable_run_waits_pauses_and_resumes_through_its_invoker() -> None:
    """A pause or a call that raises Waiting ends the run as waiting; with the outcome known it goes on from there."""
    tool = define(step("flaky"), step("echo", {"x": "$.steps[0].output"}), error_strategy=_RETRIED)
    known: dict[str, Any] = {}

    async def journalled(tool_id: str, params: dict[str, Any], *, step: StepRun, timeout_ms: int | None) -> Any:
        if step.place not in known:
            known[step.place] = ToolUnavailable("away") if step.place == "0" else params or "up"
        if isinstance(known[step.place], Exception):
            raise known[step.place]
        return known[step.place]

    async def pause(step: StepRun, seconds: float) -> None:
        if step.place not in known and not is_due:
            raise Waiting(int(seconds * 1000))

    executor, is_due = FlowExecutor(), False
    first = await executor.prepare(tool, {}, journalled, pause=pause).finish()
    assert (first.status, first.until, list(known)) == ("waiting", 50, ["0"])
    is_due = True
    second = await executor.prepare(tool, {}, journalled, pause=pause).finish()
    assert second.output["result"] == {"x": "up"}
    assert list(known) == ["0", "0#2", "1"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_halted_run_cancels_reads(beside: bool) -> None:
    """Halt ends a read under way, alone or beside others, and its error is the run's."""
    tools = FakeTools(work=slow(60))
    steps = [step("work"), step("work", after=[])] if beside else [step("work")]
    run = FlowExecutor().prepare(define(*steps), {}, tools, writes=lambda _: False)
    finishing = asyncio.create_task(run.finish())
    for _ in range(20):
        await asyncio.sleep(0)
    run.halt(Conflict("cancelled by ada"))
    result = await asyncio.wait_for(finishing, 10)
    assert isinstance(result.error, Conflict)
    assert {part.status for part in result.steps} == {"cancelled"}
    assert tools.running == 0


@pytest.mark.parametrize("beside", [False, True])
async def test_a_halted_run_lets_its_write_finish_and_starts_no_other(beside: bool) -> None:
    """A write under way when the run is halted comes to its end; the step after it is not run."""
    go_on = asyncio.Event()
    tools = FakeTools(write=lambda _: go_on.wait(), read=slow(60))
    steps = [step("write"), step("read", after=[])] if beside else [step("write")]
    run = FlowExecutor().prepare(define(*steps, step("write")), {}, tools, writes=lambda name: name == "write")
    finishing = asyncio.create_task(run.finish())
    for _ in range(20):
        await asyncio.sleep(0)
    run.halt(Conflict("cancelled by ada"))
    await asyncio.sleep(0)
    assert not finishing.done()
    go_on.set()
    result = await asyncio.wait_for(finishing, 10)
    assert isinstance(result.error, Conflict)
    assert result.steps[0].status == "ran"
    assert result.steps[-1].status == "not_run"
    assert tools.called.count("write") == 1


async def test_a_run_halted_before_it_began_calls_nothing() -> None:
    """Halt before finish: the error, and no call."""
    tools = FakeTools()
    run = FlowExecutor().prepare(define(step(), step()), {}, tools)
    run.halt(Conflict("cancelled by ada"))
    assert isinstance((await run.finish()).error, Conflict)
    assert tools.made == []


@pytest.mark.parametrize(("left", "called"), [(-1, 0), (20_000, 1)])
async def test_a_deadline_from_outside_ends_a_run(left: int, called: int) -> None:
    """A deadline is a moment, not a time that starts anew: past it nothing is called, at it everything is ended."""
    tools = FakeTools(work=slow(60))
    deadline = now_micros() + left
    run = FlowExecutor().prepare(define(step("work")), {}, tools, writes=lambda _: False, deadline=deadline)
    result = await asyncio.wait_for(run.finish(), 10)
    assert result.error is not None
    assert "did not finish by its deadline" in result.error.message
    assert len(tools.made) == called


class _Hours:
    """The clock of an event loop, which moves only when a tool takes its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self._now)

    def tool(self, seconds: float, *, turns: int = 5, is_stubborn: bool = False) -> Tool:
        """A tool that takes so many seconds, and turns of the loop; a stubborn one answers although it is cancelled."""

        async def answer(params: dict[str, Any]) -> str:
            del params
            self._now += seconds
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not is_stubborn:
                    raise
            return "done"

        return answer


@pytest.mark.parametrize("beside", [False, True])
async def test_the_time_of_a_step_begins_with_its_own_call(beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that follow each other may take longer together than each may alone; the one that is late fails."""
    hours = _Hours(monkeypatch)
    tools = FakeTools(quick=hours.tool(0.6), late=hours.tool(1.1), wait=hours.tool(0, turns=200))
    chain = [step("quick", timeout_ms=1000) for _ in range(3)]
    others = [step("wait", after=[])] if beside else []
    executor = FlowExecutor()
    fine = await executor.run(define(*others, *chain, step("quick", timeout_ms=700), *chain), {}, tools)
    assert {part.status for part in fine.steps} == {"ran"}
    for tool_id, timeout_ms in (("late", 1000), ("quick", 500)):
        failed = await executor.run(define(*others, *chain, step(tool_id, timeout_ms=timeout_ms), *chain), {}, tools)
        assert failed.error is not None
        assert failed.error.details["step_index"] == len(others) + 3
        assert f"did not answer within {timeout_ms} ms" in failed.error.message
        assert tools.running == 0


async def test_an_answer_that_came_too_late_all_the_same_spoils_no_later_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that answers although it was cut off is believed, and the step after it has all of its own time."""
    hours = _Hours(monkeypatch)
    tools = FakeTools(stubborn=hours.tool(1.1, is_stubborn=True), quick=hours.tool(0.6), late=hours.tool(1.1))
    steps = [step(tool_id, timeout_ms=1000) for tool_id in ("stubborn", "quick", "late")]
    result = await FlowExecutor().run(define(*steps), {}, tools, writes=lambda _: False)
    assert [part.status for part in result.steps] == ["ran", "ran", "failed"]
