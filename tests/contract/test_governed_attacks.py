"""Ways around governance that must be closed: effects without the right decision, ids that do not belong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Reply
from tests.api_homes import api_home, login_of
from tests.contract.test_effects import settled
from tests.governed import approved_task
from tests.governing import Governed, decision, draft, envelope, governed, outside, result
from tests.working import working
from twinraven.audit import AuditFilter
from twinraven.effects import read_channels
from twinraven.foundation.errors import InvalidSetting, PolicyViolation
from twinraven.foundation.ids import new_id
from twinraven.tenancy import LOCAL, Principal

CHECKS = [
    {"check": "no-radio", "channel": "radio*", "then": "reject", "reason": "we are not on air"},
    {"check": "no-carl", "persona": "carl", "then": "escalate"},
    {"check": "shy", "channel": "blog", "confidence_below": 0.5, "then": "reject"},
]
DRAFT = {"artifact_id": "post-1", "kind": "post_draft"}
ONCE = {"max_attempts": 1}
PAST = {"time_window": {"end": "2020-01-01T00:00:00Z"}}


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, postgres=login_of(request)) as made:
        yield made


@pytest.fixture
async def small(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, policy={"checks": CHECKS}) as made:
        yield made


@pytest.fixture
async def judged_outside(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, policy={"judge": "outside"}) as made:
        yield made


def post(task_id: str, key: str = "k", **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "channel": "blog", "text": "x", "idempotency_key": key, **more}


def told(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


@pytest.mark.req("CH-15")
async def test_what_was_to_leave_for_a_result_does_not_leave_for_the_next(house: Governed) -> None:
    """A publication that was allowed for a result is not sent once a person withdrew that approval, although a later
    result of the same task was approved since; where the same result is approved anew, it is sent."""
    door, raven = house.door, house.raven
    (replaced,), (restored,) = await house.plan(outside("a")), await house.plan(outside("b", retry_policy=ONCE))
    made: list[str] = []
    for task in (replaced, restored):
        assert (await door.post("/v1/results", result(task))).status == 200
        made.append((await door.post("/v1/publications", post(task.task_id, task.task_id))).json()["publish_id"])
        await _resolve(house, task.task_id, "reject")
    assert (await door.post("/v1/results", result(replaced, 2))).status == 200
    await _resolve(house, restored.task_id, "approve")
    assert [(await house.task(each)).task.status for each in (replaced, restored)] == ["complete"] * 2
    async with working(raven):
        failed, sent = [await settled(raven, "publish", each) for each in made]
    assert (failed.status, sent.status) == ("failed", "published")
    assert (failed.outgoing.error["code"], "superseded" in failed.outgoing.error["message"]) == (
        "POLICY_VIOLATION",
        True,
    )
    assert len(list((raven.home / "outbox").rglob("*.json"))) == 1


async def _resolve(house: Governed, task_id: str, verdict: str) -> None:
    last = (await house.task(task_id)).decisions[-1].decision_id
    said = await house.door.post(f"/v1/decisions/{last}/resolve", {"decision": verdict, "reason": "looked again"})
    assert said.status == 200, said.body


@pytest.mark.req("CH-05", "CH-15")
async def test_rules_about_channels_and_personas_hold_for_what_leaves(small: Governed) -> None:
    """A rule about a channel or a voice that no artifact named is held against the effect that names it."""
    door = small.door
    (task,) = await small.plan(outside())
    assert (await door.post("/v1/results", {**result(task), "confidence_score": 0.4})).status == 200
    for number, (path, more, check) in enumerate((
        ("publications", {"channel": "radio-1"}, "no-radio"),
        ("messages", {"channel": "radio-1", "recipient": "ann"}, "no-radio"),
        ("publications", {"channel": "mail", "persona_id": "carl"}, "no-carl"),
        ("publications", {}, "shy"),
    )):  # fmt: skip
        refused = await door.post(f"/v1/{path}", post(task.task_id, f"k{number}", **more))
        assert (*told(refused), check in refused.json()["detail"]) == (403, "POLICY_VIOLATION", True), refused.body
    assert (await door.post("/v1/publications", post(task.task_id, "fine", channel="mail"))).status == 202


@pytest.mark.req("CH-05", "CH-14")
async def test_a_provider_serves_its_channels_alone(tmp_path: Path) -> None:
    """A task that may speak on one channel reaches no service of another by naming it; a channel finds its provider."""
    folders = [
        {"name": "radio", "folder": "radio", "kinds": ["publish", "message"], "channels": ["radio*"]},
        {"name": "press", "folder": "press", "kinds": ["publish"], "channels": ["blog", "news-?"]},
    ]
    async with governed(tmp_path, effects={"providers": folders}) as house:
        task = await approved_task(house.raven, channels=["blog"])
        refused = await house.door.post("/v1/publications", post(task.task_id, provider="radio"))
        assert (*told(refused), refused.json()["details"]["field"]) == (400, "VALIDATION_FAILED", "provider")
        assert "one of press, outbox for a publish on 'blog'" in refused.json()["detail"]
        tries: list[tuple[str, dict[str, Any], str]] = [
            ("publications", {}, "press"),
            ("publications", {"provider": "outbox"}, "outbox"),
            ("messages", {"recipient": "ann"}, "outbox"),
        ]
        for number, (path, more, provider) in enumerate(tries):
            made = await house.door.post(f"/v1/{path}", post(task.task_id, f"k{number}", **more))
            assert (made.status, made.json()["provider"]) == (202, provider), made.body
    for wrong in ([], "blog", [7], [""]):
        with pytest.raises(InvalidSetting, match="channels must list"):
            read_channels([{**folders[0], "channels": wrong}])


@pytest.mark.req("CH-02", "CH-12")
async def test_a_decision_about_something_else_than_it_names_is_refused(judged_outside: Governed) -> None:
    """A judge's envelope that names another campaign, goal, task or artifact than its result has is a 404 that says
    which; nothing is decided."""
    house = judged_outside
    (task,) = await house.plan(outside())
    assert (await house.door.post("/v1/results", result(task, outputs={"artifacts": [DRAFT]}))).status == 200
    found = await house.task(task)
    for name in ("campaign_id", "goal_id", "task_id"):
        refused = await house.door.post("/v1/decisions", {**decision(found), name: new_id()})
        assert (*told(refused), refused.json()["details"]["field"]) == (404, "NOT_FOUND", name), refused.body
    edit = {"action": "edit", "target_artifact_id": "post-2"}
    refused = await house.door.post("/v1/decisions", decision(found, "reject", required_actions=[edit]))
    place = "payload.required_actions[0].target_artifact_id"
    assert (*told(refused), refused.json()["details"]["field"]) == (404, "NOT_FOUND", place)
    assert (await house.task(task)).decisions == ()
    own = {**edit, "target_artifact_id": "post-1"}
    right = decision(found, "reject", required_actions=[own])
    named = {"campaign_id": task.campaign_id, "goal_id": task.goal_id}
    assert (await house.door.post("/v1/decisions", {**right, **named})).status == 200


@pytest.mark.req("CH-07")
async def test_a_person_asks_for_actions_that_there_are(small: Governed) -> None:
    """A person who sends a result back names an action of the contract and an artifact of the result, or is told so."""
    (task,) = await small.plan(draft())
    await small.work()
    path = f"/v1/decisions/{(await small.task(task)).decisions[-1].decision_id}/resolve"
    for action, status in (
        ({"action": "dance"}, 400),
        ({"notes": "no action"}, 400),
        ({"action": "edit", "target_artifact_id": "nothing"}, 404),
    ):
        said = {"decision": "reject", "reason": "no", "required_actions": [action]}
        refused = await small.door.post(path, said)
        assert (refused.status, "required_actions[0]" in refused.json()["details"]["field"]) == (status, True)
    assert len((await small.task(task)).decisions) == 1


@pytest.mark.req("CH-04")
async def test_a_task_has_one_id(small: Governed) -> None:
    """A planner's envelope may name the task beside its payload or inside it; two that differ are refused."""
    payload = {name: value for name, value in outside().items() if name != "name"}
    goal, ids = small.goal.goal_id, [new_id(), new_id()]
    inside = envelope("planner.task", {**payload, "task_id": ids[0]}, goal_id=goal)
    refused = await small.door.post("/v1/tasks", {**inside, "task_id": ids[1]})
    assert (*told(refused), refused.json()["details"]["field"]) == (400, "VALIDATION_FAILED", "payload.task_id")
    assert (await small.door.post("/v1/tasks", {**inside, "task_id": ids[0]})).json()["task_id"] == ids[0]
    beside = envelope("planner.task", payload, goal_id=goal, task_id=ids[1])
    planned = (await small.door.post("/v1/tasks", beside)).json()
    assert (planned["task_id"], planned["spec_json"]["task_id"]) == (ids[1], ids[1])


