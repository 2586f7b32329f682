"""Effects on both stores: allowed by a decision, stored before they are sent, delivered once, explained afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import api_home
from tests.governed import ApprovedTask, add_budget, approved_task
from tests.homes import opened_home
from tests.postgres import PostgresLogin
from tests.working import FAST, working
from twinraven.app import TwinRaven
from twinraven.audit import AuditFilter, NewAuditEntry
from twinraven.effects import MessageRequest, PaymentRequest, PublishRequest
from twinraven.foundation.actors import SYSTEM
from twinraven.foundation.errors import TwinRavenError
from twinraven.governance import MoneyTransaction, PublishEvent
from twinraven.tenancy import LOCAL, Principal


@asynccontextmanager
async def house(tmp_path: Path, login: PostgresLogin | None = None, **sections: Any) -> AsyncGenerator[TwinRaven]:
    sections.setdefault("effects", {"first_pause_s": 0.01, "disclosure": "Made with AI."})
    with opened_home(tmp_path, postgres=login, engine=FAST, **sections) as raven:
        yield raven


@pytest.fixture(params=["sqlite", "postgres"])
def login(request: pytest.FixtureRequest) -> PostgresLogin | None:
    return request.getfixturevalue("postgres_login") if request.param == "postgres" else None


async def settled(raven: TwinRaven, kind: Any, effect_id: str) -> Any:
    """The effect when its delivery is over."""
    async with asyncio.timeout(300):
        while True:
            found = await raven.effects.get(kind, effect_id, by=LOCAL)
            if found.status not in ("scheduled", "pending", "approved", "sending"):
                return found
            await asyncio.sleep(0.05)


async def wallet_of(raven: TwinRaven, amount: str = "100.00", currency: str = "EUR", **how: Any) -> str:
    opened = await raven.wallets.open("spring", currency, by=LOCAL, **how)
    await raven.wallets.fund(opened.wallet.wallet_id, amount, key="first", by=LOCAL)
    return opened.wallet.wallet_id


def payment(
    task: ApprovedTask, wallet_id: str, amount: str = "12.50", key: str = "inv-1", **more: Any
) -> PaymentRequest:
    return PaymentRequest(task.task_id, wallet_id, amount, more.pop("currency", "EUR"), "printer", key, **more)


@pytest.mark.req("CH-14", "CH-16", "CH-23", "CH-24", "CH-25")
async def test_posts_messages_and_payments_happen_once(tmp_path: Path, login: PostgresLogin | None) -> None:
    """A post with its disclosure, a message and a payment are delivered; the same wish again does nothing."""
    async with house(tmp_path, login) as raven, working(raven):
        task, wallet_id = await approved_task(raven), await wallet_of(raven)
        post = PublishRequest(task.task_id, "blog", "Spring is here", "post-1")
        made = [
            await raven.effects.publish(post, by=LOCAL),
            await raven.effects.message(MessageRequest(task.task_id, "mail", "ann", "Hello", "mail-1"), by=LOCAL),
            await raven.effects.pay(payment(task, wallet_id), by=LOCAL),
        ]
        ids = [made[0].as_json()["publish_id"], made[1].as_json()["message_id"], made[2].as_json()["transaction_id"]]
        done = [
            await settled(raven, kind, each)
            for kind, each in zip(("publish", "message", "transaction"), ids, strict=True)
        ]
        assert [each.status for each in done] == ["published", "sent", "executed"]
        assert isinstance(done[0], PublishEvent)
        assert (done[0].disclosure_applied, done[0].outgoing.request["text"]) == (
            True,
            "Spring is here\n\nMade with AI.",
        )
        assert done[0].outgoing.lineage.as_json() == {
            "tenant_id": "default", "campaign_id": task.campaign_id, "goal_id": task.goal_id, "task_id": task.task_id,
        }  # fmt: skip
        again = [
            await raven.effects.publish(post, by=LOCAL),
            await raven.effects.pay(payment(task, wallet_id), by=LOCAL),
        ]
        assert [each.as_json().get("publish_id") or each.as_json()["transaction_id"] for each in again] == [
            ids[0],
            ids[2],
        ]
        files = list((raven.home / "outbox").rglob("*.json"))
        assert len(files) == 2
        sent = {json.loads(each.read_bytes())["correlation_id"] for each in files}
        assert sent == {each.as_json()["correlation_id"] for each in done[:2]}
        for each, moment in zip(done, ("published_at", "sent_at", "executed_at"), strict=True):
            assert each.as_json()[moment] == each.as_json()["updated_at"]
        assert (await raven.wallets.get("default", wallet_id)).as_json()["balance"] == "87.50"
        assert (await raven.ledger.verify("default")).ok
        report = await raven.audit.verify("default")
        assert (report.ok, report.unlinked) == (True, ())
        lineage = done[0].outgoing.lineage.as_json()
        for effect_id, shown in zip(ids, (each.as_json() for each in done), strict=True):
            assert {name: shown[name] for name in lineage} == lineage
            entries = await raven.audit.entries("default", AuditFilter(subject_id=effect_id))
            assert len(entries) > 1
            assert {each.correlation_id for each in entries} == {shown["correlation_id"]}
            for each in entries:
                told = {**each.data, "tenant_id": each.tenant_id}
                assert {name: told[name] for name in (*lineage, "decision_id")} == {
                    **lineage,
                    "decision_id": task.decision_id,
                }
        assert len({each.as_json()["correlation_id"] for each in done}) == 3


@pytest.mark.req("CH-15", "CH-22")
@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"verdict": "reject", "status": "rejected"}, "no approval of its last result"),
        ({"verdict": "escalate", "status": "escalated"}, "no approval of its last result"),
        ({"status": "pending"}, "no approval of its last result"),
    ],
)
async def test_nothing_leaves_without_a_decision_in_force(tmp_path: Path, state: Any, why: str) -> None:
    """Without an approval in force a post, a message and a payment are refused, audited, and leave nothing behind."""
    async with house(tmp_path) as raven:
        task = await approved_task(raven, **state)
        wallet_id = await wallet_of(raven)
        for attempt in (
            raven.effects.publish(PublishRequest(task.task_id, "blog", "x", "k1"), by=LOCAL),
            raven.effects.message(MessageRequest(task.task_id, "mail", "ann", "x", "k2"), by=LOCAL),
            raven.effects.pay(payment(task, wallet_id), by=LOCAL),
        ):
            with pytest.raises(TwinRavenError, match=why) as raised:
                await attempt
            assert (raised.value.code, raised.value.retryable) == ("POLICY_VIOLATION", False)
        refused = await raven.audit.entries("default", AuditFilter(subject_id=task.task_id))
        assert [entry.event_type for entry in refused] == ["publish.refused", "message.refused", "transaction.refused"]
        assert {entry.code for entry in refused} == {"POLICY_VIOLATION"}
        assert [await raven.effects.list(kind, by=LOCAL) for kind in ("publish", "message", "transaction")] == [[]] * 3
        assert (await raven.wallets.get("default", wallet_id)).held == 0


@pytest.mark.req("CH-15", "CH-14")
async def test_a_decision_that_falls_before_sending_stops_the_effect(tmp_path: Path) -> None:
    """An effect whose approval is gone when its time comes fails, and its money is given back."""
    async with house(tmp_path) as raven:
        task, wallet_id = await approved_task(raven), await wallet_of(raven)
        made = await raven.effects.pay(payment(task, wallet_id), by=LOCAL)
        assert isinstance(made, MoneyTransaction)
        assert (await raven.wallets.get("default", wallet_id)).held == 1250
        await raven.database.write(
            "default",
            lambda tx: tx.execute(
                "UPDATE campaigns SET status = 'paused', state_version = state_version + 1 WHERE tenant_id = 'default'"
            ),
        )
        async with working(raven):
            done = await settled(raven, "transaction", made.transaction_id)
        assert (done.status, done.error["code"]) == ("failed", "POLICY_VIOLATION")
        assert (await raven.wallets.get("default", wallet_id)).as_json()["balance"] == "100.00"


@pytest.mark.req("CH-05")
async def test_limits_of_the_task_hold(tmp_path: Path) -> None:
    """Channels, the time window and the largest sum of a task bind what leaves the house for it."""
    async with house(tmp_path) as raven:
        later = {"start": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
        task = await approved_task(raven, channels=["blog"], max_budget="20.00", currency="EUR")
        early = await approved_task(raven, time_window=later)
        wallet_id, yen = await wallet_of(raven), await wallet_of(raven, "5000", "JPY")
        await raven.effects.pay(payment(task, wallet_id, "12.50"), by=LOCAL)
        for wanted, why in (
            (raven.effects.publish(PublishRequest(task.task_id, "radio", "x", "k"), by=LOCAL), "do not name 'radio'"),
            (raven.effects.publish(PublishRequest(early.task_id, "blog", "x", "k"), by=LOCAL), "time_window"),
            (raven.effects.pay(payment(task, wallet_id, "12.50", "inv-2"), by=LOCAL), "max_budget does not reach"),
            (raven.effects.pay(payment(task, yen, "100", "inv-3", currency="JPY"), by=LOCAL), "budget is in EUR"),
        ):
            with pytest.raises(TwinRavenError, match=why):
                await wanted
        assert (await raven.wallets.get("default", wallet_id)).held == 1250


@pytest.mark.req("CH-14")
async def test_budgets_and_wallets_are_never_overdrawn(tmp_path: Path, login: PostgresLogin | None) -> None:
    """A payment beyond the budget or the wallet is refused whole; a failed one gives both back."""
    async with house(tmp_path, login) as raven:
        task, wallet_id = await approved_task(raven), await wallet_of(raven)
        budget = await add_budget(raven, task, 2_000)
        await raven.effects.pay(payment(task, wallet_id, "15.00", budget_id=budget), by=LOCAL)
        for wish in (
            payment(task, wallet_id, "5.01", "inv-2", budget_id=budget),
            payment(task, wallet_id, "85.01", "inv-3"),
        ):
            with pytest.raises(TwinRavenError) as raised:
                await raven.effects.pay(wish, by=LOCAL)
            assert raised.value.code == "LEDGER_OVERDRAWN"
            assert raised.value.message.startswith("the budget has 5.00 EUR left, and the payment is of ")
        (held,) = await raven.effects.list("transaction", by=LOCAL)
        assert isinstance(held, MoneyTransaction)
        assert (await raven.effects.cancel("transaction", held.transaction_id, by=LOCAL)).status == "cancelled"
        assert (await raven.wallets.get("default", wallet_id)).as_json()["balance"] == "100.00"
        assert (await raven.ledger.account("default", f"budget:{budget}")).balance == 2_000
        assert (await raven.ledger.verify("default")).ok


@pytest.mark.req("CH-16")
async def test_a_key_means_one_effect(tmp_path: Path) -> None:
    """The same key with other words is refused, for the same kind and for another, and nothing is stored."""
    async with house(tmp_path) as raven:
        task, wallet_id = await approved_task(raven), await wallet_of(raven)
        await raven.effects.publish(PublishRequest(task.task_id, "blog", "x", "k"), by=LOCAL)
        for attempt in (
            raven.effects.publish(PublishRequest(task.task_id, "blog", "y", "k"), by=LOCAL),
            raven.effects.message(MessageRequest(task.task_id, "blog", "ann", "x", "k"), by=LOCAL),
            raven.effects.pay(payment(task, wallet_id, key="k"), by=LOCAL),
            raven.effects.publish(PublishRequest((await approved_task(raven)).task_id, "blog", "x", "k"), by=LOCAL),
        ):
            with pytest.raises(TwinRavenError) as raised:
                await attempt
            assert raised.value.code == "IDEMPOTENCY_CONFLICT"
        assert len(await raven.effects.list("publish", by=LOCAL)) == 1


@pytest.mark.req("CH-14", "CH-20", "CH-25")
async def test_a_payment_is_taken_back_once(tmp_path: Path) -> None:
    """A reversal is a transaction of its own: the money returns, nothing is edited, and it happens once."""
    async with house(tmp_path) as raven, working(raven):
        task, wallet_id = await approved_task(raven), await wallet_of(raven)
        made = await raven.effects.pay(payment(task, wallet_id), by=LOCAL)
        assert isinstance(made, MoneyTransaction)
        await settled(raven, "transaction", made.transaction_id)
        first = await raven.effects.reverse(made.transaction_id, by=LOCAL, note="paid twice")
        again = await raven.effects.reverse(made.transaction_id, by=LOCAL, note="paid twice")
        assert isinstance(first, MoneyTransaction)
        assert (first.direction, first.reverses, first) == ("credit", made.transaction_id, again)
        assert (await raven.wallets.get("default", wallet_id)).as_json()["balance"] == "100.00"
        assert (await raven.ledger.verify("default")).ok
        names = ("campaign_id", "goal_id", "task_id", "decision_id")
        assert [getattr(first, name) for name in names] == [getattr(made, name) for name in names]
        for who in (Principal("default", "bob", "member"), Principal("default", "bot", "admin", kind="agent")):
            with pytest.raises(TwinRavenError, match="only a person who is an approver"):
                await raven.effects.reverse(made.transaction_id, by=who, note="x")
        refused = await raven.effects.pay(payment(task, wallet_id, key="gone"), by=LOCAL)
        assert isinstance(refused, MoneyTransaction)
        await raven.effects.cancel("transaction", refused.transaction_id, by=LOCAL)
        with pytest.raises(TwinRavenError, match="only an executed payment"):
            await raven.effects.reverse(refused.transaction_id, by=LOCAL, note="x")
        with pytest.raises(TwinRavenError, match="only an executed payment"):
            await raven.effects.reverse(first.transaction_id, by=LOCAL, note="x")
        with pytest.raises(TwinRavenError, match="must say why"):
            await raven.effects.reverse(made.transaction_id, by=LOCAL, note=" ")


@pytest.mark.req("CH-26")
async def test_an_effect_without_a_link_is_named(tmp_path: Path) -> None:
    """`audit verify` names an effect that was stored behind the house's back, and passes without it."""
    async with house(tmp_path) as raven:
        task = await approved_task(raven)
        await raven.effects.publish(PublishRequest(task.task_id, "blog", "x", "k"), by=LOCAL)
        assert (await raven.audit.verify("default")).ok
        columns = (
            "campaign_id, goal_id, task_id, decision_id, channel, provider, status, request_json, request_hash, "
            "correlation_id, attempts, created_by, created_at, updated_at, disclosure_applied"
        )
        await raven.database.write(
            "default",
            lambda tx: tx.execute(
                f"INSERT INTO publish_events (tenant_id, publish_id, idempotency_key, {columns}) "
                f"SELECT tenant_id, 'forged', 'other', {columns} FROM publish_events WHERE tenant_id = 'default'"
            ),
        )
        report = await raven.audit.verify("default")
        assert (report.ok, [each.subject_id for each in report.unlinked]) == (False, ["forged"])
        assert json.loads(json.dumps(report.as_json()))["unlinked_effects"][0]["subject_type"] == "publish_event"
        # An entry that names another decision than the effect's own links nothing.
        told = {"decision_id": "another", "task_id": task.task_id}
        entry = NewAuditEntry("default", "publish.approved", "publish_event", "forged", SYSTEM, data=told)
        await raven.audit.write(entry)
        await raven.effects.message(MessageRequest(task.task_id, "mail", "ann", "x", "m"), by=LOCAL)
        await raven.database.write(
            "default",
            lambda tx: tx.execute(
                "INSERT INTO outgoing_messages (tenant_id, message_id, idempotency_key, recipient, "
                f"{columns.removesuffix(', disclosure_applied')}) SELECT tenant_id, 'slipped', 'm2', recipient, "
                f"{columns.removesuffix(', disclosure_applied')} FROM outgoing_messages WHERE tenant_id = 'default'"
            ),
        )
        report = await raven.audit.verify("default")
        assert [(each.subject_type, each.subject_id) for each in report.unlinked] == [
            ("publish_event", "forged"),
            ("message", "slipped"),
        ]


