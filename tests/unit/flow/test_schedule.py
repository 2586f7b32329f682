"""The scheduler decides by what happened and nothing else: order of completion, restarts and waits change no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.flow.fakes import define, step
from twinraven.flow import (
    Action,
    Answered,
    CancelCall,
    Deferred,
    Failed,
    Finish,
    FlowExecutor,
    FlowResult,
    Halted,
    MakeCall,
    Pause,
    Rested,
    Schedule,
    StepRun,
    TimedOut,
    compile_flow,
)
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import Conflict, ToolError, ToolUnavailable, TwinRavenError
from twinraven.registry import SynthesizedTool

ROWS = [3, 1, 2]


@st.composite
def flows(draw: st.DrawFn) -> SynthesizedTool:
    """A graph with any mix of ids, explicit order, lists, conditions, retries and fallbacks."""
    count = draw(st.integers(1, 6))
    steps: list[dict[str, Any]] = []
    for number in range(count):
        needs = sorted(draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else []
        body = step(f"tool{number}", {"seen": [f"$.steps[{before}].output" for before in needs]}, id=f"s{number}")
        after = draw(st.none() | st.sets(st.integers(0, number - 1), max_size=2)) if number else None
        body["after"] = None if after is None else [f"s{before}" for before in sorted(after)]
        if draw(st.booleans()):
            body |= {"for_each": "$.parameters.rows", "input_mapping": {**body["input_mapping"], "row": "$.item"}}
        if needs and draw(st.booleans()):
            body["condition"] = f"$.steps.s{needs[0]}.output != null"
        body["on_failure"] = draw(st.sampled_from(["skip", "skip", "abort", None]))
        steps.append(body)
    retried = draw(st.sets(st.integers(0, count - 1)))
    rescued = draw(st.sets(st.integers(0, count - 1)))
    strategy = {
        "retry_policy": {str(number): {"max_retries": 2, "backoff_ms": 10} for number in retried},
        "fallback_steps": {
            str(number): [step("spare", {"why": f"$.steps[{number}].error.code"}, step_index=0)] for number in rescued
        },
        "default_behavior": draw(st.sampled_from(["skip", "abort"])),
    }
    return define(*steps, error_strategy=strategy)


class World:
    """Answers each place always alike, and notes what was asked of it and in which order it was answered."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.asked: list[str] = []
        self.known: dict[str, Any] = {}

    def outcome(self, call: MakeCall) -> Any:
        place = call.run.place
        if place not in self.known:
            self.asked.append(place)
            number = crc32(f"{self.seed} {place}".encode()) % 7
            output = {"place": place, "params": canonical_json(call.params).decode()}
            self.known[place] = ToolUnavailable("away") if number == 0 else ToolError("no") if number == 1 else output
        return self.known[place]

    def event(self, action: Action) -> Answered | Failed | Rested:
        assert not isinstance(action, (Finish, CancelCall))
        if not isinstance(action, MakeCall):
            return Rested(action.run)
        outcome = self.outcome(action)
        return Failed(action.run, outcome) if isinstance(outcome, TwinRavenError) else Answered(action.run, outcome)


def drive(
    tool: SynthesizedTool, world: World, choose: Callable[[int], int] | None = None, *, writes: bool = False
) -> FlowResult:
    """Complete what is under way in the order that `choose` gives."""
    schedule = Schedule(compile_flow(tool), {"rows": ROWS}, lambda _: writes)
    under_way: list[Action] = schedule.start(0)
    while not isinstance(under_way[-1], Finish):
        action = under_way.pop(choose(len(under_way)) if choose else 0)
        for each in schedule.advance(world.event(action), 0):
            if isinstance(each, CancelCall):
                under_way = [other for other in under_way if isinstance(other, Finish) or other.run != each.run]
            else:
                under_way.append(each)
    return under_way[-1].result


def told(result: FlowResult) -> dict[str, Any]:
    return result.as_json()


