"""A configured model plans a goal: its plan passes the same checks as a file, and is made anew on fresh state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.governing import draft, governed, outside
from tests.scripted import scripted_model
from twinraven.foundation.errors import InvalidInput
from twinraven.models import ModelNotConfigured
from twinraven.tenancy import LOCAL


def said(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"json": {"tasks": list(tasks)}, "times": 1}


@pytest.mark.req("CH-04")
async def test_a_refused_plan_goes_back_to_the_model(tmp_path: Path) -> None:
    """A plan that names no tool there is comes back with what is wrong, and the next one becomes tasks that run."""
    wrong = {**draft("one"), "run": {"tool": "nobody"}}
    right = said(draft("one"), outside("two", dependencies=["one"]))
    async with scripted_model(said(wrong), right) as model, governed(tmp_path, **model.settings()) as house:
        planned = await house.raven.planner.propose(house.goal.goal_id, by=LOCAL)
        assert [task.spec_json["name"] for task in planned] == ["one", "two"]
        assert len(model.exchanges) == 2
        assert "nobody" in str(model.exchanges[1])
        await house.work()
        assert [(await house.task(task)).task.status for task in planned] == ["complete", "pending"]


@pytest.mark.req("CH-07")
async def test_a_model_is_told_why_its_work_came_back(tmp_path: Path) -> None:
    """A task that a model plans and writes is attempted again with the judge's required actions in every question."""
    step = {"step_id": "1", "description": "write", "agent": "llm"}
    plan = {"json": {"goal": "write", "steps": [step]}, "times": 1}
    words = [{"say": each, "times": 1} for each in ("guaranteed profit", "fair")]
    checks = [{"check": "no-promises", "text": "guaranteed", "then": "reject", "action": "edit", "reason": "too sure"}]
    script = (plan, words[0], plan, words[1])
    async with (
        scripted_model(*script) as model,
        governed(tmp_path, **model.settings(), policy={"checks": checks}) as house,
    ):
        criteria = [{"id": "any", "description": "something", "check": "exists($.output)"}]
        (task,) = await house.plan({**draft(acceptance_criteria=criteria), "run": {"plan": "write it"}, "inputs": {}})
        await house.work()
        found = await house.task(task)
        assert [each.decision for each in found.decisions] == ["reject", "approve"]
        assert ["too sure" in str(each) for each in model.exchanges] == [False, False, True, True]


@pytest.mark.req("CH-17")
async def test_a_plan_is_made_anew_when_the_goal_has_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the goal moves while the model thinks, the model is asked about the state as it is now."""
    answers = said(outside("late")), said(outside("fresh"))
    async with scripted_model(*answers) as model, governed(tmp_path, **model.settings()) as house:
        proposer = house.raven.planner._proposer  # pyright: ignore[reportPrivateUsage]
        ask, asked = proposer.ask, list[int]()

        async def slowly(question: Any, goal: Any, *, by: Any) -> Any:
            asked.append(goal.state_version)
            answer = await ask(question, goal, by=by)
            if len(asked) == 1:
                await house.plan(draft("meanwhile"))
                await house.work()
            return answer

        monkeypatch.setattr(proposer, "ask", slowly)
        (task,) = await house.raven.planner.propose(house.goal.goal_id, by=LOCAL)
        assert task.spec_json["name"] == "fresh"
        assert len(asked) == 2
        assert asked[1] > asked[0]


async def test_without_a_model_there_is_no_proposal(tmp_path: Path) -> None:
    """The error says how to configure one; a task to be planned by a model is refused at once, too."""
    async with governed(tmp_path) as house:
        with pytest.raises(ModelNotConfigured):
            await house.raven.planner.propose(house.goal.goal_id, by=LOCAL)
        with pytest.raises(ModelNotConfigured):
            await house.plan({**draft("x"), "run": {"plan": "write it"}, "inputs": {}})
        with pytest.raises(InvalidInput):
            await house.plan({**draft("x"), "run": {"plan": "w"}, "inputs": {"plan": {"goal": "g"}}})
