"""What happens when a step fails: retries, fallbacks, abort conditions, and what stands for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.flow.fakes import FakeTools, Naps, define, failing, run, seed_json, slow, step, unavailable
from twinraven.foundation.errors import EffectUnknown, PolicyViolation
from twinraven.registry import SynthesizedTool

pytestmark = pytest.mark.req("TR-17")


def retrying(strategy: str, times: int, backoff_ms: int) -> dict[str, Any]:
    policy = {"max_retries": times, "backoff_strategy": strategy, "backoff_ms": backoff_ms}
    return {"retry_policy": {"0": policy}}


def falling_back(*steps: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"fallback_steps": {"0": [{"step_index": 0, **body} for body in steps]}, **rest}


@pytest.mark.parametrize(("strategy", "waits"), [("fixed", [0.1, 0.1, 0.1]), ("exponential", [0.1, 0.2, 0.4])])
async def test_a_step_is_tried_again_with_the_waits_of_its_policy(strategy: str, waits: list[float]) -> None:
    """Three failures and three retries later the step has run, after the waits the policy asks for."""
    naps, tools = Naps(), FakeTools(flaky=failing(3))
    result = await run(define(step("flaky"), error_strategy=retrying(strategy, 3, 100)), tools, naps=naps)
    assert result.output["result"] == "ok"
    assert naps.taken == waits
    assert result.steps[0].attempts == 4
    assert [made.attempt for _, _, made in tools.made] == [1, 2, 3, 4]
    assert {made.key_suffix for _, _, made in tools.made} == {"0"}


async def test_retries_come_to_an_end() -> None:
    """When all retries failed the composite stops, even where the default would be to skip: this step is covered."""
    strategy = {**retrying("fixed", 2, 0), "default_behavior": "skip"}
    tools = FakeTools(flaky=failing())
    result = await run(define(step("flaky"), step(), error_strategy=strategy), tools)
    assert tools.called == ["flaky"] * 3
    assert result.status == "failed"


@pytest.mark.parametrize(
    ("error", "writers", "attempts"),
    [
        (None, (), 3),
        (unavailable(), ("flaky",), 3),
        (None, ("flaky",), 1),
        (EffectUnknown("who knows"), ("flaky",), 1),
        (PolicyViolation("no"), (), 1),
    ],
)
async def test_only_what_is_safe_to_repeat_is_repeated(
    error: Exception | None, writers: tuple[str, ...], attempts: int
) -> None:
    """A write is repeated only if its error says that nothing happened; a refusal of policy is never repeated."""
    tools = FakeTools(flaky=failing(error=error))
    await run(define(step("flaky"), error_strategy=retrying("fixed", 2, 0)), tools, writers=writers)
    assert len(tools.made) == attempts


async def test_a_write_that_is_late_is_unknown_and_not_repeated() -> None:
    """A write that outlived its time may have happened: EFFECT_UNKNOWN, one attempt."""
    tools = FakeTools(late=slow(5))
    tool = define(step("late", timeout_ms=10), error_strategy=retrying("fixed", 3, 0))
    result = await run(tool, tools, writers={"late"})
    assert isinstance(result.error, EffectUnknown)
    assert len(tools.made) == 1
    reading = FakeTools(late=slow(5))
    result = await run(tool, reading)
    assert result.error is not None
    assert result.error.code == "TOOL_TIMEOUT"
    assert len(reading.made) == 4


async def test_a_write_cut_off_by_the_end_of_time_is_unknown() -> None:
    """When the composite's time ends during a write, its own error is EFFECT_UNKNOWN too."""
    result = await run(define(step("late"), timeout_ms=10), FakeTools(late=slow(5)), writers={"late"})
    assert isinstance(result.error, EffectUnknown)


