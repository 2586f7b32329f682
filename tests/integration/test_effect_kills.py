"""Workers killed in mid-effect: nothing is lost, nothing happens twice, and the books add up to zero."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from tests.contract.test_effects import settled, wallet_of
from tests.effect_service import EffectService, effect_service
from tests.effect_worker import OF_A_NUMBER, ask_for, effect_workers
from tests.governed import approved_task
from tests.homes import make_home
from tests.postgres import PostgresLogin
from tests.workers import worker_process
from tests.working import until, working
from twinraven.app import TwinRaven, open_home
from twinraven.effects import EffectKind, PaymentRequest
from twinraven.foundation.errors import StorageError
from twinraven.tenancy import LOCAL

T = TypeVar("T")
LOG = logging.getLogger(__name__)
KINDS: tuple[EffectKind, ...] = ("publish", "message", "transaction")


@contextmanager
def killable_home(
    folder: Path,
    service: EffectService,
    *,
    login: PostgresLogin | None = None,
    says: dict[str, bool] | None = None,
    max_deaths: int = 1_000,
) -> Generator[TwinRaven]:
    """A home with an outbox, our own ledger, and a bank that fails by chance."""
    bank = {"name": "bank", "url": service.url, "kinds": ["transaction", "publish"], "timeout_s": 2, **(says or {})}
    sections: dict[str, Any] = {
        "effects": {"providers": [bank], "first_pause_s": 0.05},
        "connectors": {"allow_private": ["127.0.0.1"]},
        "engine": {"poll_s": 0.05, "lease_s": 1.0, "max_deaths": max_deaths, "pools": [{"queue": "runs", "slots": 6}]},
    }
    with open_home(make_home(folder, postgres=login, **sections)) as raven:
        yield raven


async def statuses(raven: TwinRaven) -> Counter[str]:
    lists = [await raven.effects.list(kind, by=LOCAL, limit=100_000) for kind in KINDS]
    return Counter(str(each.as_json()["status"]) for found in lists for each in found)


@dataclass(frozen=True, slots=True)
class Campaign:
    """What came of effects whose workers were killed."""

    asked: int
    """Numbers whose effects were asked for."""
    struck: int
    """Workers that left something being sent."""
    statuses: Counter[str]


async def campaign(raven: TwinRaven, service: EffectService, *, kills: int) -> Campaign:
    """Kill workers that ask for effects and deliver them, and let one finish; says how the effects stand."""
    task = await approved_task(raven)
    wallets = (await wallet_of(raven, "100000.00"), await wallet_of(raven, "100000.00", provider="bank"))
    service.chance, service.longest_s, struck = 0.3, 0.05, 0
    with effect_workers(raven, task.task_id, wallets) as workers:
        for _ in range(kills):
            await workers.kill_one()
            struck += bool([kind for kind in KINDS if await raven.effects.list(kind, by=LOCAL, status="sending")])
    service.chance = service.longest_s = 0.0
    # The last worker may have died between two wishes, or with the first of the next number stored and not yet
    # acknowledged: whoever asks again is given what is there.
    for number in (workers.asked, workers.asked + 1):
        await ask_for(raven, task.task_id, wallets, number)
    async with working(raven):
        return Campaign(workers.asked + 2, struck, await _over(raven))


async def _over(raven: TwinRaven) -> Counter[str]:
    """How effects stand when none is under way any more."""
    async with asyncio.timeout(1_200):
        while await _is_open(raven):  # noqa: ASYNC110 - what it asks sets no event
            await asyncio.sleep(0.2)
    return await statuses(raven)


async def _is_open(raven: TwinRaven) -> bool:
    for kind in KINDS:
        for status in ("scheduled", "approved", "sending"):
            if await raven.effects.list(kind, by=LOCAL, status=status, limit=1):
                return True
    return False


async def check_books(raven: TwinRaven, service: EffectService, asked: int) -> None:
    """Every effect happened once where it was sent, the money says so, and each is linked to its origin."""
    assert (set(service.happened.values()), len(service.happened)) == ({1}, 2 * asked)
    assert len(list((raven.home / "outbox").rglob("*.json"))) == 2 * asked
    report = await raven.ledger.verify("default")
    assert (report.ok, report.sums) == (True, {"EUR": 0})
    wallets = await raven.wallets.list("default")
    assert [(each.free, each.held) for each in wallets] == [(10_000_000 - 100 * asked, 0)] * 2
    checked = await raven.audit.verify("default")
    assert (checked.ok, checked.unlinked) == (True, ())


def ends_of(asked: int) -> Counter[str]:
    return Counter({status: each * asked for status, each in OF_A_NUMBER.items()})


@pytest.mark.req("CH-16", "CH-24")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_killed_workers_cause_every_effect_once(
    tmp_path: Path, store: str, request: pytest.FixtureRequest, full_scale: bool
) -> None:
    """However often workers are killed, every effect happens once, the money says so, and each is linked."""
    login = request.getfixturevalue("postgres_login") if store == "postgres" else None
    kills = 200 if full_scale else 3
    with effect_service() as service, killable_home(tmp_path, service, login=login) as raven:
        done = await campaign(raven, service, kills=kills)
        assert done.statuses == ends_of(done.asked)
        await check_books(raven, service, done.asked)
        LOG.info("%s: %d kills, %d while sending, %d effects", store, kills, done.struck, 5 * done.asked)
        assert not full_scale or done.struck > kills / 2


@pytest.mark.req("CH-16")
async def test_an_effect_whose_workers_die_is_left_to_a_person(tmp_path: Path) -> None:
    """A delivery that is set aside after a worker died with it leaves the effect unknown, and its money held."""
    with effect_service(faults=["never"]) as service, killable_home(tmp_path, service, max_deaths=1) as raven:
        task, wallet = await approved_task(raven), await wallet_of(raven, "5.00", provider="bank")
        wish = PaymentRequest(task.task_id, wallet, "1.00", "EUR", "printer", "k")
        paid = str((await raven.effects.pay(wish, by=LOCAL)).as_json()["transaction_id"])
        with worker_process(raven) as child:
            await until(lambda: bool(service.happened))
            child.kill()
        async with working(raven):
            found = await settled(raven, "transaction", paid)
        assert (found.status, found.as_json()["error"]["code"]) == ("unknown", "PROVIDER_SILENT")
        assert [(each.free, each.held) for each in await raven.wallets.list("default")] == [(400, 100)]
        (item,) = [each for each in await raven.inbox.list(by=LOCAL) if each.kind == "unknown_effect"]
        assert paid in item.item_id
        assert (await raven.effects.reconcile("transaction", paid, by=LOCAL)).status == "executed"
        assert set(service.happened.values()) == {1}


def _cut(login: PostgresLogin) -> int:
    """End every connection to a database but this one, whatever it is in the middle of; says how many there were."""
    with psycopg.connect(login.admin_url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(found.fetchall())


async def _cut_often(login: PostgresLogin, begun: asyncio.Semaphore, times: int) -> int:
    """Cut connections a moment after each of so many beginnings; says how many there were."""
    cut = 0
    for _ in range(times):
        await begun.acquire()
        await asyncio.sleep(random.uniform(0.0, 0.3))
        cut += await asyncio.to_thread(_cut, login)
    return cut


async def _again(work: Callable[[], Awaitable[T]]) -> T:
    """Do something until the store answers, as a caller who was told that it is worth trying again."""
    while True:
        try:
            return await work()
        except StorageError as error:
            assert error.retryable, error


@pytest.mark.req("CH-16", "CH-24")
async def test_cut_connections_cause_every_effect_once(
    tmp_path: Path, postgres_login: PostgresLogin, full_scale: bool
) -> None:
    """However often Postgres ends the connections of callers and workers, every acknowledged wish is one effect."""
    asked = 50 if full_scale else 5
    with effect_service() as service, killable_home(tmp_path, service, login=postgres_login) as raven:
        task = await approved_task(raven)
        wallets = (await wallet_of(raven, "100000.00"), await wallet_of(raven, "100000.00", provider="bank"))
        begun, service.chance = asyncio.Semaphore(0), 0.2
        async with working(raven), asyncio.TaskGroup() as group:
            cutting = group.create_task(_cut_often(postgres_login, begun, asked))
            for number in range(asked):
                begun.release()
                await _again(lambda number=number: ask_for(raven, task.task_id, wallets, number))
            assert await cutting > 0
            service.chance = 0.0
            found = await _again(lambda: _over(raven))
        assert found == ends_of(asked)
        await check_books(raven, service, asked)


async def test_a_bank_that_ignores_keys_doubles(tmp_path: Path, full_scale: bool) -> None:
    """The control: a provider that says it recognises keys and does not, and cannot be asked, pays twice."""
    says = {"recognises_keys": True, "can_be_asked": False}
    with (
        effect_service(recognises_keys=False, faults=["drop_after"] * 3) as service,
        killable_home(tmp_path, service, says=says) as raven,
    ):
        done = await campaign(raven, service, kills=20 if full_scale else 1)
        doubled = sum(each > 1 for each in service.happened.values())
        LOG.info("without keys %d of %d effects happened more than once", doubled, 2 * done.asked)
        assert doubled > 0


async def test_without_keys_and_answers_nothing_is_repeated(tmp_path: Path, full_scale: bool) -> None:
    """A provider that neither knows keys nor can be asked never doubles: what is lost is unknown, and held."""
    says = {"recognises_keys": False, "can_be_asked": False}
    with (
        effect_service(recognises_keys=False, faults=["drop_after", "drop_before"]) as service,
        killable_home(tmp_path, service, says=says) as raven,
    ):
        done = await campaign(raven, service, kills=20 if full_scale else 1)
        found, asked = done.statuses, done.asked
        assert max(service.happened.values(), default=1) == 1
        assert (sum(found.values()), 2 <= found["unknown"] <= 2 * asked) == (5 * asked, True)
        LOG.info("%d of %d effects of a provider that cannot be asked are unknown", found["unknown"], 2 * asked)
        items = await raven.inbox.list(by=LOCAL)
        assert Counter(each.kind for each in items) == {"unknown_effect": found["unknown"]}
        # The outbox and the local ledger can always tell: only what the bank was sent is unknown.
        providers = {each.provider for each in await raven.delivery.unknown("default")}
        assert (providers, (await raven.ledger.verify("default")).ok) == ({"bank"}, True)
