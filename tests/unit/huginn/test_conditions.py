"""Conditions on the elements of a map in records with mistakes, and when calls of one tool are a chain or a batch."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.huginn.billing_world import SessionScript, traces
from tests.unit.huginn.test_synthesis import synthesize
from twinraven.foundation.clock import utc_now
from twinraven.huginn import Learner, LearningConfig, SessionTrace, ToolCandidate, ToolFacts, run_backtest


def watch_sessions(count: int, *, mistaken: int, made_up: int = 0) -> list[SessionTrace]:
    """The logs of every failed job are read; in so many sessions one that did not fail is read as well, or one that no
    list holds is asked for instead.
    """
    rng = random.Random(8)
    scripts: list[SessionScript] = []
    for number in range(count):
        jobs = [{"job": f"j{rng.randrange(10**8)}", "state": state} for state in ("failed", "done", "failed", "done")]
        rng.shuffle(jobs)
        read = [job["job"] for job in jobs if job["state"] == "failed"]
        if number < mistaken:
            read.append(next(job["job"] for job in jobs if job["state"] == "done"))
        if number >= count - made_up:
            read[0] = f"j{rng.randrange(10**8)}"
        script = SessionScript(f"w{number}", f"task-{number}")
        script.call("list_jobs", {"queue": f"q{number}"}, {"jobs": jobs}, said=f"what is wrong with q{number}?")
        for job in read:
            script.call("get_logs", {"job": job, "tail": 100}, f"log of {job}")
        scripts.append(script)
    return traces(scripts)


def condition_of(tool: ToolCandidate | str) -> Any:
    assert isinstance(tool, ToolCandidate), tool
    return tool.definition.internal_wiring["0"]["jobs"]["$where"]["of"]


def test_a_few_mistakes_do_not_cost_a_condition() -> None:
    """Where one session in thirteen reads an element that the condition leaves out, the condition is kept."""
    condition = condition_of(synthesize(watch_sessions(52, mistaken=4), "list_jobs", "get_logs"))
    assert condition == {"$where": {"of": "$.steps[0].output.jobs", "at": "$.state", "equals": "failed"}}


def test_what_no_list_holds_says_nothing_about_a_condition() -> None:
    """A condition is kept where agents ask, in a sixth of the sessions, for something that they made up."""
    condition = condition_of(synthesize(watch_sessions(52, mistaken=0, made_up=9), "list_jobs", "get_logs"))
    assert condition == {"$where": {"of": "$.steps[0].output.jobs", "at": "$.state", "equals": "failed"}}


async def test_what_was_told_before_a_map_begins_says_nothing_about_it() -> None:
    """Agents who look at another order and then open the items of the one before do not contradict that orders name
    their items.
    """
    rng = random.Random(3)
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"o{number}", f"task-{number}")
        orders = [f"W{rng.randrange(10**8)}" for _ in range(2)]
        items = [[f"item-{rng.randrange(10**8)}" for _ in range(2)] for _ in orders]
        script.call("get_order", {"order": orders[0]}, {"items": items[0]}, said=f"my orders {' and '.join(orders)}")
        goes_back = number % 3 == 1
        if goes_back:
            script.call("get_order", {"order": orders[1]}, {"items": items[1]})
        for place, item in enumerate(items[0]):
            said = "the first of them" if goes_back and place == 0 else None
            script.call("get_item", {"item": item}, {"price": rng.randrange(90)}, said=said)
        scripts.append(script)
    report = await Learner(LearningConfig(), ToolFacts(), now=utc_now).learn(traces(scripts))
    (draft,) = [each for each in report.drafts if each.tool.chain == ("get_order", "get_item")]
    assert draft.verdict.passed, draft.verdict.failure_reasons
    assert draft.verdict.equivalence_score.mean_similarity == 1


@pytest.mark.parametrize("mistaken", [5, 6, 7])
def test_a_condition_that_only_some_folds_see_does_not_cost_the_map(mistaken: int) -> None:
    """Around the share from which a condition is kept, the map is learned with it or without it, never refused."""
    tool = synthesize(watch_sessions(50, mistaken=mistaken), "list_jobs", "get_logs")
    assert isinstance(tool, ToolCandidate), tool


async def test_the_first_element_that_fulfils_a_condition_is_found_wherever_it_stands() -> None:
    """Agents who read only the first failed job of a list, at whatever place, get a tool that does that."""
    rng = random.Random(6)
    scripts: list[SessionScript] = []
    for number in range(40):
        states = ["done"] * rng.randrange(4) + ["failed"] + rng.choices(["done", "failed"], k=4)
        jobs = [{"job": rng.randrange(10**8), "state": state} for state in states]
        script = SessionScript(f"f{number}", f"task-{number}")
        script.call("list_jobs", {"queue": f"q{number}"}, {"jobs": jobs}, said=f"what is wrong with q{number}?")
        script.call("get_logs", {"job": next(job["job"] for job in jobs if job["state"] == "failed")}, "log")
        scripts.append(script)
    report = await Learner(LearningConfig(), ToolFacts(), now=utc_now).learn(traces(scripts))
    (chosen,) = report.chosen
    assert (chosen.alone.turns_saved, chosen.alone.extra_calls) == (40, 0)
    first = {"of": "$.steps[0].output.jobs", "at": "$.state", "equals": "failed", "first": True}
    assert chosen.tool.definition.internal_wiring["0"]["job"] == {"$at": {"of": {"$where": first}, "path": "$.job"}}
    told = chosen.tool.definition.evidence["steps"][1]["arguments"]["job"]["source"]
    assert told == 'the first of $.steps[0].output.jobs, its job, where state is "failed"'


async def test_a_value_that_the_first_call_of_a_batch_gives_is_known_to_it() -> None:
    """Reads that share an argument which only the agent chose can be asked for together."""
    sessions = watch_sessions(60, mistaken=0)
    outcome = await run_backtest(sessions, LearningConfig(max_tools=0), ToolFacts(), split="task", now=utc_now)
    assert outcome.batch.turns_saved == len(outcome.tested)


async def test_two_calls_of_one_tool_that_share_an_argument_are_no_chain() -> None:
    """A tool is chained with itself only where the second call takes something from the first one's answer."""
    rng = random.Random(2)
    scripts: list[SessionScript] = []
    for number in range(30):
        script = SessionScript(f"n{number}", f"task-{number}")
        script.call("read_page", {"book": f"b{number}", "page": rng.randrange(10**6)}, "…", said=f"read b{number}")
        script.call("read_page", {"book": f"b{number}", "page": rng.randrange(10**6)}, "…")
        scripts.append(script)
    report = await Learner(LearningConfig(), ToolFacts(), now=utc_now).learn(traces(scripts))
    assert [draft.tool.tool_id for draft in report.drafts if draft.tool.shape == "chain"] == []
