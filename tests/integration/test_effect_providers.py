"""Providers that fail in every way: what happened is settled, what did not is sent, and what nobody knows is parked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_effects import settled, wallet_of
from tests.effect_service import EffectService, effect_service
from tests.governed import ApprovedTask, approved_task
from tests.homes import all_text, opened_home
from tests.working import FAST, working
from twinraven.app import TwinRaven
from twinraven.audit import AuditFilter
from twinraven.effects import PaymentRequest, PublishRequest
from twinraven.foundation.errors import TwinRavenError
from twinraven.governance import MoneyTransaction
from twinraven.inbox import InboxAnswer
from twinraven.tenancy import LOCAL


@asynccontextmanager
async def served(
    tmp_path: Path, service: EffectService, *, keys: bool = True, asks: bool = True, patience_s: float = 30, **more: Any
) -> AsyncGenerator[TwinRaven]:
    """A home whose payments and posts go to the service; one that never answers is waited for so long."""
    bank = {
        "name": "bank",
        "url": service.url,
        "kinds": ["transaction", "publish"],
        "timeout_s": patience_s,
        "recognises_keys": keys,
        "can_be_asked": asks,
        **more,
    }
    sections: dict[str, Any] = {
        "effects": {"providers": [bank], "first_pause_s": 0.01},
        "connectors": {"allow_private": ["127.0.0.1"]},
    }
    with opened_home(tmp_path, engine=FAST, **sections) as raven:
        yield raven


async def pay_once(raven: TwinRaven, task: ApprovedTask | None = None) -> tuple[MoneyTransaction, str]:
    task = task or await approved_task(raven)
    wallet_id = await wallet_of(raven, provider="bank")
    wish = PaymentRequest(task.task_id, wallet_id, "12.50", "EUR", "printer", "inv-1")
    made = await raven.effects.pay(wish, by=LOCAL)
    async with working(raven):
        done = await settled(raven, "transaction", made.as_json()["transaction_id"])
    assert isinstance(done, MoneyTransaction)
    return done, wallet_id


async def test_a_provider_is_told_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token from the environment goes with what is sent and with what is asked, and into no table and no answer."""
    monkeypatch.setenv("BANK_TOKEN", "tok-9f3c1b")
    with effect_service(faults=["drop_after"]) as service:
        async with served(tmp_path, service, token_variable="BANK_TOKEN") as raven:
            done, _ = await pay_once(raven)
            assert (done.status, service.asked, service.tokens) == ("executed", 1, {"Bearer tok-9f3c1b"})
            assert "tok-9f3c1b" not in all_text(raven)


@pytest.mark.req("CH-16")
@pytest.mark.parametrize(
    "faults",
    [
        ["busy"],
        ["error_before"],
        ["error_after"],
        ["drop_before"],
        ["drop_after"],
        ["half_answer"],
        ["no_json"],
        ["never"],
        ["conflict"],
        ["pending"],
        ["redirect"],
        ["drop_before", "error_after", "busy", "half_answer"],
    ],
    ids="+".join,
)
async def test_every_fault_ends_in_one_payment(tmp_path: Path, faults: list[str]) -> None:
    """With keys and somebody to ask, every fault ends in exactly one payment, and the money says so."""
    with effect_service(faults=faults) as service:
        async with served(tmp_path, service, patience_s=1 if "never" in faults else 30) as raven:
            done, wallet_id = await pay_once(raven)
            assert done.status == "executed"
            assert list(service.happened.values()) == [1]
            assert (await raven.wallets.get("default", wallet_id)).as_json()["balance"] == "87.50"
            assert (await raven.wallets.get("default", wallet_id)).held == 0
            assert (await raven.ledger.verify("default")).ok


@pytest.mark.req("CH-14", "CH-22")
async def test_a_refusal_is_final_and_gives_the_money_back(tmp_path: Path) -> None:
    """What the provider refuses failed: audited with its code and its lineage, and nothing is held any more."""
    with effect_service(faults=["refused"]) as service:
        async with served(tmp_path, service) as raven:
            task = await approved_task(raven)
            done, wallet_id = await pay_once(raven, task)
            assert (done.status, dict(service.happened)) == ("failed", {})
            assert done.error is not None
            assert done.error["code"] == "PROVIDER_REFUSED"
            assert (await raven.wallets.get("default", wallet_id)).as_json()["balance"] == "100.00"
            entries = await raven.audit.entries("default", AuditFilter(subject_id=done.transaction_id))
            last = entries[-1]
            assert (last.event_type, last.code) == ("transaction.failed", "PROVIDER_REFUSED")
            told = {name: last.data[name] for name in ("campaign_id", "goal_id", "task_id", "decision_id")}
            assert told == {
                "campaign_id": task.campaign_id,
                "goal_id": task.goal_id,
                "task_id": task.task_id,
                "decision_id": task.decision_id,
            }