@pytest.mark.req("CH-26")
async def test_effects_of_every_kind_and_tenant_are_looked_at(tmp_path: Path) -> None:
    """A payment of another tenant than the first is named, too; an entry in the log of another tenant or about another
    task links nothing."""
    async with house(tmp_path) as raven:
        tenant_id = (await raven.tenancy.create_tenant("acme")).tenant_id
        ann = Principal(tenant_id, "ann", "admin")
        task = await approved_task(raven, tenant_id=tenant_id)
        opened = await raven.wallets.open("spring", "EUR", by=ann)
        await raven.wallets.fund(opened.wallet.wallet_id, "100.00", key="first", by=ann)
        await raven.effects.pay(payment(task, opened.wallet.wallet_id), by=ann)
        assert (await raven.audit.verify(tenant_id)).ok
        columns = (
            "wallet_id, campaign_id, goal_id, task_id, decision_id, direction, amount, currency, counterparty, "
            "description, status, request_json, request_hash, correlation_id, attempts, requested_by, requested_at, "
            "updated_at"
        )
        await raven.database.write(
            tenant_id,
            lambda tx: tx.execute(
                f"INSERT INTO transactions (tenant_id, transaction_id, idempotency_key, {columns}) "
                f"SELECT tenant_id, '00forged', 'other', {columns} FROM transactions WHERE tenant_id = :tenant",
                tenant=tenant_id,
            ),
        )
        for where, about in (("default", task.task_id), (tenant_id, "another")):
            told = {"decision_id": task.decision_id, "task_id": about}
            entry = NewAuditEntry(where, "transaction.approved", "transaction", "00forged", SYSTEM, data=told)
            await raven.audit.write(entry)
        report = await raven.audit.verify(tenant_id)
        assert [(each.subject_type, each.subject_id) for each in report.unlinked] == [("transaction", "00forged")]
        shown = report.as_json()
        assert (shown["ok"], len(shown["unlinked_effects"])) == (False, 1)
        assert (await raven.audit.verify("default")).ok