@pytest.mark.req("CH-05")
async def test_a_budget_without_a_currency_is_in_the_campaigns(small: Governed) -> None:
    """max_budget alone, as the contract writes it, is in the currency of the campaign's open budgets; where they are in
    none or in two, the field that is missing is named."""
    door, limits = small.door, dict[str, Any](constraints={"max_budget": "5.00"})
    payload = {name: value for name, value in outside(**limits).items() if name != "name"}
    said = envelope("planner.task", payload, goal_id=small.goal.goal_id)
    refused = await door.post("/v1/tasks", said)
    assert (*told(refused), refused.json()["details"]["field"]) == (
        400, "VALIDATION_FAILED", "payload.constraints.currency",
    )  # fmt: skip
    budgets = f"/v1/campaigns/{small.goal.campaign_id}/budgets"
    assert (await door.post(budgets, {"total": "50.00", "currency": "EUR"})).status == 201
    planned = (await door.post("/v1/tasks", said)).json()
    (other,) = await small.plan(outside("other", **limits))
    revised = await small.raven.planner.revise(planned["task_id"], payload, by=LOCAL, state_version=1)
    for spec in (planned["spec_json"], other.spec_json, revised.spec_json):
        assert spec["constraints"] == {"max_budget": "5.00", "currency": "EUR"}
    assert (await small.plan(outside("other", **limits)))[0].task_id == other.task_id
    assert (await door.post(budgets, {"total": "50.00", "currency": "USD"})).status == 201
    assert (await door.post("/v1/tasks", {**said, "id": new_id(), "idempotency_key": "k2"})).status == 400