@pytest.mark.req("CH-22")
@pytest.mark.parametrize("word", ["happened", "did_not_happen"])
async def test_what_nobody_knows_is_parked_and_decided_in_the_inbox(tmp_path: Path, word: str) -> None:
    """Without keys and without anybody to ask, a lost answer is unknown; a person's word ends it, once."""
    with effect_service(recognises_keys=False, faults=["drop_after"]) as service:
        async with served(tmp_path, service, keys=False, asks=False) as raven:
            done, wallet_id = await pay_once(raven)
            assert (done.status, service.asked) == ("unknown", 0)
            lost = (await raven.audit.entries("default", AuditFilter(subject_id=done.transaction_id)))[-1]
            assert (lost.event_type, lost.code) == ("transaction.unknown", "PROVIDER_SILENT")
            assert lost.message
            assert (await raven.wallets.get("default", wallet_id)).held == 1250
            (item,) = await raven.inbox.list(by=LOCAL)
            assert (item.kind, item.cost is not None and item.cost.amount_minor) == ("unknown_effect", 1250)
            held = {"amount": "12.50", "currency": "EUR", "wallet_id": wallet_id, "budget_id": None}
            assert item.as_json()["holds"] == held
            answer = "bank-7" if word == "happened" else None
            said = InboxAnswer(word, item.bound_to, answer=answer)
            after = await raven.inbox.decide(item.item_id, said, by=LOCAL)
            assert (after.state, after.decision, after.decided_by) == ("decided", word, LOCAL.user_id)
            assert after.as_json()["holds"] is None
            with pytest.raises(TwinRavenError) as raised:
                await raven.inbox.decide(item.item_id, said, by=LOCAL)
            assert raised.value.code == "ILLEGAL_TRANSITION"
            balance = (await raven.wallets.get("default", wallet_id)).as_json()["balance"]
            assert balance == ("87.50" if word == "happened" else "100.00")
            assert (await raven.ledger.verify("default")).ok
            assert list(service.happened.values()) == [1]


@pytest.mark.req("CH-22")
async def test_a_provider_that_is_away_fails_in_the_end(tmp_path: Path) -> None:
    """What could never be sent failed after its attempts, and can be published again under another key."""
    with effect_service() as service:
        async with served(tmp_path, service) as raven:
            service.faults.extend(["busy"] * 8)
            task = await approved_task(raven)
            made = await raven.effects.publish(
                PublishRequest(task.task_id, "blog", "x", "k", provider="bank"), by=LOCAL
            )
            async with working(raven):
                done = await settled(raven, "publish", made.as_json()["publish_id"])
            assert done.status == "failed"
            assert done.outgoing.attempts == 8
            assert dict(service.happened) == {}
            told = await raven.audit.entries("default", AuditFilter(subject_id=done.publish_id))
            failed = [entry for entry in told if entry.code is not None]
            assert [entry.code for entry in failed] == ["PROVIDER_UNREACHABLE"] * 8
            assert all(entry.message and entry.data["task_id"] == task.task_id for entry in failed)


async def test_wrong_providers_are_refused_when_the_home_is_used(tmp_path: Path) -> None:
    """A provider that settings describe wrongly is named by its place and its field."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"url": "http://x", "kinds": ["publish"]}, "name"),
        ({"name": "a", "url": "nonsense", "kinds": ["publish"]}, "url"),
        ({"name": "a", "url": "http://x", "kinds": ["dance"]}, "kinds"),
        ({"name": "a", "url": "http://x", "kinds": ["publish"], "recognises_keys": "yes"}, "recognises_keys"),
        ({"name": "a", "url": "http://x", "kinds": ["publish"], "timeout_s": 0}, "timeout_s"),
        ({"name": "a", "url": "http://x", "kinds": ["publish"], "token_variable": "NOT_SET"}, "token_variable"),
        ({"name": "a", "url": "http://x", "kinds": ["publish"], "colour": "red"}, "colour"),
        ({"name": "outbox", "folder": "x", "kinds": ["publish"]}, "taken"),
        ({"name": "ledger", "folder": "x", "kinds": ["publish"]}, "taken"),
    ]
    for number, (body, word) in enumerate(wrong):
        with opened_home(tmp_path / str(number), effects={"providers": [body]}) as raven:
            with pytest.raises(TwinRavenError, match=word) as raised:
                _ = raven.delivery
            assert raised.value.code == "CONFIG_INVALID"
    with opened_home(
        tmp_path / "fine", effects={"providers": [{"name": "p", "folder": "x", "kinds": ["publish"]}]}
    ) as raven:
        assert raven.delivery.provider_for("publish", None) == "p"
        with pytest.raises(TwinRavenError, match="provider must be one of"):
            raven.delivery.provider_for("publish", "nobody")
