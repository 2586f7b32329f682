"""Planners, workers and judges outside take part by envelopes over REST, which are checked and kept as sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door, Reply
from tests.api_homes import login_of
from tests.governing import AGENT, Governed, decision, draft, envelope, governed, outside, result
from twinraven.api import api_app
from twinraven.app import open_home
from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_id
from twinraven.serving import Authenticator
from twinraven.tenancy import LOCAL
from twinraven.tracing.model import TraceKey

PAYLOAD: dict[str, Any] = {
    "task_type": "content_generation",
    "description": "Draft it",
    "acceptance_criteria": [{"id": "short", "description": "is short"}],
}


RESEARCH: dict[str, Any] = {"task_type": "trend_research", "acceptance_criteria": []}


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, postgres=login_of(request)) as made:
        yield made


@pytest.fixture
async def small(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path) as made:
        yield made


def error(reply: Reply) -> tuple[int, str, str]:
    body = reply.json()
    return reply.status, body["code"], body["details"].get("field", "")


@pytest.mark.req("CH-02", "CH-03", "CH-06", "CH-23")
async def test_a_task_goes_from_planner_to_worker_to_judge(house: Governed) -> None:
    """Three programs outside bring a task from its plan to an approval; fields nobody knows survive each of them."""
    written = {"created_at": "2026-11-17T23:00:00+01:00", "confidence_score": 1, "error": None, "correlation_id": "p-1"}
    planned = envelope("planner.task", {**PAYLOAD, "mood": "bright"}, goal_id=house.goal.goal_id, batch=7, **written)
    task = (await house.door.post("/v1/tasks", planned)).json()
    assert (task["status"], task["spec_json"]["mood"]) == ("pending", "bright")
    assert [each["task_id"] for each in (await house.door.get("/v1/ready-tasks")).json()["items"]] == [task["task_id"]]
    run = (await house.door.post(f"/v1/tasks/{task['task_id']}/attempts", {})).json()
    assert (run["attempt_number"], run["status"]) == (1, "in_progress")
    evidence = [{"criterion_id": "short", "satisfied": True, "notes": "two lines"}]
    outputs = {
        "artifacts": [{"artifact_id": "a", "kind": "post_draft", "summary": "s"}],
        "analysis": {"rationale": "r"},
    }
    told = result(task["task_id"], outputs=outputs, acceptance_evidence=evidence, moon="full") | {
        "weather": "fine",
        "correlation_id": "w-1",
    }
    reported = await house.door.post("/v1/results", told)
    assert reported.status == 200, reported.body
    detail = await house.task(task["task_id"])
    assert (detail.task.status, detail.decisions[-1].decision) == ("complete", "approve")
    assert [each.confidence_score for each in detail.results] == [told["confidence_score"]]
    (kept,) = detail.results
    assert (kept.outputs["analysis"], list(kept.evidence)) == ({"rationale": "r"}, evidence)
    check = {"check_id": "tone", "name": "tone", "result": "pass", "details": "", "mandatory": True, "seen_by": "eve"}
    said = decision(detail, colour="green", policy_checks=[check]) | {"height": 3, "correlation_id": "j-1"}
    decided = (await house.door.post("/v1/decisions", said)).json()
    assert (decided["round"], decided["decision"]) == (2, "approve")
    assert check in (await house.door.get(f"/v1/decisions/{decided['decision_id']}")).json()["policy_checks"]
    for sent in (planned, told, said):
        shown = (await house.door.get(f"/v1/envelopes/{sent['id']}")).json()
        assert {name: shown[name] for name in sent} == sent
        found = await house.raven.tracer.trace("default", str(sent["id"]))
        assert ("task", task["task_id"]) in found.nodes
        assert found.nodes[TraceKey("envelope", str(sent["id"]))].facts["correlation_id"] == sent["correlation_id"]
    headed = envelope("planner.task", PAYLOAD, goal_id=house.goal.goal_id)
    assert (await house.door.post("/v1/tasks", headed, X_Correlation_Id="h-1")).status == 200
    assert (await house.door.get(f"/v1/envelopes/{headed['id']}")).json()["correlation_id"] == "h-1"
    origin = await house.raven.tracer.trace("default", decided["decision_id"])
    assert {("envelope", planned["id"]), ("envelope", told["id"])} <= origin.nodes.keys()


@pytest.mark.req("CH-02")
@pytest.mark.parametrize("kind", ["planner.task", "worker.result", "judge.decision"])
async def test_no_tenant_no_key_no_effect(small: Governed, kind: str) -> None:
    """An envelope without a tenant, with another's, or without an idempotency key is refused and changes nothing."""
    door, goal_id = small.door, small.goal.goal_id
    (task,) = await small.plan(outside())
    await small.raven.attempts.submit(result(task), by=AGENT)
    detail = await small.task(task)
    bodies = {
        "planner.task": ("/v1/tasks", envelope("planner.task", PAYLOAD, goal_id=goal_id)),
        "worker.result": ("/v1/results", result(task, 2)),
        "judge.decision": ("/v1/decisions", decision(detail, "reject")),
    }
    path, good = bodies[kind]
    for name in ("tenant_id", "idempotency_key"):
        bad = {key: value for key, value in good.items() if key != name}
        status, code, field = error(await door.post(path, bad))
        assert (status, code) == (400, "VALIDATION_FAILED")
        assert name in field or name in str((await door.post(path, bad)).body)
        if kind == "worker.result":
            with pytest.raises(InvalidInput, match=name):
                await small.raven.attempts.submit(bad, by=AGENT)
    assert error(await door.post(path, {**good, "tenant_id": "elsewhere"}))[:2] == (404, "NOT_FOUND")
    after = await small.task(task)
    assert (after.task.state_version, len(after.results)) == (detail.task.state_version, 1)
    assert len(await small.raven.tasks.list("default")) == 1


