"""Effects at their edges: providers that are gone or say no when asked, a store that fails, outboxes that cannot be
written, budgets that shrink, and decisions that come too late."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tests.contract.test_effects import wallet_of
from tests.effect_model import ScriptedProvider
from tests.governed import ApprovedTask, add_budget, approved_task
from tests.governing import AGENT, MEMBER, Governed, decision, governed, outside, result
from twinraven.app import open_home
from twinraven.effects import AssetRequest, EffectOrder, ProviderAnswer, PublishRequest
from twinraven.effects.errors import ProviderRefused, ProviderSilent, ProviderUnreachable
from twinraven.effects.providers.files import FileOutbox
from twinraven.engine import RunEnd
from twinraven.flow import Waiting
from twinraven.foundation.errors import (
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
    StorageUnavailable,
)
from twinraven.tenancy import LOCAL


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[Governed]:
    async with governed(tmp_path, policy={"judge": "outside"}) as made:
        yield made


async def _published(house: Governed, task: ApprovedTask, key: str) -> str:
    """A publication that waits for its delivery by `press`."""
    wish = PublishRequest(task.task_id, "blog", "x", key, provider="press")
    return str((await house.raven.effects.publish(wish, by=LOCAL)).as_json()["publish_id"])


async def _delivered(delivery: Any, publish_id: str, times: int = 1) -> None:
    for _ in range(times):
        with suppress(Waiting):
            await delivery.deliver("default", {"kind": "publish", "effect_id": publish_id})


async def _status(house: Governed, publish_id: str) -> str:
    return (await house.raven.effects.get("publish", publish_id, by=LOCAL)).status


@pytest.mark.req("CH-14", "CH-20")
async def test_a_provider_that_says_no_when_asked_settles_what_was_unknown(
    house: Governed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown effect of which its provider says that it failed has failed; what is settled is no person's."""
    press, delivery = ScriptedProvider("press", "publish", is_keyed=True), house.raven.delivery
    delivery.replace_provider(press)
    publish_id = await _published(house, await approved_task(house.raven), "k")
    with pytest.raises(IllegalTransition, match="only what is unknown"):
        await delivery.resolve("publish", publish_id, "did_not_happen", by=LOCAL)
    press.fault = "drop_before"
    await _delivered(delivery, publish_id, 8)
    assert await _status(house, publish_id) == "unknown"
    with pytest.raises(InvalidInput, match="what the provider calls it"):
        await delivery.resolve("publish", publish_id, "happened", by=LOCAL)

    async def refuse(order: EffectOrder) -> None:
        raise ProviderRefused(f"{order.effect_id} failed")

    monkeypatch.setattr(press, "find", refuse)
    await _delivered(delivery, publish_id)
    assert await _status(house, publish_id) == "failed"


@pytest.mark.req("CH-14", "CH-24")
async def test_a_provider_that_is_no_longer_set_up_is_waited_for(house: Governed) -> None:
    """Without its provider an effect fails in the end where nothing was sent, and is unknown where something was."""
    press, task = ScriptedProvider("press", "publish", is_keyed=True), await approved_task(house.raven)
    house.raven.delivery.replace_provider(press)
    new, sent = await _published(house, task, "new"), await _published(house, task, "sent")
    press.fault = "drop_after"
    await _delivered(house.raven.delivery, sent)
    with open_home(house.raven.home) as later:
        await _delivered(later.delivery, new, 8)
        await _delivered(later.delivery, sent, 8)
    assert (await _status(house, new), await _status(house, sent)) == ("failed", "unknown")
    press.fault = "none"
    await _delivered(house.raven.delivery, sent)
    assert (await _status(house, sent), press.happened[sent]) == ("published", 1)


