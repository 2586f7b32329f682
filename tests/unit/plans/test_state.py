"""What is kept of a plan's cycles, and what is read back from it."""

from __future__ import annotations

from dataclasses import replace

import orjson

from tests.unit.plans.world import FakeRun, carry_out
from twinraven.plans.model import Plan, PlanStep
from twinraven.plans.state import Cycle, LogEntry, OrchestrationState

STEPS = 60


def _steps(count: int) -> list[dict[str, str]]:
    return [{"step_id": str(number), "description": "Think.", "agent": "llm"} for number in range(1, count + 1)]


async def test_a_cycle_keeps_the_steps_that_it_changed_and_not_the_whole_plan() -> None:
    """The last cycle of a long plan takes no more room than the last one of a short plan."""
    sizes: list[int] = []
    for count in (2, STEPS):
        run = FakeRun(lambda _: "Thought.")
        await carry_out(run, ttl=count + 1, plan={"goal": "Think.", "steps": _steps(count)})
        sizes.append(len(orjson.dumps(run.journal[f"cycle:{count}"].output)))
    assert sizes[1] < sizes[0] + 20


async def test_log_entries_have_the_whole_plan_as_it_was_when_their_cycle_began() -> None:
    """What is kept in parts is read back whole."""
    run = FakeRun(lambda _: "Thought.")
    await carry_out(run, ttl=9, plan={"goal": "Think.", "steps": _steps(3)})
    seen = [[step["status"] for step in cycle.entry.plan_state["steps"]] for cycle in run.cycles]
    assert seen == [
        ["pending", "pending", "pending"],
        ["complete", "pending", "pending"],
        ["complete", "complete", "pending"],
    ]
    assert run.cycles[-1].plan is not None
    assert [step.status for step in run.cycles[-1].plan.steps] == ["complete"] * 3


def test_a_cycle_that_was_kept_with_its_whole_plan_is_read() -> None:
    """Plans from before cycles were kept in parts go on."""
    before = Plan("Think.", (PlanStep("1", "Think.", agent="llm"),))
    after = before.with_step(replace(before.steps[0], status="complete"))
    entry = LogEntry(1, before.as_json(), {}, (), (), 3, (), "2026-01-15T10:30:00Z")
    state = OrchestrationState(before, 4)
    state.take(Cycle.from_json({"entry": entry.as_json(), "plan": after.as_json(), "results": {"1": "x"}}, before))
    assert state.plan == after
    assert state.log == (entry,)
