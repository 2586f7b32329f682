"""Workers killed in mid-effect: nothing is lost, nothing happens twice, and the books add up to zero."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_effects import wallet_of
from tests.effect_service import EffectService, effect_service
from tests.governed import ApprovedTask, approved_task
from tests.homes import make_home
from tests.postgres import PostgresLogin
from tests.working import working
from twinraven.app import TwinRaven, open_home
from twinraven.effects import EffectKind, MessageWish, PaymentWish, PublishWish
from twinraven.tenancy import LOCAL

ROOT = Path(__file__).resolve().parents[2]
KINDS: tuple[EffectKind, ...] = ("publish", "message", "transaction")


@contextmanager
def killable_home(
    folder: Path, service: EffectService, *, login: PostgresLogin | None = None, says: dict[str, bool] | None = None
) -> Generator[TwinRaven]:
    """A home with an outbox, our own ledger, and a bank that fails by chance."""
    bank = {"name": "bank", "url": service.url, "kinds": ["transaction", "publish"], "timeout_s": 2, **(says or {})}
    sections: dict[str, Any] = {
        "effects": {"providers": [bank], "first_pause_s": 0.05},
        "connectors": {"allow_private": ["127.0.0.1"]},
        "engine": {"poll_s": 0.05, "lease_s": 1.0, "max_deaths": 1_000, "pools": [{"queue": "runs", "slots": 6}]},
    }
    with open_home(make_home(folder, postgres=login, **sections)) as raven:
        yield raven


@contextmanager
def worker_process(raven: TwinRaven) -> Generator[subprocess.Popen[str]]:
    """A worker that is up; what is left of it is killed at the end."""
    command = [sys.executable, "-m", "tests.run_worker", str(raven.home), str(raven.home.parent)]
    with subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child
        finally:
            child.kill()


async def ask_for(raven: TwinRaven, task: ApprovedTask, wallets: tuple[str, str], number: int) -> None:
    """One post to the outbox, one to the bank, one message, one payment by the bank and one by the ledger."""
    own, bank = wallets
    for channel, provider in (("blog", "outbox"), ("wire", "bank")):
        wish = PublishWish(task.task_id, channel, f"t{number}", f"{channel}-{number}", provider=provider)
        await raven.effects.publish(wish, by=LOCAL)
    await raven.effects.message(MessageWish(task.task_id, "mail", "ann", f"t{number}", f"mail-{number}"), by=LOCAL)
    for wallet_id, name in ((own, "own"), (bank, "bank")):
        payment = PaymentWish(task.task_id, wallet_id, "1.00", "EUR", "printer", f"{name}-{number}")
        await raven.effects.pay(payment, by=LOCAL)


async def statuses(raven: TwinRaven) -> Counter[str]:
    lists = [await raven.effects.list(kind, by=LOCAL, limit=100_000) for kind in KINDS]
    return Counter(str(each.as_json()["status"]) for found in lists for each in found)


async def campaign(raven: TwinRaven, service: EffectService, *, count: int, kills: int) -> Counter[str]:
    """Ask for effects, kill workers in the middle of them, and let one finish; says how the effects stand."""
    task = await approved_task(raven)
    wallets = (await wallet_of(raven, "100000.00"), await wallet_of(raven, "100000.00", provider="bank"))
    for number in range(count):
        await ask_for(raven, task, wallets, number)
    service.chance = 0.3
    for _ in range(kills):
        with worker_process(raven) as child:
            await asyncio.sleep(random.uniform(0.05, 0.6))
            child.kill()
    service.chance = 0.0
    async with working(raven), asyncio.timeout(600):
        while (found := await statuses(raven)) and not found.keys() <= {"published", "sent", "executed", "unknown"}:
            assert "failed" not in found
            await asyncio.sleep(0.2)
    return await statuses(raven)


@pytest.mark.req("CH-16", "CH-24")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_killed_workers_cause_every_effect_once(
    tmp_path: Path, store: str, request: pytest.FixtureRequest, full_scale: bool
) -> None:
    """However often workers are killed, every effect happens once, the money says so, and each is linked."""
    login = request.getfixturevalue("postgres_login") if store == "postgres" else None
    count, kills = (400, 100) if full_scale else (6, 2)
    with effect_service() as service, killable_home(tmp_path, service, login=login) as raven:
        found = await campaign(raven, service, count=count, kills=kills)
        assert found == Counter({"published": 2 * count, "sent": count, "executed": 2 * count})
        assert set(service.happened.values()) == {1}
        assert len(service.happened) == 2 * count
        assert len(list((raven.home / "outbox").rglob("*.json"))) == 2 * count
        report = await raven.ledger.verify("default")
        assert (report.ok, report.sums) == (True, {"EUR": 0})
        wallets = await raven.wallets.list("default")
        assert [(each.free, each.held) for each in wallets] == [(10_000_000 - 100 * count, 0)] * 2
        checked = await raven.audit.verify("default")
        assert (checked.ok, checked.unlinked) == (True, ())


async def test_a_bank_that_ignores_keys_doubles(tmp_path: Path, full_scale: bool) -> None:
    """The control: a provider that says it recognises keys and does not, and cannot be asked, pays twice."""
    says = {"recognises_keys": True, "can_be_asked": False}
    with (
        effect_service(recognises_keys=False, faults=["drop_after"] * 3) as service,
        killable_home(tmp_path, service, says=says) as raven,
    ):
        await campaign(raven, service, count=40 if full_scale else 4, kills=2 if full_scale else 1)
        assert max(service.happened.values()) > 1


async def test_without_keys_and_answers_nothing_is_repeated(tmp_path: Path, full_scale: bool) -> None:
    """A provider that neither knows keys nor can be asked never doubles: what is lost is unknown, and held."""
    count, says = 40 if full_scale else 4, {"recognises_keys": False, "can_be_asked": False}
    with (
        effect_service(recognises_keys=False, faults=["drop_after", "drop_before"]) as service,
        killable_home(tmp_path, service, says=says) as raven,
    ):
        found = await campaign(raven, service, count=count, kills=2 if full_scale else 1)
        assert max(service.happened.values(), default=1) == 1
        assert (sum(found.values()), found["unknown"] >= 2) == (5 * count, True)
        assert len(await raven.inbox.list(by=LOCAL)) == found["unknown"]
        assert (await raven.ledger.verify("default")).ok