@given(flows(), st.integers(0, 1000), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_the_order_of_completion_changes_nothing(
    tool: SynthesizedTool, seed: int, writes: bool, data: st.DataObject
) -> None:
    """Whatever order calls end in, the same calls are made with the same result, and one that stops always stops."""
    plain, shuffled = World(seed), World(seed)
    expected = drive(tool, plain, writes=writes)
    result = drive(tool, shuffled, lambda count: data.draw(st.integers(0, count - 1)), writes=writes)
    assert result.status == expected.status
    if expected.status == "success":
        assert told(result) == told(expected)
        assert sorted(shuffled.asked) == sorted(plain.asked)


@given(flows(), st.integers(0, 1000), st.data())
@settings(max_examples=80, deadline=None)
def test_a_run_resumes_from_any_prefix_of_its_outcomes(tool: SynthesizedTool, seed: int, data: st.DataObject) -> None:
    """Started anew with the outcomes recorded up to any moment, a run repeats none and ends in the same way."""
    first = World(seed)
    expected = drive(tool, first, lambda count: data.draw(st.integers(0, count - 1)))
    known = first.asked[: data.draw(st.integers(0, len(first.asked)))]
    second = World(seed)
    second.known = {place: first.known[place] for place in known}
    result = drive(tool, second)
    assert result.status == expected.status
    if expected.status == "success":
        assert told(result) == told(expected)
        assert sorted([*known, *second.asked]) == sorted(first.asked)


@given(flows(), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_replaying_driver_gives_what_any_driver_gives(tool: SynthesizedTool, seed: int) -> None:
    """Validation's driver and one that completes calls one by one agree."""
    world = World(seed)
    expected = drive(tool, world)
    outcomes = iter([world.known[place] for place in world.asked])

    def answer(tool_id: str, params: dict[str, Any]) -> Any:
        del tool_id, params
        outcome = next(outcomes)
        if isinstance(outcome, TwinRavenError):
            raise outcome
        return outcome

    result = FlowExecutor().replay(tool, {"rows": ROWS}, answer, writes=lambda _: False)
    assert told(result) == told(expected)


def begin(tool: SynthesizedTool, *, writers: tuple[str, ...] = ()) -> tuple[Schedule, list[Action]]:
    schedule = Schedule(compile_flow(tool), {"rows": ROWS}, lambda tool_id: tool_id in writers)
    return schedule, schedule.start(0)


def places(actions: list[Action]) -> list[str]:
    return [f"{type(action).__name__} {action.run.place}" for action in actions if not isinstance(action, Finish)]


def first(actions: list[Action]) -> StepRun:
    action = actions[0]
    assert not isinstance(action, Finish)
    return action.run


def ended(actions: list[Action]) -> FlowResult:
    last = actions[-1]
    assert isinstance(last, Finish)
    return last.result


def test_places_tell_attempts_elements_and_fallbacks_apart() -> None:
    """A place names the step by its id, then the element, the fallback and the attempt."""
    strategy = {
        "retry_policy": {"0": {"max_retries": 1, "backoff_ms": 70}},
        "fallback_steps": {"0": [step("spare", step_index=0)]},
    }
    tool = define(step("work", {"n": "$.item"}, for_each="$.parameters.rows", id="load"), error_strategy=strategy)
    schedule, actions = begin(tool, writers=("work",))
    assert places(actions) == ["MakeCall load:0"]
    actions = schedule.advance(Failed(first(actions), ToolUnavailable("away")), 0)
    assert places(actions) == ["Pause load:0#2"]
    assert [action.milliseconds for action in actions if isinstance(action, Pause)] == [70]
    actions = schedule.advance(Rested(first(actions)), 0)
    assert places(actions) == ["MakeCall load:0#2"]
    actions = schedule.advance(Failed(first(actions), ToolUnavailable("away")), 0)
    assert places(actions) == ["MakeCall load:0:f0"]


def test_a_step_that_waits_lets_the_others_go_on() -> None:
    """Waiting is no failure: steps beside it end, those after it do not begin, and the soonest moment is told."""
    tool = define(
        step("ask", id="ask"),
        step("later", id="later", after=[]),
        step("write", id="write", after=[]),
        step("echo", {"x": "$.steps.ask.output"}, after=["ask"]),
        step("echo", after=["write"]),
        error_strategy={"default_behavior": "skip", "retry_policy": {"0": {"max_retries": 3}}},
    )
    schedule, actions = begin(tool, writers=("write",))
    assert places(actions) == ["MakeCall ask", "MakeCall later", "MakeCall write"]
    ask, later, write = [action.run for action in actions if isinstance(action, MakeCall)]
    assert schedule.advance(Deferred(ask, None), 1) == []
    assert schedule.advance(Deferred(later, 900), 2) == []
    actions = schedule.advance(Answered(write, "written"), 3)
    assert places(actions) == ["MakeCall 4"]
    result = ended(schedule.advance(Answered(first(actions), "done"), 4))
    assert (result.status, result.until, result.error, result.output) == ("waiting", 900, None, None)
    assert [each.status for each in result.steps] == ["waiting", "waiting", "ran", "not_run", "ran"]


def test_elements_that_write_keep_their_order_when_one_waits() -> None:
    """A write that waits holds back those after it in the list; reads go on."""
    tool = define(step("work", {"n": "$.item"}, for_each="$.parameters.rows"))
    schedule, actions = begin(tool, writers=("work",))
    assert ended(schedule.advance(Deferred(first(actions), 5), 0)).status == "waiting"
    schedule, actions = begin(tool)
    assert places(actions) == ["MakeCall 0:0", "MakeCall 0:1", "MakeCall 0:2"]
    assert schedule.advance(Deferred(first(actions), 5), 0) == []


def test_halting_cancels_reads_and_pauses_and_lets_writes_finish() -> None:
    """After a halt nothing starts; the run ends with its error when the last write under way has ended."""
    retries = {"retry_policy": {"2": {"max_retries": 3, "backoff_ms": 9}}}
    tool = define(step("read"), step("write", after=[]), step("flaky", after=[]), step(), error_strategy=retries)
    schedule, actions = begin(tool, writers=("write",))
    read, write, flaky = [action.run for action in actions if isinstance(action, MakeCall)]
    schedule.advance(Failed(flaky, ToolUnavailable("away")), 0)
    assert places(schedule.advance(Halted(Conflict("cancelled by ada")), 0)) == ["CancelCall 0", "CancelCall 2#2"]
    assert schedule.advance(Answered(read, "too late"), 0) == []
    result = ended(schedule.advance(Answered(write, "written"), 0))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "CONFLICT")
    assert [each.status for each in result.steps] == ["cancelled", "ran", "cancelled", "not_run"]


def test_the_end_of_time_interrupts_writes_too() -> None:
    """When the time of the whole is over, a write under way is unknown, and the run ends at once."""
    schedule, _ = begin(define(step("write"), step("read", after=[])), writers=("write",))
    result = ended(schedule.advance(TimedOut("did not finish by its deadline"), 0))
    assert result.error is not None
    assert result.error.code == "EFFECT_UNKNOWN"
    assert "by its deadline" in result.error.message


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_fallback_of_an_element_sees_the_failure_of_its_own_element(order: tuple[int, ...]) -> None:
    """Whichever element failed first, each fallback is given its own element's error."""
    body = step("look", {"row": "$.item"}, for_each="$.parameters.rows")
    spare = step("spare", {"why": "$.steps[0].error.code"}, step_index=0)
    tool = define(body, error_strategy={"fallback_steps": {"0": [spare]}})
    schedule = Schedule(compile_flow(tool), {"rows": ROWS}, lambda _: False)
    calls = {action.run.item: action for action in schedule.start(0) if isinstance(action, MakeCall)}
    failures = (ToolUnavailable("away"), Conflict("taken"), ToolError("no"))
    given: dict[int | None, Any] = {}
    for item in order:
        for action in schedule.advance(Failed(calls[item].run, failures[item]), 0):
            assert isinstance(action, MakeCall)
            given[action.run.item] = action.params["why"]
    assert given == {item: error.code for item, error in enumerate(failures)}
