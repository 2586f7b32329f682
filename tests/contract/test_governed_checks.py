"""Checks that look at money, functions that break their process, and a house that judges while the state moves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.governing import AGENT, MEMBER, Governed, costly, draft, governed, outside, result
from twinraven.catalog import ToolAnswer
from twinraven.foundation.errors import StaleState
from twinraven.governance import JudgeDecision
from twinraven.tenancy import LOCAL

MONEY = [
    {"check": "costly", "cost_above": "5.00 EUR", "then": "escalate"},
    {"check": "nearly-spent", "budget_left_below": "2.00 EUR", "then": "escalate"},
]
DEAF = """
import os, threading, time

def passes(subject):
    return {"result": "pass", "details": str(subject["budget_left"])}

def goes_deaf(subject):
    os.close(0)
    threading.Thread(target=time.sleep, args=(600,)).start()
"""


async def _decided(house: Governed, *tasks: dict[str, Any]) -> dict[str, JudgeDecision]:
    """Plan tasks, work, and give the last decision about each by its name."""
    planned = await house.plan(*tasks)
    await house.work()
    return {task.spec_json["name"]: (await house.task(task)).decisions[-1] for task in planned}


@pytest.mark.req("CH-05", "CH-07")
async def test_rules_about_money_fire(tmp_path: Path) -> None:
    """A result above a cost, one that leaves too little of its budget, and one whose cost cannot be compared wait."""
    budget = {"constraints": {"max_budget": "10.00", "currency": "EUR"}}
    async with governed(tmp_path, policy={"checks": MONEY}) as house:
        house.studio.by_topic = {
            "cheap": costly("5.00"),
            "dear": costly("5.001"),
            "dollars": costly("1", "USD"),
            "nonsense": ToolAnswer({"url": "u"}, currency="EUR", amount="much"),
            "half": costly("4.00"),
            "most": ToolAnswer({"url": "u"}, currency="EUR", amount="8.01"),
            "unpriced": {"url": "u"},
        }
        tasks = [draft(name, **(budget if name in ("half", "most") else {})) for name in house.studio.by_topic]
        found = await _decided(house, *tasks)
    fired = {name: [check.check_id for check in each.policy_checks if check.is_open] for name, each in found.items()}
    assert fired == {
        "cheap": [],
        "dear": ["costly"],
        "dollars": ["costly"],
        "nonsense": ["costly"],
        "half": [],
        "most": ["costly", "nearly-spent"],
        "unpriced": [],
    }
    assert {each.decision for name, each in found.items() if fired[name]} == {"escalate"}
    told = {check.check_id: check.details for check in found["dollars"].policy_checks}
    assert told["costly"] == "its rule says to escalate"


@pytest.mark.req("CH-07")
async def test_a_function_that_leaves_its_process_unusable_denies_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that reads no more is ended and the check denies; the next check is asked in a new process."""
    (tmp_path / "deaf_checks.py").write_text(DEAF)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names = ["deaf_checks:passes", "deaf_checks:goes_deaf"]
    limits = {"constraints": {"max_budget": "3.00", "currency": "EUR"}}
    async with governed(tmp_path, policy={"functions": names, "check_timeout_s": 30}) as house:
        for name, verdict, said in (("first", "approve", "3.00"), ("second", "escalate", "ended its process")):
            found = (await _decided(house, draft(name, **limits)))[name]
            told = {check.check_id: check.details for check in found.policy_checks}
            assert (found.decision, said in told[names[0]]) == (verdict, True), told


@pytest.mark.req("CH-07")
async def test_a_function_that_cannot_be_started_denies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process can be had for the checks, nothing is approved by them, and a person looks."""
    async with governed(tmp_path, policy={"functions": ["nowhere:at_all"]}) as house:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
        found = (await _decided(house, draft()))["spring"]
        assert found.decision == "escalate"
        assert "could not be run" in found.policy_checks[-1].details


@pytest.mark.req("CH-08")
async def test_the_house_gives_up_on_state_that_never_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judgement whose task moves under it again and again is refused as stale, and nothing is decided by it."""
    async with governed(tmp_path, policy={"judge": "outside"}) as house:
        judge, moved = house.raven.judge, list[int]()
        (task,) = await house.plan(outside("restless", retry_policy={"max_attempts": 1}))
        await house.raven.attempts.submit(result(task), by=AGENT)
        evaluate = judge._checks.evaluate  # pyright: ignore[reportPrivateUsage]

        async def late(subject: Any) -> Any:
            found = await evaluate(subject)
            moved.append(subject.task.state_version)
            work, now = judge._moves, (await house.task(task)).task  # pyright: ignore[reportPrivateUsage]
            await house.raven.database.write("default", lambda tx: work.move(tx, now, now.status, may_stay=True))
            return found

        monkeypatch.setattr(judge._checks, "evaluate", late)  # pyright: ignore[reportPrivateUsage]
        result_id = (await house.task(task)).results[-1].result_id
        with pytest.raises(StaleState):
            await judge.evaluate(result_id, by=LOCAL)
        assert (len(moved), len((await house.task(task)).decisions)) == (8, 0)


@pytest.mark.req("CH-07")
async def test_the_house_judges_anew_what_it_left_to_people_itself(tmp_path: Path) -> None:
    """A member may ask the house to judge again what its own checks escalated; the checks decide, not the member."""
    checks = [{"check": "sure-enough", "confidence_below": 0.5, "then": "escalate"}]
    async with governed(tmp_path, policy={"checks": checks}) as house:
        house.studio.answers.append({"url": "https://x", "confidence_score": 0.2})
        found = (await _decided(house, draft()))["spring"]
        anew = await house.raven.judge.evaluate(found.result_id, by=MEMBER)
        assert (found.decision, anew.decision, anew.round) == ("escalate", "escalate", 2)
        assert anew.decided_by == found.decided_by