@pytest.mark.req("CH-16", "CH-24")
async def test_an_answer_that_could_not_be_stored_is_asked_for_again(
    house: Governed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store fails after the provider did its part, the effect is settled later and happened once."""
    press, raven = ScriptedProvider("press", "publish", is_keyed=True), house.raven
    raven.delivery.replace_provider(press)
    publish_id = await _published(house, await approved_task(raven), "k")
    write = raven.database.write

    async def fail_once_sent(tenant_id: str, work: Any) -> Any:
        if press.happened[publish_id]:
            raise StorageUnavailable("away")
        return await write(tenant_id, work)

    monkeypatch.setattr(raven.database, "write", fail_once_sent)
    await _delivered(raven.delivery, publish_id)
    assert await _status(house, publish_id) == "sending"
    monkeypatch.undo()
    await _delivered(raven.delivery, publish_id)
    assert (await _status(house, publish_id), press.happened[publish_id]) == ("published", 1)


@pytest.mark.req("CH-14", "CH-16")
async def test_an_outbox_writes_a_key_once_or_says_that_it_cannot(tmp_path: Path) -> None:
    """A file that is there is the answer, to sending and to asking; a folder that cannot be made took nothing."""
    order = EffectOrder("default", "publish", "e", "k" * 64, {"text": "x"}, "c")
    outbox = FileOutbox(tmp_path / "outbox")
    assert await outbox.find(order) is None
    first = await outbox.send(order)
    assert (await outbox.send(order), await outbox.find(order)) == (first, first)
    assert len([path for path in (tmp_path / "outbox").rglob("*") if path.is_file()]) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(ProviderUnreachable, match="cannot be written"):
        await FileOutbox(tmp_path / "file").send(order)


@pytest.mark.req("CH-14")
async def test_budgets_that_shrink_and_wallets_that_are_shut_take_nothing(house: Governed) -> None:
    """Below what is spent a budget pays nothing more; a budget of another currency, a frozen wallet and none at all are
    refused by name."""
    door, raven, task = house.door, house.raven, await approved_task(house.raven)
    wallet, budget = await wallet_of(raven), await add_budget(raven, task, 500)
    dollars = await add_budget(raven, task, 500, currency="USD")
    pay = {
        "task_id": task.task_id, "wallet_id": wallet, "amount": "2.00", "currency": "EUR", "counterparty": "ann",
        "budget_id": budget,
    }  # fmt: skip
    assert (await door.post("/v1/transactions", {**pay, "idempotency_key": "a"})).status == 202
    assert (await door.patch(f"/v1/budgets/{budget}", {"total": "1.00", "state_version": 1})).status == 200
    for wrong, status, code in (
        ({"budget_id": budget}, 409, "CONFLICT"),
        ({"budget_id": dollars}, 400, "VALIDATION_FAILED"),
    ):
        refused = await door.post("/v1/transactions", {**pay, **wrong, "idempotency_key": "b"})
        assert (refused.status, refused.json()["code"]) == (status, code), refused.body
    for body in ({"kind": "purse"}, {"provider_ref": "\n"}, {"provider": "nobody"}):
        opening: dict[str, Any] = {"agent_or_campaign_id": "x", "currency": "EUR", **body}
        assert (await door.post("/v1/wallets", opening)).status == 400, body
    assert (await door.post(f"/v1/wallets/{wallet}/fund", {"amount": "0", "idempotency_key": "f"})).status == 400
    assert (await door.patch(f"/v1/wallets/{wallet}", {"status": "frozen"}, If_Match='"1"')).status == 200
    funding = await door.post(f"/v1/wallets/{wallet}/fund", {"amount": "1.00", "idempotency_key": "g"})
    assert (funding.status, funding.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    assert [each["held"] for each in (await door.get("/v1/wallets")).json()["items"]] == ["2.00"]
    with pytest.raises(PolicyViolation):
        await raven.wallets.set_status(wallet, "open", by=MEMBER)
    assert (await raven.ledger.verify("default")).ok


@pytest.mark.req("CH-14")
async def test_assets_are_listed_by_task_and_belong_to_its_campaign(house: Governed) -> None:
    """An asset names a task of its own campaign, and is found by it."""
    door, mine, other = house.door, await approved_task(house.raven), await approved_task(house.raven)
    body = {"campaign_id": mine.campaign_id, "kind": "image", "storage_uri": "s3://x/p.png", "character_id": "ann"}
    made = (await door.post("/v1/assets", {**body, "task_id": mine.task_id})).json()
    await door.post("/v1/assets", body)
    listed = (await door.get(f"/v1/assets?task_id={mine.task_id}")).json()["items"]
    assert [each["asset_id"] for each in listed] == [made["asset_id"]]
    assert len((await door.get("/v1/assets")).json()["items"]) == 2
    assert (await door.get(f"/v1/assets/{made['asset_id']}")).json() == made
    foreign = await door.post("/v1/assets", {**body, "task_id": other.task_id})
    assert (foreign.status, foreign.json()["details"]["field"]) == (404, "task_id")


@pytest.mark.req("CH-07")
async def test_decisions_that_do_not_fit_are_refused(house: Governed) -> None:
    """A status that contradicts the decision, another task, a task that is over, a replaced decision, no reason, and
    somebody who may not: each is refused, and what stood before stands."""
    judge, raven = house.raven.judge, house.raven
    (task, other) = await house.plan(outside("one"), outside("two"))
    for each in (task, other):
        await raven.attempts.submit(result(each), by=AGENT)
    seen = await house.task(task)
    with pytest.raises(InvalidInput, match="is not rejected"):
        await judge.decide({**decision(seen), "status": "rejected"}, by=LOCAL)
    with pytest.raises(NotFound, match="is not of task"):
        await judge.decide({**decision(seen), "task_id": other.task_id}, by=LOCAL)
    with pytest.raises(NotFound, match="no envelope"):
        await judge.envelope("default", "nothing")
    first = decision(seen, "escalate")
    made = await judge.decide(first, by=LOCAL)
    assert await judge.decide(first, by=LOCAL) == made
    with pytest.raises(InvalidInput, match="why"):
        await judge.resolve(made["decision_id"], "approve", reason=" ", by=LOCAL)
    with pytest.raises(PolicyViolation, match="by a person"):
        await judge.resolve(made["decision_id"], "approve", reason="x", by=AGENT)
    await judge.resolve(made["decision_id"], "approve", reason="looked", by=LOCAL)
    with pytest.raises(StaleState, match="replaced"):
        await judge.resolve(made["decision_id"], "reject", reason="late", by=LOCAL)
    pages = [await judge.list("default", limit=1), await judge.list("default", after=made["decision_id"])]
    assert [[each.decision for each in page] for page in pages] == [["escalate"], ["approve"]]
    waiting = await house.task(other)
    await raven.tasks.cancel(other.task_id, by=LOCAL, state_version=waiting.task.state_version)
    late = decision(await house.task(other))
    with pytest.raises(IllegalTransition, match="in review"):
        await judge.decide(late, by=LOCAL)


@pytest.mark.req("CH-14")
async def test_what_cannot_be_stored_is_refused_in_python_too(house: Governed) -> None:
    """Kinds, references and texts that REST would not let through are refused by their fields by the house itself."""
    raven, task = house.raven, await approved_task(house.raven)
    wish = AssetRequest(task.campaign_id, "song", "s3://x/a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    long = PublishRequest(task.task_id, "blog", "x" * 100_001, "long")
    for asking, field in (
        (raven.assets.add(wish, by=LOCAL), "kind"),
        (raven.wallets.open("spring", "EUR", by=LOCAL, kind=cast("Any", "secret")), "kind"),
        (raven.wallets.open("spring", "EUR", by=LOCAL, provider_ref="\0"), "provider_ref"),
        (raven.effects.publish(PublishRequest(task.task_id, "blog", " ", "blank"), by=LOCAL), "text"),
        (raven.effects.publish(long, by=LOCAL), "text"),
    ):
        with pytest.raises(InvalidInput) as raised:
            await asking
        assert raised.value.details["field"] == field


@pytest.mark.req("CH-24")
async def test_a_delivery_that_ends_early_leaves_what_was_never_sent(house: Governed) -> None:
    """What was set aside before it was sent waits for its run; what was parked meanwhile stays so; a run that is only
    named like a delivery ends like any other."""
    raven, press = house.raven, ScriptedProvider("press", "publish", is_keyed=False)
    raven.delivery.replace_provider(press)
    task = await approved_task(raven)
    waits, lost = await _published(house, task, "waits"), await _published(house, task, "lost")

    async def set_aside(effect_id: str) -> None:
        end = RunEnd("default", f"effect:{effect_id}", "set_aside")
        await raven.database.write("default", lambda tx: raven.delivery.on_end(tx, end))

    await set_aside(waits)
    await set_aside("nothing of ours")
    assert await _status(house, waits) == "scheduled"

    async def silent(order: EffectOrder) -> ProviderAnswer:
        await set_aside(order.effect_id)
        raise ProviderSilent("nothing was heard")

    press.send = silent
    await _delivered(raven.delivery, lost)
    assert await _status(house, lost) == "unknown"
    (noted,) = [each for each in await house.entries("publish.unknown") if each.subject_id == lost]
    assert noted.code == "PROVIDER_SILENT"