@pytest.mark.req("CH-21")
async def test_what_an_envelope_lacks_is_named(small: Governed) -> None:
    """An id that is null and a window that holds no time are refused by the names of their fields."""
    (task,) = await small.plan(outside())
    await small.raven.attempts.submit(result(task), by=AGENT)
    window = {"constraints": {"time_window": {"start": "tomorrow", "end": None}}}
    goal = {"goal_id": small.goal.goal_id}
    for path, bad, field in (
        ("/v1/tasks", envelope("planner.task", PAYLOAD, goal_id=None), "goal_id"),
        ("/v1/tasks", envelope("planner.task", PAYLOAD | window, **goal), "payload.constraints.time_window.start"),
        ("/v1/results", result(task, 2) | {"task_id": None}, "task_id"),
        ("/v1/decisions", decision(await small.task(task)) | {"task_id": None}, "task_id"),
    ):
        assert error(await small.door.post(path, bad)) == (400, "VALIDATION_FAILED", f"body.{field}")


@pytest.mark.req("CH-16")
async def test_a_task_that_was_planned_stays_planned(small: Governed) -> None:
    """A planner.task envelope sent again is answered the same, also when the tool that it names is gone by then."""
    named = PAYLOAD | {"run": {"tool": "draft"}, "inputs": {"topic": "spring"}}
    planned = envelope("planner.task", named, goal_id=small.goal.goal_id)
    first = (await small.door.post("/v1/tasks", planned)).json()
    with open_home(small.raven.home) as without_tools:
        door = Door(api_app(without_tools, Authenticator(without_tools.tenancy, without_key=LOCAL)))
        assert (await door.post("/v1/tasks", planned)).json() == first
        assert (await door.post("/v1/tasks", planned | {"idempotency_key": new_id(), "id": new_id()})).status == 404


@pytest.mark.req("CH-03")
async def test_a_worker_says_how_sure_it_is(small: Governed) -> None:
    """A worker's envelope without a confidence, or with one beyond 0 to 1, is refused."""
    (task,) = await small.plan(outside())
    for stated in ({}, {"confidence_score": 1.5}, {"confidence_score": "high"}):
        bad = {name: value for name, value in result(task).items() if name != "confidence_score"} | stated
        assert error(await small.door.post("/v1/results", bad))[:2] == (400, "VALIDATION_FAILED")
    assert (await small.task(task)).task.status == "pending"


@pytest.mark.req("CH-16")
async def test_sent_again_is_answered_the_same(small: Governed) -> None:
    """An envelope sent again is answered as it was; its key with another body is refused; a new id is no other body."""
    (task,) = await small.plan(outside())
    told = result(task)
    first = (await small.door.post("/v1/results", told)).json()
    again = (await small.door.post("/v1/results", {**told, "id": new_id()})).json()
    assert again == first
    other = {**told, "risk_tags": ["spam"]}
    assert error(await small.door.post("/v1/results", other))[:2] == (422, "IDEMPOTENCY_CONFLICT")
    assert len((await small.task(task)).results) == 1