@pytest.mark.req("CH-14", "CH-20")
async def test_scheduled_effects_wait_and_can_be_cancelled(tmp_path: Path) -> None:
    """What is due tomorrow is not sent today, and what was not sent can be cancelled."""
    async with house(tmp_path) as raven, working(raven):
        task = await approved_task(raven)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        made = await raven.effects.publish(
            PublishRequest(task.task_id, "blog", "x", "k", scheduled_at=tomorrow), by=LOCAL
        )
        assert isinstance(made, PublishEvent)
        soon = await raven.effects.publish(PublishRequest(task.task_id, "blog", "y", "l"), by=LOCAL)
        assert isinstance(soon, PublishEvent)
        await settled(raven, "publish", soon.publish_id)
        assert (await raven.effects.cancel("publish", made.publish_id, by=LOCAL)).status == "cancelled"
        for act in (raven.effects.cancel, raven.effects.reconcile):
            with pytest.raises(TwinRavenError) as raised:
                await act("publish", soon.publish_id, by=LOCAL)
            assert raised.value.code == "ILLEGAL_TRANSITION"
        assert len(list((raven.home / "outbox").rglob("*.json"))) == 1


@pytest.mark.req("CH-15", "CH-22")
async def test_a_tool_that_policy_marks_needs_a_judges_approval(tmp_path: Path) -> None:
    """A marked tool runs for a task whose result was approved; without one it is refused and audited."""
    rules = [{"tool": "refund", "then": "judge", "reason": "refunds are judged"}]
    async with api_home(tmp_path, policy={"rules": rules}) as home:
        good = await approved_task(home.raven)
        bad = await approved_task(home.raven, verdict="reject", status="rejected")
        call = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "s"}
        for number, named in enumerate(({}, {"task_id": bad.task_id}, {"task_id": "nobody"})):
            refused = await home.door.post("/v1/calls", {**call, **named}, Idempotency_Key=f"k{number}")
            assert (refused.status, refused.json()["code"]) == (403, "POLICY_VIOLATION")
            assert refused.json()["retryable"] is False
        ran = (await home.door.post("/v1/calls", {**call, "task_id": good.task_id}, Idempotency_Key="fine")).json()
        assert (ran["status"], ran["payload"]) == ("success", {"order": 7})
        noted = await home.raven.audit.entries("default", AuditFilter(event_type="policy.refused"))
        assert [entry.code for entry in noted] == ["POLICY_VIOLATION"] * 3
        # Another write, which no rule marks, passes and is audited.
        paid = await home.door.post(
            "/v1/calls", {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}, Idempotency_Key="p"
        )
        assert paid.json()["status"] == "success"
        assert await home.raven.audit.entries("default", AuditFilter(event_type="call.succeeded"))