@pytest.mark.req("CH-07", "CH-15")
async def test_an_approval_that_needs_a_person_is_none(judged_outside: Governed) -> None:
    """A judge who says that a person has to look cannot approve in their place, whatever it says of that person."""
    house, agent = judged_outside, Principal("default", "critic", "member", kind="agent")
    (task,) = await house.plan(outside())
    assert (await house.door.post("/v1/results", result(task))).status == 200
    found = await house.task(task)
    for status in ("pending", "completed"):
        review = {"required": True, "status": status, "reviewer_id": "olivia"}
        with pytest.raises(Exception, match="human_review") as raised:
            await house.raven.judge.decide(decision(found, human_review=review), by=agent)
        assert raised.value.details["field"] == "payload.human_review"  # pyright: ignore
    refused = await house.door.post("/v1/publications", post(task.task_id))
    assert told(refused) == (403, "POLICY_VIOLATION")
    person = await house.door.post("/v1/decisions", decision(found, human_review={"required": True}))
    assert person.json()["human_review"]["reviewer_id"] == LOCAL.user_id
    assert (await house.door.post("/v1/publications", post(task.task_id))).status == 202


@pytest.mark.req("CH-07", "CH-15")
async def test_asking_again_does_not_approve_what_waits_for_a_person(
    small: Governed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a check that escalated a result lets it pass the next time, a member who asks for a new round gets no
    approval, and a person who may decide does."""
    small.studio.by_topic["spring"] = {"url": "https://x", "artifacts": [{**DRAFT, "persona_id": "carl"}]}
    (task,) = await small.plan(draft())
    await small.work()
    found = await small.task(task)
    assert found.decisions[-1].decision == "escalate"
    judge, result_id = small.raven.judge, found.results[-1].result_id
    monkeypatch.setattr(judge._checks, "_rules", ())  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(PolicyViolation, match="waits for a person"):
        await judge.evaluate(result_id, by=Principal("default", "scribe", "member", kind="agent"))
    assert (await small.task(task)).task.status == "escalated"
    anew = await small.door.post(f"/v1/results/{result_id}/evaluate", {})
    assert (anew.status, anew.json()["decision"]) == (200, "approve"), anew.body


@pytest.mark.req("CH-05")
async def test_a_result_without_a_claim_is_held_to_the_same_limits(small: Governed) -> None:
    """Whoever reports an attempt that was never begun cannot attempt a task after its window, nor one of the house."""
    (late,) = await small.plan(outside(constraints=PAST))
    refused = await small.door.post("/v1/results", result(late))
    assert (*told(refused), (await small.task(late)).results) == (403, "POLICY_VIOLATION", ())
    first, own = await small.plan(outside("first"), draft("own", dependencies=["first"]))
    refused = await small.door.post("/v1/results", result(own))
    assert (*told(refused), "own worker" in refused.json()["detail"]) == (409, "CONFLICT", True), refused.body
    assert (await small.task(first)).task.status == "pending"


@pytest.mark.req("CH-22", "CH-25")
async def test_every_refusal_says_where_it_belongs(house: Governed) -> None:
    """Refused claims, results, changes and effects of a task are audited with its campaign, goal and task."""
    (task,) = await house.plan(outside(constraints=PAST))
    path = f"/v1/tasks/{task.task_id}"
    replies = [
        await house.door.post(f"{path}/attempts", {}),
        await house.door.post("/v1/results", result(task)),
        await house.door.post("/v1/publications", post(task.task_id)),
        await house.door.post(f"{path}/cancel", {"state_version": 7}),
    ]
    assert [each.status for each in replies] == [403, 403, 403, 412]
    entries = [each for each in await house.raven.audit.entries("default") if each.code is not None]
    names = [each.event_type for each in entries if each.event_type != "policy.refused"]
    assert names == ["task.claim.refused", "result.refused", "publish.refused", "task.refused"]
    assert {entry.event_type for entry in entries if _lineage(entry.data) != _lineage(task.as_json())} == set()


@pytest.mark.req("CH-22")
async def test_a_refusal_at_the_door_names_what_it_was_about(tmp_path: Path) -> None:
    """What a viewer may not do is audited with the ids that the request named."""
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        eve = await home.user(admin.tenant_id, "eve", role="viewer")
        assert (await eve.door.post("/v1/tasks/some-task/cancel", {})).status == 403
        (entry,) = await home.raven.audit.entries(admin.tenant_id, AuditFilter(event_type="policy.refused"))
        assert (entry.subject_id, entry.data) == ("POST /v1/tasks/{task_id}/cancel", {"task_id": "some-task"})


@pytest.mark.req("CH-14")
async def test_a_campaigns_wallet_pays_for_that_campaign(small: Governed) -> None:
    """The wallet that belongs to a campaign pays for no other; one that belongs to none pays for any."""
    door, task, other = small.door, await approved_task(small.raven), await approved_task(small.raven)
    paid = {"amount": "1.00", "currency": "EUR", "counterparty": "printer"}
    for owner, status in ((other.campaign_id, 403), (task.campaign_id, 202), ("marketing", 202)):
        opened = await door.post("/v1/wallets", {"agent_or_campaign_id": owner, "currency": "EUR"})
        wallet = {"wallet_id": opened.json()["wallet_id"]}
        funded = await door.post(f"/v1/wallets/{wallet['wallet_id']}/fund", {"amount": "5.00", "idempotency_key": "f"})
        assert funded.status == 200, funded.body
        wish = {"task_id": task.task_id, "idempotency_key": owner, **wallet, **paid}
        reply = await door.post("/v1/transactions", wish)
        assert reply.status == status, reply.body
        assert (await door.get(f"/v1/wallets/{wallet['wallet_id']}")).json()["held"] == ("1.00", "0.00")[status == 403]


@pytest.mark.req("CH-14")
async def test_an_agent_takes_no_payment_back(small: Governed) -> None:
    """Money is given back by people, whatever role an agent has."""
    for who in (Principal("default", "bot", "admin", kind="agent"), Principal("default", "ann", "member")):
        with pytest.raises(PolicyViolation, match="person"):
            await small.raven.effects.reverse("t", by=who, note="again")


@pytest.mark.req("CH-14", "CH-21")
async def test_a_secret_stands_in_no_plan_no_envelope_and_no_effect(judged_outside: Governed) -> None:
    """Whoever writes a secret of the tenant into what is kept or sent is told to name it instead; nothing is stored."""
    house, door, word = judged_outside, judged_outside.door, "correct-horse-battery"
    assert (await door.post("/v1/secrets", {"name": "bank", "type": "password", "value": word})).status == 201
    payload = {name: value for name, value in outside().items() if name != "name"}
    told_of = {**payload, "description": f"use {word}"}
    (task,) = await house.plan(outside())
    tries = [
        ("/v1/tasks", envelope("planner.task", told_of, goal_id=house.goal.goal_id)),
        (f"/v1/goals/{house.goal.goal_id}/tasks", {"tasks": [{**told_of, "name": "sly"}]}),
        (f"/v1/tasks/{task.task_id}/specs", {"payload": told_of, "state_version": 1}),
        ("/v1/results", result(task, outputs={"artifacts": [], "text": word})),
    ]
    for path, body in tries:
        refused = await door.post(path, body)
        assert (*told(refused), "secret" in refused.json()["detail"]) == (400, "VALIDATION_FAILED", True), refused.body
    assert (await door.post("/v1/results", result(task))).status == 200
    judged = await door.post("/v1/decisions", decision(await house.task(task), reason_summary=f"it says {word}"))
    assert told(judged) == (400, "VALIDATION_FAILED"), judged.body
    assert (await door.post("/v1/decisions", decision(await house.task(task)))).status == 200
    refused = await door.post("/v1/publications", post(task.task_id, text=f"the word is {word}"))
    assert (*told(refused), "secrets" in refused.json()["detail"]) == (400, "VALIDATION_FAILED", True), refused.body
    assert [len((await door.get(path)).json()["items"]) for path in ("/v1/publications", "/v1/tasks")] == [0, 1]


@pytest.mark.req("CH-02")
async def test_an_envelope_is_of_the_kind_that_its_door_takes(small: Governed) -> None:
    """A result at the planner's door, another tenant's envelope and a list are refused by name."""
    (task,) = await small.plan(outside())
    said, goal = result(task), {"goal_id": small.goal.goal_id}
    for path, body, status, field in (
        ("/v1/tasks", {**said, **goal}, 400, "role"),
        ("/v1/results", {**said, "tenant_id": "other"}, 404, "tenant_id"),
        ("/v1/results", [said], 400, "body"),
        ("/v1/results", {name: value for name, value in said.items() if name != "tenant_id"}, 400, "tenant_id"),
    ):
        refused = await small.door.post(path, body)
        assert (refused.status, field in refused.body.decode()) == (status, True), refused.body


def _lineage(data: Any) -> tuple[Any, ...]:
    return data.get("campaign_id"), data.get("goal_id"), data.get("task_id")
