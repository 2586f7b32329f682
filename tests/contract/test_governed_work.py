"""Tasks are attempted within their limits, results join with what was called, and no write of many is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door
from tests.api_homes import login_of
from tests.governing import AGENT, Governed, costly, draft, envelope, governed, outside, result
from twinraven.api import api_app
from twinraven.app import open_home
from twinraven.audit import AuditFilter
from twinraven.catalog import ToolAnswer
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import ToolError, ToolUnavailable
from twinraven.governance import JudgeDecision
from twinraven.governance.model import RetryRule
from twinraven.serving import Authenticator
from twinraven.tenancy import LOCAL


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, postgres=login_of(request)) as made:
        yield made


@pytest.fixture
async def small(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path) as made:
        yield made


HAS_URL = "exists($.output.url)"


def window(start: float, end: float) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {"time_window": {"start": iso(now + timedelta(hours=start)), "end": iso(now + timedelta(hours=end))}}


@pytest.mark.req("CH-05", "CH-06")
async def test_budgets_windows_channels_and_personas_act(house: Governed) -> None:
    """A task beyond its budget, channels or personas is not approved, and one outside its window is not attempted."""
    house.studio.by_topic = {
        "dear": costly("6.004"),
        "radio": {
            "url": "u",
            "artifacts": [{"artifact_id": "a", "kind": "post_draft", "channel": "radio"}],
            "analysis": {"rationale": "r"},
        },
        "dollars": costly("1", "USD"),
        "spent": ToolAnswer({"text": "no URL"}, currency="EUR", amount="6.00"),
    }
    once = {"retry_policy": {"max_attempts": 1}}
    money = {"max_budget": "6.00", "currency": "EUR"}
    tasks = await house.plan(
        draft("dear", constraints=money, priority="critical"),
        draft("radio", constraints={"channels": ["blog"]}, priority="high", **once),
        draft("dollars", constraints=money, **once),
        draft("persona", constraints={"persona_ids": ["bob"]}, priority="low", **once),
        draft("late", constraints=window(-2, -1), **once),
        draft("spent", constraints=money, acceptance_criteria=[{"id": "u", "description": "d", "check": HAS_URL}]),
        draft("early", constraints=window(1, 2)),
    )
    async with house.raven.working(), asyncio.timeout(60):
        for task in tasks[:6]:
            while (await house.task(task)).task.status in ("pending", "in_progress"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    told = {}
    for task in tasks:
        found = await house.task(task)
        last = found.decisions[-1] if found.decisions else None
        open_checks = [] if last is None else [check.check_id for check in last.policy_checks if check.is_open]
        told[task.spec_json["name"]] = (found.task.status, open_checks)
    assert told == {
        "dear": ("escalated", ["budget"]),
        "radio": ("rejected", ["channels"]),
        "dollars": ("escalated", ["budget"]),
        "persona": ("rejected", ["personas"]),
        "late": ("failed", []),
        "spent": ("failed", ["acceptance"]),
        "early": ("pending", []),
    }
    assert (await house.task(tasks[0])).task.spent == 601
    assert (await house.task(tasks[1])).results[0].outputs["analysis"] == {"rationale": "r"}
    (late,) = [each for each in await house.entries("result.failed") if each.data["task_id"] == tasks[4].task_id]
    error = (await house.task(tasks[4])).results[0].error or {}
    assert (late.code, error["retryable"]) == ("POLICY_VIOLATION", False)
    spent = await house.task(tasks[5])
    assert [each.error and each.error["code"] for each in spent.results] == [None, "POLICY_VIOLATION"]
    assert "max_budget is used up" in str(spent.results[1].error)
    assert [(each["criterion_id"], each["satisfied"]) for each in spent.results[0].evidence] == [("u", False)]
    refused = await house.door.post(f"/v1/tasks/{tasks[6].task_id}/attempts", {})
    assert refused.json()["code"] == "CONFLICT"


@pytest.mark.req("CH-05")
async def test_the_urgent_go_first(tmp_path: Path) -> None:
    """A worker with one slot takes tasks by priority, and workers outside are shown the most urgent first."""
    async with governed(tmp_path, engine={"pools": [{"queue": "runs", "slots": 1}]}) as house:
        await house.plan(*(draft(name, priority=name) for name in ("low", "normal", "high", "critical")))
        tasks = await house.plan(outside("x", priority="low"), outside("y", priority="critical"))
        await house.plan(outside("early", constraints=window(1, 2)))
        shown = [task.task_id for task in await house.raven.tasks.ready("default")]
        assert shown == [tasks[1].task_id, tasks[0].task_id]
        await house.work()
        assert [topic for topic, _ in house.studio.asked] == ["critical", "high", "normal", "low"]


@pytest.mark.req("CH-05")
async def test_attempts_follow_the_retry_policy(small: Governed) -> None:
    """A failed attempt is followed by another as the policy says, and when it gives up a person may retry."""
    small.studio.failures += [ToolError("no"), ToolUnavailable("not now"), ToolError("no")]
    (task,) = await small.plan(draft("again", retry_policy={"max_attempts": 3, "backoff_strategy": "none"}))
    await small.work()
    found = await small.task(task)
    assert [(run.attempt_number, run.status) for run in found.runs] == [(1, "failed"), (2, "failed"), (3, "failed")]
    assert (found.task.status, found.task.attempts, found.decisions) == ("failed", 3, ())
    retried = await small.raven.tasks.retry(task.task_id, by=LOCAL, state_version=found.task.state_version)
    assert retried.status == "pending"
    await small.work()
    assert (await small.task(task)).task.status == "complete"
    small.studio.failures.append(ToolError("no"))
    (slow,) = await small.plan(draft("slow", retry_policy={"max_attempts": 2, "backoff_strategy": "fixed"}))
    async with small.raven.working(), asyncio.timeout(30):
        while not (await small.task(slow)).results:  # noqa: ASYNC110 - what it asks sets no event
            await asyncio.sleep(0.01)
    waiting = await small.task(slow)
    assert waiting.task.due_at is not None
    assert waiting.task.due_at - waiting.results[0].created_at >= timedelta(seconds=0.99)
    (away,) = await small.plan(outside("away"))
    error = ToolUnavailable("not now").as_json()
    failed = result(away) | {"status": "failed", "confidence_score": 0, "error": error}
    await small.raven.attempts.submit(failed, by=AGENT)
    assert (await small.task(away)).task.status == "pending"
    assert await small.raven.tasks.ready("default") == ()
    pauses = [RetryRule().delay_s(attempt) for attempt in (1, 2, 3, 10, 20)]
    assert pauses == [1.0, 2.0, 4.0, 512.0, 600.0]


@pytest.mark.req("CH-05")
async def test_a_safety_policy_is_mandatory_for_its_task(tmp_path: Path) -> None:
    """A check that only warns stands in the way of the task that names it as a safety policy."""
    checks = [{"check": "tone", "text": "shout", "then": "warn"}]
    async with governed(tmp_path, policy={"checks": checks}) as house:
        house.studio.answers += [{"url": "u", "text": "shout"}] * 2
        once = {"retry_policy": {"max_attempts": 1}}
        free, bound = await house.plan(
            draft("free", priority="high"), draft("bound", constraints={"safety_policies": ["tone"]}, **once)
        )
        await house.work()
        assert [(await house.task(each)).task.status for each in (free, bound)] == ["complete", "rejected"]


@pytest.mark.req("CH-06", "CH-23", "CH-25")
async def test_a_result_can_be_joined_with_what_was_called(house: Governed) -> None:
    """A result names its attempt, envelope, evidence and calls, which are events and audit entries with lineage."""
    criteria = [{"id": "url", "description": "has a URL", "check": "exists($.output.url)"}]
    (task,) = await house.plan(
        {**draft(acceptance_criteria=criteria), "task_type": "engagement", "run": {"tool": "send"}}
    )
    await house.work()
    (found,) = (await house.task(task)).results
    assert (found.attempt_number, found.status, found.confidence_score) == (1, "complete", 1.0)
    assert [(each["criterion_id"], each["satisfied"]) for each in found.evidence] == [("url", True)]
    (call,) = found.invocations
    assert (call["tool_name"], call["status"]) == ("send", "success")
    shown = (await house.door.get(f"/v1/results/{found.result_id}")).json()
    assert (shown["campaign_id"], shown["goal_id"], shown["task_id"]) == (task.campaign_id, task.goal_id, task.task_id)
    kept = (await house.door.get(f"/v1/envelopes/{found.envelope_id}")).json()
    assert (kept["type"], kept["task_id"]) == ("worker.result", task.task_id)
    house.raven.collector.flush()
    (event,) = (await house.door.get("/v1/events?tool_id=send")).json()["items"]
    assert (event["event_id"], event["task_id"]) == (call["call_id"], task.task_id)
    assert {f"campaign:{task.campaign_id}", f"goal:{task.goal_id}"} <= set(event["tags"])
    lineage = {"campaign_id": task.campaign_id, "goal_id": task.goal_id, "task_id": task.task_id}
    entries = await house.raven.audit.entries("default", AuditFilter())
    mine = [each for each in entries if each.data.get("task_id") == task.task_id]
    assert {each.event_type for each in mine} >= {
        "task.planned",
        "task.attempt_begun",
        "call.intended",
        "call.succeeded",
        "result.complete",
        "decision.approved",
    }
    assert all({name: each.data[name] for name in lineage} == lineage and each.correlation_id for each in mine)
    (told,) = [each for each in mine if each.event_type == "result.complete"]
    assert told.data["calls"] == [call["call_id"]]


@pytest.mark.req("CH-24")
async def test_what_is_shown_is_what_is_stored(small: Governed) -> None:
    """Whoever opens the home anew is shown each status that this process shows, of tasks, envelopes and the goal."""
    small.studio.by_topic = {"bad": {"text": "no URL"}}
    *_, late = await small.plan(
        draft("good"),
        draft("bad", retry_policy={"max_attempts": 1}),
        outside(),
        draft("late", constraints=window(1, 2)),
    )
    (waiting,) = (await small.task(late)).runs
    assert (await small.door.post(f"/v1/runs/{waiting.run_id}/cancel", {})).status == 200
    await small.work()
    with open_home(small.raven.home) as later:
        other = Door(api_app(later, Authenticator(later.tenancy, without_key=LOCAL)))
        shown = [(await door.get("/v1/tasks")).json()["items"] for door in (small.door, other)]
        assert shown[0] == shown[1]
        assert sorted(each["status"] for each in shown[1]) == ["complete", "failed", "pending", "rejected"]
        for each in shown[1]:
            found = await later.tasks.get("default", each["task_id"])
            assert [run.status for run in found.runs] == (["complete"] if found.results else [])
            for made in (*found.results, *found.decisions):
                kept = (await other.get(f"/v1/envelopes/{made.envelope_id}")).json()
                word = made.decision if isinstance(made, JudgeDecision) else made.status
                assert kept["status"] == {"approve": "approved", "reject": "rejected"}.get(word, word)
                trace = await later.tracer.trace("default", f"envelope:{made.envelope_id}")
                assert trace.nodes[trace.start].status == kept["status"]
        assert (await other.get(f"/v1/goals/{small.goal.goal_id}")).json()["status"] == "in_progress"


@pytest.mark.req("CH-06")
async def test_a_process_and_a_plan_are_attempted_like_a_tool(small: Governed) -> None:
    """A task that names a process runs its version in force, and one that brings a plan runs its steps."""
    from twinraven.processes import Process

    step = {"id": "s", "tool": "draft", "inputs": {"topic": "{step.topic}"}, "output": {"variable": "made"}}
    process = {"id": "writing", "description": "Write", "initial_context": ["topic"], "steps": [step]}
    await small.raven.processes.save(Process.from_json(process), by=LOCAL)
    criteria = [{"id": "any", "description": "something", "check": "exists($.output)"}]
    plan = {
        "goal": "write",
        "steps": [{"step_id": "1", "description": "d", "tool": "draft", "arguments": {"topic": "p"}}],
    }
    tasks = await small.plan(
        {**draft("written", acceptance_criteria=criteria), "run": {"process": "writing"}},
        {**draft("planned", acceptance_criteria=criteria), "run": {"plan": "write"}, "inputs": {"plan": plan}},
    )
    await small.work()
    assert [(await small.task(task)).task.status for task in tasks] == ["complete", "complete"]
    assert sorted(topic for topic, _ in small.studio.asked) == ["p", "written"]
    assert {each["tool_name"] for each in (await small.task(tasks[0])).results[0].invocations} == {"draft"}


@pytest.mark.req("CH-17")
async def test_stale_writes_are_told_the_current_version(house: Governed) -> None:
    """Campaigns, budgets, tasks and goals are changed at the version that was seen, or not at all."""
    door, campaign_id = house.door, house.goal.campaign_id
    made = await door.post(f"/v1/campaigns/{campaign_id}/budgets", {"total": "100.00", "currency": "EUR"})
    budget = made.json()
    (task,) = await house.plan(outside())
    targets = {
        f"/v1/campaigns/{campaign_id}": ("PATCH", "", {"name": "Summer"}),
        f"/v1/budgets/{budget['budget_id']}": ("PATCH", "", {"total": "120.00"}),
        f"/v1/tasks/{task.task_id}": ("POST", "/specs", {"payload": {**task.spec_json, "description": "other"}}),
    }
    for path, (method, part, body) in targets.items():
        tag = (await door.get(path)).tag
        assert (await door.ask(method, path + part, body)).json()["details"]["field"] == "state_version"
        stale = await door.ask(method, path + part, {**body, "state_version": 7})
        assert (stale.status, stale.json()["code"]) == (412, "OCC_CONFLICT")
        assert stale.json()["details"]["current"] == 1
        changed = await door.ask(method, path + part, body, headers={"If-Match": tag})
        assert (changed.status, changed.json()["state_version"]) == (200, 2), changed.body
        again = await door.ask(method, path + part, body, headers={"If-Match": tag})
        assert (again.status, again.json()["details"]["current"]) == (412, 2)
        fresh = await door.ask(method, path + part, {**body, "state_version": 2})
        assert (fresh.status, fresh.json()["state_version"]) == (200, 3)
    (open_task,) = await house.plan(outside("open"))
    late = await door.post(f"/v1/tasks/{open_task.task_id}/attempts", {"state_version": 7})
    assert (late.status, late.json()["code"], late.json()["details"]["current"]) == (412, "OCC_CONFLICT", 1)
    assert late.json()["details"]["state_version"] == 7
    goal = f"/v1/goals/{house.goal.goal_id}"
    for ending in (f"/v1/tasks/{task.task_id}", goal):
        current = (await door.get(ending)).json()["state_version"]
        refused = await door.post(f"{ending}/cancel", {"state_version": current + 1})
        assert (refused.status, refused.json()["details"]["current"]) == (412, current)
        ended = await door.post(f"{ending}/cancel", {"state_version": current})
        assert (ended.status, ended.json()["status"]) == (200, "cancelled")
    for wrong in ({"total": "1.001"}, {"total": "-5"}, {"total": 5}):
        path = f"/v1/budgets/{budget['budget_id']}"
        assert (await door.ask("PATCH", path, {**wrong, "state_version": 3})).status == 400


@pytest.mark.req("CH-20")
async def test_a_paused_campaign_begins_nothing(small: Governed) -> None:
    """While a campaign is paused no attempt begins; what was queued goes on when it is resumed, or is cancelled."""
    campaigns, campaign_id = small.raven.campaigns, small.goal.campaign_id
    (task,) = await small.plan(draft())
    await campaigns.change(campaign_id, by=LOCAL, state_version=1, status="paused")
    await small.work()
    assert (small.studio.asked, (await small.task(task)).task.status) == ([], "pending")
    await campaigns.change(campaign_id, by=LOCAL, state_version=2, status="active")
    await small.work()
    assert (await small.task(task)).task.status == "complete"
    (other,) = await small.plan(draft("other", constraints=window(1, 2)))
    await campaigns.change(campaign_id, by=LOCAL, state_version=3, status="cancelled")
    assert (await small.task(other)).task.status == "cancelled"


@pytest.mark.req("CH-06")
async def test_whoever_claims_a_task_reports_it(small: Governed) -> None:
    """An attempt belongs to who claimed it; another's report, a second claim and a wrong number are refused."""
    from tests.governing import MEMBER

    (task,) = await small.plan(outside())
    run = await small.raven.attempts.claim(task.task_id, by=AGENT)
    assert run.worker == "agent:scribe"
    with pytest.raises(Exception, match="another worker"):
        await small.raven.attempts.submit(result(task), by=MEMBER)
    with pytest.raises(Exception, match="only a pending one"):
        await small.raven.attempts.claim(task.task_id, by=MEMBER)
    with pytest.raises(Exception, match="is not the next"):
        await small.raven.attempts.submit(result(task, 3), by=AGENT)
    failed = result(task) | {"status": "failed", "confidence_score": 0}
    error: dict[str, Any] = {"code": "X", "message": "m", "retryable": True, "details": {}}
    await small.raven.attempts.submit({**failed, "error": error}, by=AGENT)
    assert (await small.task(task)).task.status == "pending"
    assert envelope("worker.result", {})["role"] == "worker"
    again = await small.raven.attempts.claim(task.task_id, by=AGENT)
    assert again.attempt_number == 2
    await small.raven.attempts.submit(result(task, 2), by=AGENT)
    shown = await small.task(task)
    assert [each.attempt_number for each in (*shown.runs, *shown.results)] == [1, 2, 1, 2]