@pytest.mark.req("CH-04", "CH-05")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"constraints": {"max_budget": 12.5, "currency": "EUR"}}, "max_budget"),
        ({"constraints": {"max_budget": "12.505", "currency": "EUR"}}, "max_budget"),
        ({"constraints": {"max_budget": "-1", "currency": "EUR"}}, "max_budget"),
        ({"constraints": {"max_budget": "1"}}, "currency"),
        ({"constraints": {"max_budget": "1", "currency": "euro"}}, "currency"),
        ({"constraints": {"time_window": {"start": "2026-02-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}}}, "end"),
        ({"constraints": {"safety_policies": ["no-such-check"]}}, "safety_policies"),
        ({"acceptance_criteria": []}, "acceptance_criteria"),
        ({**RESEARCH, "run": {"tool": "send"}, "inputs": {"topic": "x"}}, "acceptance_criteria"),
        ({"acceptance_criteria": [{"id": "a", "description": "d", "check": "1 +"}]}, ""),
        ({"priority": "soon"}, "priority"),
        ({"task_id": "task-1"}, "task_id"),
        ({"dependencies": ["0" * 32]}, "dependencies"),
        ({"run": {"tool": "nobody"}}, "run.tool"),
        ({"run": {"tool": "draft"}, "inputs": {"topic": 7}}, "inputs"),
        ({"run": {"process": "draft"}, "inputs": {"topic": "x"}}, "run.process"),
    ],
)
async def test_a_spec_that_makes_no_sense_is_refused(small: Governed, change: dict[str, Any], field: str) -> None:
    """What contradicts itself is refused with the name of the field, and nothing is planned."""
    sent = envelope("planner.task", {**PAYLOAD, **change}, goal_id=small.goal.goal_id)
    reply = await small.door.post("/v1/tasks", sent)
    assert reply.status in (400, 404), reply.body
    assert field in str(reply.json())
    assert await small.raven.tasks.list("default") == ()
    assert (await small.raven.judge.list("default")) == ()


@pytest.mark.req("CH-06", "CH-12")
async def test_foreign_and_large_things_are_refused(small: Governed) -> None:
    """Another's goal, campaign, task, criterion and asset are not there, and an artifact of 2 MB is no envelope."""
    (task,) = await small.plan(outside())
    gone = "f" * 32
    assert (await small.door.post("/v1/tasks", envelope("planner.task", PAYLOAD, goal_id=gone))).status == 404
    stray = envelope("planner.task", PAYLOAD, goal_id=small.goal.goal_id, campaign_id=gone)
    assert (await small.door.post("/v1/tasks", stray)).status == 404
    assert (await small.door.post("/v1/results", result(gone))).status == 404
    assert (await small.door.post("/v1/results", result(task) | {"goal_id": gone})).status == 404
    strange = result(task, acceptance_evidence=[{"criterion_id": "nope", "satisfied": True}])
    assert (await small.door.post("/v1/results", strange)).status == 404
    asset = {"artifacts": [{"artifact_id": "a", "kind": "image", "content_ref": f"media:{gone}"}]}
    assert (await small.door.post("/v1/results", result(task, outputs=asset))).status == 404
    large: dict[str, Any] = {"artifacts": [], "text": "x" * 2_000_000}
    assert error(await small.door.post("/v1/results", result(task, outputs=large)))[0] in (400, 413)
    assert (await small.task(task)).task.attempts == 0


@pytest.mark.req("CH-04")
async def test_dependencies_form_a_graph_without_cycles(house: Governed) -> None:
    """A plan that goes in a circle, a task that waits for itself, and a revision that closes a circle are refused.

    The same plan under its key is the same tasks, also after a revision, and another plan is refused.
    """
    with pytest.raises(Exception, match="go in a circle"):
        await house.plan(draft("a", dependencies=["b"]), draft("b", dependencies=["a"]))
    said = (draft("one"), draft("two", dependencies=["one"]))
    one, two = await house.plan(*said, key="first")
    assert (await house.task(two)).dependencies == (one.task_id,)
    looped = {**one.spec_json, "dependencies": [two.task_id]}
    reply = await house.door.post(f"/v1/tasks/{one.task_id}/specs", {"payload": looped, "state_version": 1})
    assert (reply.status, reply.json()["details"]["path"]) == (400, [one.task_id, two.task_id, one.task_id])
    own = {**one.spec_json, "dependencies": [one.task_id]}
    reply = await house.door.post(f"/v1/tasks/{one.task_id}/specs", {"payload": own, "state_version": 1})
    assert reply.status == 400
    assert (await house.task(one)).task.spec_version == 1
    better = {**one.spec_json, "description": "Draft it better"}
    await house.raven.planner.revise(one.task_id, better, by=LOCAL, state_version=1)
    path = f"/v1/goals/{house.goal.goal_id}/tasks"
    again = await house.door.post(path, {"tasks": said, "key": "first"})
    assert [each["task_id"] for each in again.json()["items"]] == [one.task_id, two.task_id]
    another = draft("one", description="Draft another")
    for other in ((another, said[1]), (*said, draft("three")), (said[0], draft("two"))):
        assert error(await house.door.post(path, {"tasks": other, "key": "first"}))[:2] == (422, "IDEMPOTENCY_CONFLICT")
    assert len(await house.raven.tasks.list("default")) == 2


@pytest.mark.req("CH-02", "CH-04", "CH-13")
async def test_no_spec_holds_a_secret(small: Governed) -> None:
    """An envelope, a plan and a revision with a secret of the tenant in it are refused, and nothing is stored."""
    (task,) = await small.plan(outside())
    await small.raven.vault.create("default", LOCAL.user_id, name="key", type="api_key", value="sk-canary-987654321")
    leaky = {"description": "use sk-canary-987654321"}
    with pytest.raises(InvalidInput, match="holds a secret"):
        await small.raven.planner.revise(task.task_id, {**task.spec_json, **leaky}, by=LOCAL, state_version=1)
    with pytest.raises(InvalidInput, match="holds a secret"):
        await small.plan(outside("leaky", **leaky))
    told = envelope("planner.task", {**PAYLOAD, **leaky}, goal_id=small.goal.goal_id)
    assert error(await small.door.post("/v1/tasks", told)) == (400, "VALIDATION_FAILED", "payload")
    assert await small.raven.tasks.list("default") == (task,)


@pytest.mark.req("CH-04", "CH-05", "CH-13")
async def test_a_spec_never_changes(house: Governed) -> None:
    """A revision is the next version, by which the task is attempted; the one before stays as it was."""
    (task,) = await house.plan(draft("one", dependencies=[]))
    path = f"/v1/tasks/{task.task_id}"
    better = {"description": "Draft it better", "inputs": {"topic": "two"}, "priority": "high"}
    whole = {name: value for name, value in {**task.spec_json, **better}.items() if name != "task_id"}
    body = {"payload": whole, "state_version": task.state_version}
    astray = {**body, "payload": {**whole, "dependencies": ["0" * 32]}}
    assert (await house.door.post(f"{path}/specs", astray)).status == 404
    revised = (await house.door.post(f"{path}/specs", body)).json()
    assert (revised["task_id"], revised["spec_version"], revised["priority"]) == (task.task_id, 2, "high")
    versions = (await house.door.get(f"{path}/specs")).json()["items"]
    assert [each["spec_json"] for each in versions] == [revised["spec_json"], task.spec_json]
    assert [each["spec_hash"] for each in versions] == [
        content_hash(canonical_json(each["spec_json"])) for each in versions
    ]
    assert {each["created_by"] for each in versions} == {str(LOCAL.actor)}
    assert [each["envelope_id"] is None for each in versions] == [True, False]
    first = (await house.door.get(f"{path}/specs?limit=1")).json()
    second = (await house.door.get(f"{path}/specs?limit=1&cursor={first['next_cursor']}")).json()
    assert [*first["items"], *second["items"]] == versions
    (taken,) = await house.plan(outside("taken"))
    known = {**taken.spec_json, "description": "Look again"}
    await house.raven.planner.revise(taken.task_id, known, by=LOCAL, state_version=1)
    assert (await house.raven.attempts.claim(taken.task_id, by=AGENT)).spec_version == 2
    twice = envelope("planner.task", {**PAYLOAD, "task_id": task.task_id}, goal_id=house.goal.goal_id)
    assert error(await house.door.post("/v1/tasks", twice))[:2] == (409, "CONFLICT")
    noted, _ = await house.entries("task.revised")
    assert (noted.data["task_id"], noted.data["spec_version"]) == (task.task_id, 2)
    await house.work()
    assert [topic for topic, _ in house.studio.asked] == ["two"]
    shown = (await house.door.get(path)).json()
    assert (shown["spec_json"], shown["runs"][0]["spec_version"]) == (revised["spec_json"], 2)
    assert revised["spec_json"] == {**task.spec_json, **better}
    late = await house.door.post(f"{path}/specs", {**body, "state_version": shown["state_version"]})
    assert error(late)[:2] == (409, "ILLEGAL_TRANSITION")