async def test_a_fallback_stands_in_for_the_step() -> None:
    """The fallback's steps run in order, see each other and the failure, and the last output is the step's."""
    tools = FakeTools(flaky=failing())
    strategy = falling_back(
        step("echo", {"why": "$.steps[0].error.code", "q": "$.parameters.q"}),
        step("echo", {"first": "$.fallback[0].output.why", "never": 1}, condition="$.fallback[0].output.q == 'no'"),
        step("echo", {"first": "$.fallback[0].output.why"}),
    )
    tool = define(step("flaky"), step("echo", {"x": "$.steps[0].output.first"}), error_strategy=strategy)
    result = await run(tool, tools, {"q": "yes"})
    assert result.status == "success"
    assert result.steps[0].status == "fallback"
    assert result.steps[0].output == {"first": "TOOL_FAILED"}
    assert result.steps[0].error is not None
    assert result.steps[1].output == {"x": "TOOL_FAILED"}
    assert [made.key_suffix for _, _, made in tools.made] == ["0", "0:f0", "0:f2", "1"]
    assert "incomplete" not in result.output


async def test_a_fallback_that_fails_too_ends_the_composite() -> None:
    """The first error keeps its code; the second is told with it."""
    tools = FakeTools(flaky=failing(error=unavailable()), other=failing())
    result = await run(define(step("flaky"), step(), error_strategy=falling_back(step("other"))), tools)
    assert result.error is not None
    assert result.error.code == "TOOL_UNAVAILABLE"
    assert "its fallback failed too: it broke" in result.error.message
    assert tools.called == ["flaky", "other"]


async def test_retries_come_before_the_fallback() -> None:
    """A step with both is retried first."""
    strategy = {**retrying("fixed", 1, 0), **falling_back(step("echo", {"x": 1}))}
    tools = FakeTools(flaky=failing())
    result = await run(define(step("flaky"), error_strategy=strategy), tools)
    assert tools.called == ["flaky", "flaky", "echo"]
    assert result.steps[0].attempts == 3


@pytest.mark.parametrize(
    ("behavior", "called", "status"),
    [
        ("abort", ["flaky"], "failed"),
        ("retry", ["flaky", "flaky"], "failed"),
        ("skip", ["flaky", "echo"], "success"),
    ],
)
async def test_the_default_behaviour_stands_for_steps_that_nothing_covers(
    behavior: str, called: list[str], status: str
) -> None:
    """Abort stops, retry tries once more and stops, skip goes on with null and says so."""
    tools = FakeTools(flaky=failing())
    tool = define(
        step("flaky"), step("echo", {"x": "$.steps[0].output"}), error_strategy={"default_behavior": behavior}
    )
    result = await run(tool, tools)
    assert tools.called == called
    assert result.status == status
    assert result.steps[0].status == "failed"
    if behavior == "skip":
        assert result.steps[1].output == {"x": None}
        assert result.output["incomplete"][0]["error"]["code"] == "TOOL_FAILED"


async def test_an_abort_condition_overrules_skipping() -> None:
    """After a failure a condition that holds ends the composite at once, and the error names it."""
    condition = "$.steps[0].error.code == 'TOOL_UNAVAILABLE'"
    strategy = {"default_behavior": "skip", "abort_conditions": ["$.steps[1].output == null", condition]}
    gone, broken = FakeTools(flaky=failing(error=unavailable())), FakeTools(flaky=failing())
    tool = define(step("flaky"), step(), error_strategy=strategy)
    result = await run(tool, gone)
    assert result.error is not None
    assert result.error.details["condition"] == condition
    assert condition in result.error.message
    assert result.error.code == "TOOL_UNAVAILABLE"
    assert gone.called == ["flaky"]
    assert (await run(tool, broken)).status == "success"


async def test_the_examples_own_condition_is_named() -> None:
    """The example aborts when its search fails, and says by which condition."""
    tools = FakeTools(search=failing())
    result = await run(SynthesizedTool.from_json(seed_json()), tools, {"query": "q"})
    assert result.error is not None
    assert result.error.details["condition"] == "$.steps[0].output == null"


async def test_conditions_are_asked_only_after_a_failure() -> None:
    """A condition that holds all along harms nobody while nothing fails."""
    strategy = {"abort_conditions": ["true", "$.steps[0].output == null"]}
    result = await run(define(step("none"), step(), error_strategy=strategy), FakeTools(none=lambda _: None))
    assert result.status == "success"


