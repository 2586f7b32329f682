"""What an effect is held to besides a decision: wallets, budgets, assets, words, and who has the last word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import api_home, login_of
from tests.contract.test_effects import settled, wallet_of
from tests.effect_service import effect_service
from tests.governed import ApprovedTask, add_budget, approved_task
from tests.governing import Governed, draft, governed
from tests.working import until, working
from twinraven.audit import AuditFilter
from twinraven.foundation.errors import StorageUnavailable
from twinraven.tenancy import LOCAL

CHECKS = [
    {"check": "no-promises", "text": "guaranteed (profit|returns)", "then": "reject", "reason": "promises money"},
    {"check": "disclosed", "channel": "social*", "disclosure": "missing", "then": "reject"},
    {"check": "loud", "text": "!!!", "then": "warn"},
]


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, postgres=login_of(request), policy={"checks": CHECKS}) as made:
        yield made


@pytest.fixture
async def small(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, policy={"checks": CHECKS}) as made:
        yield made


def payment(task: ApprovedTask, wallet_id: str, key: str = "k", **more: Any) -> dict[str, Any]:
    return {
        "task_id": task.task_id, "wallet_id": wallet_id, "amount": "1.00", "currency": "EUR", "counterparty": "printer",
        "idempotency_key": key, **more,
    }  # fmt: skip


def post(task_id: str, text: str, key: str = "k", **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "channel": "blog", "text": text, "idempotency_key": key, **more}


@pytest.mark.req("CH-02", "CH-16")
async def test_the_key_of_an_effect_may_be_a_header(small: Governed) -> None:
    """Idempotency-Key and the body's key mean the same, for ever; two that differ, one too long and none are 400."""
    door, task, wallet = small.door, await approved_task(small.raven), await wallet_of(small.raven)
    bodies: dict[str, dict[str, Any]] = {
        "/v1/transactions": payment(task, wallet),
        "/v1/publications": post(task.task_id, "x"),
        "/v1/messages": {**post(task.task_id, "x"), "recipient": "ann"},
        f"/v1/wallets/{wallet}/fund": {"amount": "1.00", "idempotency_key": "k"},
    }
    for path, body in bodies.items():
        key, keyless = f"of-{path}", {name: value for name, value in body.items() if name != "idempotency_key"}
        first = await door.post(path, keyless, Idempotency_Key=f'"{key}"')
        assert first.status in (200, 202), first.body
        for again in (
            await door.post(path, {**keyless, "idempotency_key": key}),
            await door.post(path, {**keyless, "idempotency_key": key}, Idempotency_Key=key),
        ):
            assert (again.status, again.json()) == (first.status, first.json())
        for wrong, headers in (
            ({**keyless, "idempotency_key": "other"}, {"Idempotency_Key": key}),
            (keyless, {}),
            (keyless, {"Idempotency_Key": "k" * 201}),
        ):
            refused = await door.post(path, wrong, **headers)
            said = (refused.status, refused.json()["code"], refused.json()["details"]["field"])
            assert said == (400, "VALIDATION_FAILED", "idempotency_key"), path
    assert (await small.raven.wallets.get("default", wallet)).held == 100
    assert [len(await small.raven.effects.list(kind, by=LOCAL)) for kind in ("transaction", "publish", "message")] == [
        1,
        1,
        1,
    ]


@pytest.mark.req("CH-05", "CH-14")
async def test_a_campaign_with_a_budget_spends_from_nothing_else(house: Governed) -> None:
    """A payment that names no budget is charged to the campaign's; another campaign's, a closed one and a choice
    among several are refused, and nothing of what was refused is held."""
    door, raven = house.door, house.raven
    task, other, wallet = await approved_task(raven), await approved_task(raven), await wallet_of(raven)
    budget, foreign = await add_budget(raven, task, 150), await add_budget(raven, other, 5_000)
    first = await door.post("/v1/transactions", payment(task, wallet))
    assert (first.status, first.json()["budget_id"]) == (202, budget)
    again = await door.post("/v1/transactions", payment(task, wallet))
    assert again.json()["transaction_id"] == first.json()["transaction_id"]
    for more, status, code in (
        ({}, 409, "LEDGER_OVERDRAWN"),
        ({"budget_id": foreign}, 404, "NOT_FOUND"),
        ({"budget_id": "nobody"}, 404, "NOT_FOUND"),
    ):
        refused = await door.post("/v1/transactions", payment(task, wallet, "k2", **more))
        assert (refused.status, refused.json()["code"]) == (status, code), refused.body
    second = await add_budget(raven, task, 5_000)
    unclear = await door.post("/v1/transactions", payment(task, wallet, "k2"))
    assert (unclear.status, unclear.json()["details"]["field"]) == (400, "budget_id")
    for each in (budget, second):
        closed = await door.patch(f"/v1/budgets/{each}", {"status": "closed"}, If_Match='"1"')
        assert closed.status == 200, closed.body
    for more, status, code in (({}, 403, "POLICY_VIOLATION"), ({"budget_id": second}, 409, "ILLEGAL_TRANSITION")):
        refused = await door.post("/v1/transactions", payment(task, wallet, "k3", **more))
        assert (refused.status, refused.json()["code"]) == (status, code), refused.body
    assert (await raven.wallets.get("default", wallet)).held == 100
    assert (await raven.ledger.verify("default")).ok