@pytest.mark.req("CH-14")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"amount": 12.5}, "amount"),
        ({"amount": "12.505"}, "amount"),
        ({"amount": "-1.00"}, "amount"),
        ({"amount": "1e3"}, "amount"),
        ({"amount": "0.00"}, "amount"),
        ({"amount": "9" * 30}, "amount"),
        ({"currency": "euro"}, "currency"),
        ({"wallet_id": ""}, "wallet_id"),
        ({"counterparty": "x\0"}, "counterparty"),
        ({"description": "x" * 50_000_000}, ""),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"task_id": None}, "task_id"),
        ({"budget_id": "nobody"}, ""),
        ({"wallet_id": "nobody"}, ""),
        ({"currency": "JPY", "amount": "12"}, ""),
    ],
)
async def test_bad_payments_are_refused_and_leave_nothing(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    """Floats, digits, signs, mixed currencies, foreign ids, huge texts: a 4xx that names the field, nothing stored."""
    async with api_home(tmp_path) as home:
        task, wallet_id = await approved_task(home.raven), await wallet_of(home.raven)
        body = {
            "task_id": task.task_id,
            "wallet_id": wallet_id,
            "amount": "12.50",
            "currency": "EUR",
            "counterparty": "printer",
            "idempotency_key": "k",
        }
        refused = await home.door.post("/v1/transactions", {**body, **change})
        assert 400 <= refused.status < 500, refused.body
        assert field in str(refused.json()["details"].get("field", "")), refused.body
        assert await home.raven.effects.list("transaction", by=LOCAL) == []
        assert (await home.raven.wallets.get("default", wallet_id)).held == 0
        right = await home.door.post("/v1/transactions", body)
        assert (right.status, right.json()["status"]) == (202, "approved")


@pytest.mark.req("CH-14", "CH-17")
async def test_effects_wallets_and_assets_over_http(tmp_path: Path) -> None:
    """Administrators open and fund wallets, members publish and see their own, and the books add up."""
    async with api_home(tmp_path, needs_key=True, engine=FAST) as home:
        admin = await home.tenant("ada")
        bob, eve = [await home.user(admin.tenant_id, name) for name in ("bob", "eve")]
        task = await approved_task(home.raven, tenant_id=admin.tenant_id)
        opened = await admin.door.post("/v1/wallets", {"agent_or_campaign_id": "spring", "currency": "EUR"})
        wallet = opened.headers["location"]
        assert (await bob.door.post("/v1/wallets", {"agent_or_campaign_id": "x", "currency": "EUR"})).status == 403
        for _ in range(2):
            funded = await admin.door.post(f"{wallet}/fund", {"amount": "50.00", "idempotency_key": "f"})
            assert (funded.status, funded.json()["balance"]) == (200, "50.00")
        (moved,) = (await bob.door.get(f"{wallet}/statement")).json()["items"]
        assert (moved["amount"], moved["currency"], moved["reverses"]) == (5_000, "EUR", None)
        asset = await bob.door.post(
            "/v1/assets", {"campaign_id": task.campaign_id, "kind": "image", "storage_uri": "s3://x/p.png"}
        )
        asset_id = asset.json()["asset_id"]
        post = {"task_id": task.task_id, "channel": "blog", "text": "x", "idempotency_key": "p", "disclosure": "by AI"}
        made = await bob.door.post("/v1/publications", {**post, "media_asset_id": asset_id})
        assert (made.status, made.json()["disclosure_applied"]) == (202, True)
        path = f"/v1/publications/{made.json()['publish_id']}"
        unseen = await eve.door.get(path)
        never = await eve.door.get(f"/v1/publications/{'0' * 32}")
        assert (unseen.status, never.status) == (404, 404)
        assert unseen.body.replace(made.json()["publish_id"].encode(), b"0" * 32) == never.body
        assert (await eve.door.get("/v1/publications")).json()["items"] == []
        assert (await admin.door.get(path)).json()["media_asset_id"] == asset_id
        assert len((await bob.door.get("/v1/publications?status=scheduled")).json()["items"]) == 1
        assert (await bob.door.post(f"{path}/cancel", {})).json()["status"] == "cancelled"
        assert (await bob.door.get("/v1/ledger")).status == 403
        assert (await admin.door.get("/v1/ledger")).json()["ok"] is True
        shown = await admin.door.get(wallet)
        stale = await admin.door.patch(wallet, {"status": "frozen"}, If_Match='"9"')
        assert stale.status == 412
        assert (await admin.door.patch(wallet, {"status": "closed"}, If_Match=shown.tag)).status == 409
        assert (await admin.door.patch(wallet, {"status": "frozen"}, If_Match=shown.tag)).json()["status"] == "frozen"
        for body, field in (
            ({"kind": "song"}, "kind"),
            ({"storage_uri": "no uri"}, "storage_uri"),
            ({"metadata": {"x": "y" * 70_000}}, "metadata"),
            ({"content_hash": "short"}, "content_hash"),
            ({"width": -1}, "width"),
        ):
            wrong = {"campaign_id": task.campaign_id, "kind": "image", "storage_uri": "s3://x", **body}
            answer = await bob.door.post("/v1/assets", wrong)
            assert (answer.status, field in answer.json()["details"]["field"]) == (400, True), answer.body