async def test_a_condition_on_an_output_waits_for_the_fallback() -> None:
    """A rescued step has an output, so a condition that asks for it is asked after the rescue; others are not kept."""
    rescued = falling_back(step("echo", {"x": 1}), abort_conditions=["$.steps[0].output == null"])
    assert (await run(define(step("flaky"), error_strategy=rescued), FakeTools(flaky=failing()))).status == "success"
    useless = falling_back(step("none"), abort_conditions=["$.internal_wiring.0.x == null"])
    wired = define(step("flaky"), step(), error_strategy=useless, internal_wiring={"0": {"x": "$.steps[0].output.x"}})
    tools = FakeTools(flaky=failing(), none=lambda _: None)
    result = await run(wired, tools)
    assert result.error is not None
    assert result.steps[0].status == "fallback"
    at_once = falling_back(step(), abort_conditions=["$.steps[0].status == 'failed'"])
    tools = FakeTools(flaky=failing())
    await run(define(step("flaky"), error_strategy=at_once), tools)
    assert tools.called == ["flaky"]


async def test_a_condition_does_not_mistake_what_is_yet_to_run_for_nothing() -> None:
    """A failure that is skipped does not trip a condition on the output of a later step."""
    strategy = {"default_behavior": "skip", "abort_conditions": ["$.steps[1].output == null"]}
    result = await run(define(step("flaky"), step(), error_strategy=strategy), FakeTools(flaky=failing()))
    assert result.status == "success"


def _odd_fails(params: dict[str, Any]) -> Any:
    if params["n"] % 2:
        raise unavailable()
    return params["n"]


async def test_elements_of_a_list_fail_one_by_one() -> None:
    """With skip, a failed element is null in its place and the others are there; the step tells the first failure."""
    tool = define(
        step("work", {"n": "$.item"}, for_each="$.parameters.rows"), error_strategy={"default_behavior": "skip"}
    )
    result = await run(tool, FakeTools(work=_odd_fails), {"rows": [0, 1, 2, 3]})
    assert result.output["result"] == [0, None, 2, None]
    assert result.steps[0].status == "ran"
    assert result.output["incomplete"][0]["error"]["code"] == "TOOL_UNAVAILABLE"
    lost = await run(tool, FakeTools(work=_odd_fails), {"rows": [1, 3]})
    assert lost.steps[0].status == "failed"
    assert lost.steps[0].output == [None, None]


async def test_each_element_has_its_own_retries_and_fallback() -> None:
    """Retries count per element, and a fallback sees the element it stands in for."""
    tools = FakeTools(work=_odd_fails)
    strategy = {**retrying("fixed", 1, 0), **falling_back(step("echo", {"for": "$.item"}))}
    tool = define(step("work", {"n": "$.item"}, for_each="$.parameters.rows"), error_strategy=strategy)
    result = await run(tool, tools, {"rows": [0, 1, 2]})
    assert result.output["result"] == [0, {"for": 1}, 2]
    assert result.steps[0].status == "fallback"
    assert sorted(made.key_suffix for _, _, made in tools.made) == ["0:0", "0:1", "0:1", "0:1:f0", "0:2"]


async def test_a_failed_element_ends_a_composite_that_aborts() -> None:
    """Without skip or fallback one failed element is the step's failure, and names the element."""
    tool = define(step("work", {"n": "$.item"}, for_each="$.parameters.rows"), step())
    result = await run(tool, FakeTools(work=_odd_fails), {"rows": [0, 2, 3]})
    assert result.error is not None
    assert result.error.details["item"] == 2
    assert result.steps[1].status == "not_run"


async def test_a_failure_tells_what_was_changed_before_it() -> None:
    """Whoever looks into a failure learns which writes had happened."""
    tools = FakeTools(save=lambda _: 1, flaky=failing())
    result = await run(define(step("save"), step(), step("flaky")), tools, writers={"save"})
    assert result.error is not None
    assert result.error.details["changed"] == [0]