@pytest.mark.req("CH-14", "CH-20")
async def test_a_frozen_wallet_pays_nothing(small: Governed) -> None:
    """Nothing is paid out of a wallet that is frozen, not even what was allowed before; its money is given back."""
    door, raven = small.door, small.raven
    task, wallet = await approved_task(raven), await wallet_of(raven)
    made = (await door.post("/v1/transactions", payment(task, wallet))).json()
    assert (await door.patch(f"/v1/wallets/{wallet}", {"status": "frozen"}, If_Match='"1"')).status == 200
    refused = await door.post("/v1/transactions", payment(task, wallet, "k2"))
    assert (refused.status, refused.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    async with working(raven):
        done = await settled(raven, "transaction", made["transaction_id"])
    assert (done.status, done.error["code"]) == ("failed", "ILLEGAL_TRANSITION")
    shown = (await raven.wallets.get("default", wallet)).as_json()
    assert (shown["balance"], shown["held"]) == ("100.00", "0.00")


@pytest.mark.req("CH-14")
async def test_references_of_effects_are_named_when_they_do_not_fit(small: Governed) -> None:
    """An asset of another campaign, an asset, a wallet and a currency that are not there: a 4xx that says which."""
    door, raven = small.door, small.raven
    task, other, wallet = await approved_task(raven), await approved_task(raven), await wallet_of(raven)
    body = {"campaign_id": other.campaign_id, "kind": "image", "storage_uri": "s3://x/p.png"}
    foreign = (await door.post("/v1/assets", body)).json()["asset_id"]
    for path, wrong, status, word in (
        ("publications", post(task.task_id, "x", media_asset_id=foreign), 404, foreign),
        ("publications", post(task.task_id, "x", media_asset_id="nothing"), 404, "nothing"),
        ("transactions", payment(task, "nobody"), 404, "nobody"),
        ("transactions", payment(task, wallet, currency="USD"), 400, "holds EUR, not USD"),
    ):
        refused = await door.post(f"/v1/{path}", wrong)
        assert (refused.status, word in refused.json()["detail"]) == (status, True), refused.body


@pytest.mark.req("CH-05", "CH-15", "CH-22")
async def test_what_leaves_is_held_against_the_checks_of_words(house: Governed) -> None:
    """An approved task lets no text out that a check forbids, nor a post without the disclosure that its channel
    needs; the refusal is audited, and what only warns may leave."""
    (task,) = await house.plan(draft())
    await house.work()
    for number, (path, wrong) in enumerate((
        ("publications", post(task.task_id, "Guess what: guaranteed profit")),
        ("messages", {**post(task.task_id, "guaranteed returns"), "recipient": "ann"}),
        ("publications", post(task.task_id, "fine", channel="social-x")),
    )):  # fmt: skip
        refused = await house.door.post(f"/v1/{path}", {**wrong, "idempotency_key": f"k{number}"})
        assert (refused.status, refused.json()["code"]) == (403, "POLICY_VIOLATION"), refused.body
    noted = await house.raven.audit.entries("default", AuditFilter(subject_id=task.task_id, limit=100))
    told = [entry.message for entry in noted if entry.code == "POLICY_VIOLATION"]
    assert [("no-promises" in str(each), "disclosed" in str(each)) for each in told] == [(True, False)] * 2 + [
        (False, True)
    ]
    for key, right in (
        ("r1", post(task.task_id, "Spring!!!")),
        ("r2", post(task.task_id, "fine", channel="social-x", disclosure="by AI")),
    ):
        assert (await house.door.post("/v1/publications", {**right, "idempotency_key": key})).status == 202


@pytest.mark.req("CH-07")
async def test_words_that_a_person_let_pass_may_leave(small: Governed) -> None:
    """Where a person overrode a check, what it forbids is published; another check still holds."""
    door = small.door
    small.studio.by_topic["spring"] = {"url": "https://x", "text": "guaranteed profit"}
    (task,) = await small.plan(draft(retry_policy={"max_attempts": 1}))
    await small.work()
    last = (await small.task(task)).decisions[-1]
    said = {"decision": "approve", "reason": "it is a quotation", "override": True}
    assert (await door.post(f"/v1/decisions/{last.decision_id}/resolve", said)).status == 200
    assert (await door.post("/v1/publications", post(task.task_id, "guaranteed profit"))).status == 202
    refused = await door.post("/v1/publications", post(task.task_id, "guaranteed profit", "k2", channel="social"))
    assert (refused.status, "disclosed" in refused.json()["detail"]) == (403, True)


@pytest.mark.req("CH-15")
@pytest.mark.parametrize(("fault", "status"), [("busy", "failed"), ("drop_before", "unknown")])
async def test_what_is_withdrawn_between_attempts_is_not_sent_again(tmp_path: Path, fault: str, status: str) -> None:
    """An effect whose approval falls between two attempts is not sent: it failed where nothing had been sent, and is
    unknown where something may have been."""
    with effect_service(faults=[fault]) as service:
        bank = {"name": "bank", "url": service.url, "kinds": ["publish"], "timeout_s": 1}
        sections: dict[str, Any] = {
            "effects": {"providers": [bank], "first_pause_s": 1},
            "connectors": {"allow_private": ["127.0.0.1"]},
        }
        async with governed(tmp_path, **sections) as house, working(house.raven):
            task = await approved_task(house.raven)
            made = (await house.door.post("/v1/publications", post(task.task_id, "x"))).json()
            await until(lambda: not service.faults)
            paused = await house.door.patch(f"/v1/campaigns/{task.campaign_id}", {"status": "paused"}, If_Match='"1"')
            assert paused.status == 200, paused.body
            done = await settled(house.raven, "publish", made["publish_id"])
            assert (done.status, done.outgoing.error["code"], dict(service.happened)) == (
                status,
                "POLICY_VIOLATION",
                {},
            )


@pytest.mark.req("CH-16")
async def test_an_unknown_effect_is_settled_by_asking_its_provider(tmp_path: Path) -> None:
    """What nobody knew is settled once the provider can be asked, at the door or by itself; nothing is sent again."""
    with effect_service(faults=["drop_after", "drop_after"]) as service:
        service.is_mute = True
        bank = {"name": "bank", "url": service.url, "kinds": ["publish"], "timeout_s": 1, "recognises_keys": False}
        sections: dict[str, Any] = {
            "effects": {"providers": [bank], "first_pause_s": 0.01},
            "connectors": {"allow_private": ["127.0.0.1"]},
        }
        async with governed(tmp_path, **sections) as house, working(house.raven):
            task = await approved_task(house.raven)
            made = [(await house.door.post("/v1/publications", post(task.task_id, "x", key))).json() for key in "ab"]
            paths = [f"/v1/publications/{each['publish_id']}" for each in made]
            for each in made:
                assert (await settled(house.raven, "publish", each["publish_id"])).status == "unknown"
            asked = await house.door.post(f"{paths[0]}/reconcile", {})
            assert (asked.status, asked.json()["status"]) == (200, "unknown")
            service.is_mute = False
            asked = await house.door.post(f"{paths[0]}/reconcile", {})
            assert (asked.json()["status"], asked.json()["external_post_id"][:4]) == ("published", "ext-")
            over = await house.door.post(f"{paths[0]}/reconcile", {})
            assert (over.status, over.json()["code"]) == (409, "ILLEGAL_TRANSITION")
            async with asyncio.timeout(60):
                while (await house.door.get(paths[1])).json()["status"] != "published":  # noqa: ASYNC110 - it sets no event
                    await asyncio.sleep(0.02)
            assert sorted(service.happened.values()) == [1, 1]
            assert (await house.raven.audit.verify("default")).ok


@pytest.mark.req("CH-16", "CH-24")
async def test_a_delivery_that_is_cancelled_leaves_no_effect_under_way(tmp_path: Path) -> None:
    """What may have been sent is unknown, what was not has failed and holds no money."""
    with effect_service(faults=["never", "never"]) as service:
        bank = {"name": "bank", "url": service.url, "kinds": ["publish", "transaction"], "timeout_s": 60}
        sections: dict[str, Any] = {"effects": {"providers": [bank]}, "connectors": {"allow_private": ["127.0.0.1"]}}
        async with governed(tmp_path, **sections) as house:
            door, task, wallet = house.door, await approved_task(house.raven), await wallet_of(house.raven)
            later = post(task.task_id, "x", "later", scheduled_at="2099-01-01T00:00:00Z")
            waiting = (await door.post("/v1/publications", later)).json()["publish_id"]
            paid = (await door.post("/v1/transactions", payment(task, wallet))).json()["transaction_id"]
            now = post(task.task_id, "x", "s", provider="bank")
            sent = (await door.post("/v1/publications", now)).json()["publish_id"]

            async def cancel(effect_id: str) -> None:
                assert (await door.post(f"/v1/runs/effect:{effect_id}/cancel", {})).status == 200

            await cancel(paid)
            done = await settled(house.raven, "transaction", paid)
            assert (done.status, done.as_json()["error"]["code"]) == ("failed", "PROVIDER_UNREACHABLE")
            async with working(house.raven):
                await until(lambda: len(service.happened) == 1)
                await cancel(waiting)
                await cancel(sent)
            assert (await settled(house.raven, "publish", waiting)).status == "failed"
            done = await settled(house.raven, "publish", sent)
            assert (done.status, done.outgoing.error["code"]) == ("unknown", "PROVIDER_SILENT")
            assert [each.held for each in await house.raven.wallets.list("default")] == [0]


@pytest.mark.req("CH-14")
async def test_members_page_through_their_own_effects(tmp_path: Path) -> None:
    """A page of a member's effects is full, however many of others lie between."""
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        bob, eve = [await home.user(admin.tenant_id, name) for name in ("bob", "eve")]
        task = await approved_task(home.raven, tenant_id=admin.tenant_id)
        for number in range(12):
            who = bob if number % 4 == 0 else eve
            assert (await who.door.post("/v1/publications", post(task.task_id, "x", f"k{number}"))).status == 202
        first = (await bob.door.get("/v1/publications?limit=2")).json()
        second = (await bob.door.get(f"/v1/publications?limit=2&cursor={first['next_cursor']}")).json()
        assert [len(first["items"]), len(second["items"]), second["next_cursor"]] == [2, 1, None]
        assert len({each["publish_id"] for each in (*first["items"], *second["items"])}) == 3
        assert await home.raven.effects.list("publish", by=LOCAL) == []


@pytest.mark.req("CH-05")
async def test_an_effect_speaks_in_a_voice_that_its_task_allows(house: Governed) -> None:
    """Personas of a task bind what leaves: the campaign's voice, another that is stated, and one that nobody has."""
    door, raven = house.door, house.raven
    (task,) = await house.plan(draft(constraints={"persona_ids": ["ann", "bea"]}))
    await house.work()
    assert (await house.task(task)).task.status == "complete"
    said = {"task_id": task.task_id, "channel": "mail", "recipient": "eve", "text": "x"}
    for path, body in (("publications", post(task.task_id, "x", "p")), ("messages", {**said, "idempotency_key": "m"})):
        refused = await door.post(f"/v1/{path}", {**body, "persona_id": "carl"})
        assert (refused.status, refused.json()["code"]) == (403, "POLICY_VIOLATION"), refused.body
        assert "speak as ann, bea" in refused.json()["detail"]
        allowed = await door.post(f"/v1/{path}", {**body, "persona_id": "bea"})
        assert (allowed.status, allowed.json()["request"]["persona_id"]) == (202, "bea"), allowed.body
    waiting = (await door.post("/v1/publications", post(task.task_id, "y", "q"))).json()
    assert "persona_id" not in waiting["request"]
    changed = {"persona_id": "carl", "state_version": 1}
    assert (await door.patch(f"/v1/campaigns/{house.goal.campaign_id}", changed)).status == 200
    async with working(raven):
        done = await settled(raven, "publish", waiting["publish_id"])
    assert (done.status, done.outgoing.error["code"]) == ("failed", "POLICY_VIOLATION")


@pytest.mark.req("CH-05")
async def test_no_voice_is_not_a_voice_that_is_allowed(small: Governed) -> None:
    """Where neither the effect nor the campaign has a persona, a task bound to some lets nothing be said for it."""
    task = await approved_task(small.raven, persona_ids=["ann"])
    refused = await small.door.post("/v1/publications", post(task.task_id, "x"))
    assert (refused.status, "not stated" in refused.json()["detail"]) == (403, True)
    allowed = await small.door.post("/v1/publications", post(task.task_id, "x", persona_id="ann"))
    assert allowed.status == 202
    wrong = await small.door.post("/v1/publications", post(task.task_id, "x", "k2", persona_id="a\u200bb\n"))
    assert (wrong.status, "persona_id" in wrong.json()["detail"]) == (400, True), wrong.body


@pytest.mark.req("CH-14")
async def test_what_was_taken_back_is_not_spent(house: Governed) -> None:
    """A payment that was taken back leaves room under max_budget; none is taken back into a wallet that is closed."""
    door, raven = house.door, house.raven
    task, wallet = await approved_task(raven, max_budget="1.50", currency="EUR"), await wallet_of(raven, "1.00")
    first = (await door.post("/v1/transactions", payment(task, wallet))).json()["transaction_id"]
    async with working(raven):
        await settled(raven, "transaction", first)
        refused = await door.post("/v1/transactions", payment(task, wallet, "k2"))
        assert (refused.status, "max_budget" in refused.json()["detail"]) == (403, True)
        assert (await door.post(f"/v1/transactions/{first}/reverse", {"note": "twice"})).status == 200
        second = (await door.post("/v1/transactions", payment(task, wallet, "k2"))).json()["transaction_id"]
        await settled(raven, "transaction", second)
    assert (await door.patch(f"/v1/wallets/{wallet}", {"status": "closed"}, If_Match='"1"')).status == 200
    late = await door.post(f"/v1/transactions/{second}/reverse", {"note": "twice"})
    assert (late.status, late.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    assert (await raven.wallets.get("default", wallet)).free == 0
    assert (await raven.ledger.verify("default")).ok


@pytest.mark.req("CH-16")
async def test_a_wish_whose_commit_nobody_knows_of_is_kept_once(
    house: Governed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the answer to the commit was lost, the same wish again gives the one effect, and is no refusal."""
    task, write, lost = await approved_task(house.raven), house.raven.database.write, [True]

    async def lose_once(tenant_id: str, work: Any) -> Any:
        answer = await write(tenant_id, work)
        if lost:
            lost.clear()
            raise StorageUnavailable("the connection was lost during COMMIT", commit="unknown")
        return answer

    monkeypatch.setattr(house.raven.database, "write", lose_once)
    first = await house.door.post("/v1/publications", post(task.task_id, "x"))
    assert (first.status, first.json()["retryable"]) == (503, True)
    again = await house.door.post("/v1/publications", post(task.task_id, "x"))
    other = await house.door.post("/v1/publications", post(task.task_id, "y"))
    assert (again.status, other.status) == (202, 422), (again.body, other.body)
    (only,) = await house.raven.effects.list("publish", by=LOCAL)
    assert only.as_json()["publish_id"] == again.json()["publish_id"]
    told = await house.raven.audit.entries("default", AuditFilter(subject_id=task.task_id))
    assert [entry.code for entry in told] == ["IDEMPOTENCY_CONFLICT"]


@pytest.mark.req("CH-05")
async def test_a_budget_is_given_by_who_owns_the_campaign(tmp_path: Path) -> None:
    """A member gives no budget to another's campaign, where spending would follow it; owners and admins do, until the
    campaign is over."""
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        bob, eve = [await home.user(admin.tenant_id, name) for name in ("bob", "eve")]
        campaign = (await bob.door.post("/v1/campaigns", {"name": "bob's"})).json()["campaign_id"]
        path, body = f"/v1/campaigns/{campaign}", {"total": "5.00", "currency": "EUR"}
        refused = await eve.door.post(f"{path}/budgets", body)
        assert (refused.status, refused.json()["code"]) == (403, "POLICY_VIOLATION"), refused.body
        assert (await admin.door.get(f"/v1/budgets?campaign_id={campaign}")).json()["items"] == []
        assert [(await who.door.post(f"{path}/budgets", body)).status for who in (bob, admin)] == [201, 201]
        assert (await bob.door.patch(path, {"status": "cancelled", "state_version": 1})).status == 200
        late = await bob.door.post(f"{path}/budgets", body)
        assert (late.status, late.json()["code"]) == (409, "ILLEGAL_TRANSITION")
