"""Decisions about runs and what must not be lost between them: approvals, retries, time, clocks and pools."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.postgres import PostgresLogin
from tests.working import FAST, Shop, reach, shop_home, start, step, until, working
from twinraven.app import TwinRaven, open_home
from twinraven.engine import EmbeddedDispatcher, Lease, invoker
from twinraven.engine.waits import RequestedWait
from twinraven.foundation.clock import now_micros
from twinraven.storage import Transaction
from twinraven.tenancy import LOCAL

HOUR = 3_600_000_000


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path, shop: Shop) -> Generator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param == "postgres":
        login = request.getfixturevalue("postgres_login")
    rules = [{"tool": "broken", "then": "ask", "reason": "somebody must look"}]
    policy = {"rules": rules, "approval_ttl_s": 3 if "expires" in request.node.name else 3_600}
    with shop_home(tmp_path, shop, postgres=login, policy=policy) as raven:
        yield raven


async def test_a_decision_between_the_call_and_the_wait_is_not_lost(
    raven: TwinRaven, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An approval that is granted after the call was refused and before the run rests lets the run go on."""
    ask = invoker.DurableInvoker._ask  # pyright: ignore[reportPrivateUsage] - the moment in between

    async def decide_first(self: invoker.DurableInvoker, place: str, asked: RequestedWait) -> None:
        if asked.kind == "approval" and asked.subject is not None:
            pending = await raven.approvals.list("default", state="pending")
            for each in pending:
                await raven.approvals.grant("default", each.approval_id, by=LOCAL)
        await ask(self, place, asked)

    monkeypatch.setattr(invoker.DurableInvoker, "_ask", decide_first)
    run = await start(raven, [step("broken", item="tea")])
    async with working(raven):
        await reach(raven, run.run_id, "succeeded")
    assert shop.calls == ["broken tea"]


async def test_an_answer_between_step_and_rest_is_not_lost(
    raven: TwinRaven, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers after a run has asked and before its worker has let go of it wakes it all the same."""
    rest = EmbeddedDispatcher.rest

    def answered_first(self: EmbeddedDispatcher, tx: Transaction, lease: Lease, until: int | None) -> None:
        self.wake(tx, lease.tenant_id, lease.run_id)
        rest(self, tx, lease, until)

    run = await start(raven, [step("event:paid"), step("look", item="tea")])
    monkeypatch.setattr(EmbeddedDispatcher, "rest", answered_first)
    async with working(raven):
        async with asyncio.timeout(20):
            while (found := await raven.runs.get("default", run.run_id)).run.epoch < 3:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)
        assert found.run.state in ("queued", "running")
        monkeypatch.undo()
        await reach(raven, run.run_id, "waiting")
        await raven.runs.signal("paid", None, by=LOCAL)
        await reach(raven, run.run_id, "succeeded")
    assert shop.calls == ["look tea"]


@pytest.mark.parametrize("types", [["rest_api"], ["python"]], ids=["elsewhere", "here"])
async def test_an_approval_that_expires_ends_its_step(raven: TwinRaven, shop: Shop, types: list[str]) -> None:
    """A run does not wait for ever for an approval, also where the step is made by another worker."""
    run = await start(raven, [step("broken", item="tea")])
    async with working(raven, types=types), working(raven, types=["python"]):
        found = await reach(raven, run.run_id, "failed")
    assert (found.run.error_code, shop.calls) == ("WAIT_EXPIRED", [])


async def test_a_retry_asks_anew_and_has_its_time_again(raven: TwinRaven, shop: Shop) -> None:
    """A run that failed because nobody answered, or because its time was over, can be retried as often as needed."""
    run = await start(raven, [step("person:boss", expires_s=0.05)])
    async with working(raven):
        for _ in range(2):
            assert (await reach(raven, run.run_id, "failed")).run.error_code == "WAIT_EXPIRED"
            await raven.runs.retry(run.run_id, by=LOCAL)
        await reach(raven, run.run_id, "failed")
        late = await start(raven, [step("event:paid"), step("look", item="tea")], timeout_s=1.0)
        for _ in range(2):
            await reach(raven, late.run_id, "failed")
            await raven.runs.retry(late.run_id, by=LOCAL)
        await reach(raven, late.run_id, "waiting")
        await raven.runs.signal("paid", None, by=LOCAL)
        await reach(raven, late.run_id, "succeeded")
    assert shop.calls == ["look tea"]


@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_a_clock_an_hour_off_changes_no_moment(
    raven: TwinRaven, shop: Shop, off: int, request: pytest.FixtureRequest
) -> None:
    """A machine whose clock is wrong waits as long as others, ends its run, and has each effect once."""
    if request.node.callspec.params["raven"] == "sqlite":
        off = off // HOUR  # every process of one file has the clock of one machine
    steps = [step("moment:", seconds=0.2), {**step("person:boss", expires_s=0.2), "on_failure": "skip"}]
    run = await start(raven, [*steps, step("reserve", item="tea")], timeout_s=60)
    with open_home(raven.home, functions=shop.tools, micros=lambda: now_micros() + off) as other:
        async with working(other):
            found = await reach(raven, run.run_id, "succeeded", "failed")
    assert (found.run.state, shop.calls) == ("succeeded", ["reserve tea"])
    assert found.run.epoch < 10, "it was looked at when something was due, and not all the time"
    assert found.run.finished_at is not None
    assert abs(found.run.finished_at - found.run.created_at).total_seconds() < 60


@pytest.mark.req("AD-14")
async def test_a_pool_limits_steps_however_they_come(tmp_path: Path, shop: Shop) -> None:
    """Runs whose steps are of one type make no more of them at once than its pool has slots."""
    shop.gate = asyncio.Event()
    engine = {**FAST, "pools": [{"queue": "python", "slots": 2}]}
    with shop_home(tmp_path, shop, engine=engine) as raven:
        ids = [(await start(raven, [step("reserve", item=str(number))])).run_id for number in range(5)]
        async with working(raven):
            await until(lambda: len(shop.calls) == 2)
            await asyncio.sleep(0.3)
            assert len(shop.calls) == 2
            shop.gate.set()
            for each in ids:
                await reach(raven, each, "succeeded")
        (done,) = {each.worker_id.split("/")[0]: each for each in await raven.runs.workers()}.values()
        processed = {each.worker_id: each.processed_count for each in await raven.runs.workers()}
    assert done.status == "offline"
    assert sum(number for name, number in processed.items() if "/python/" in name) == 5
    assert sum(number for name, number in processed.items() if "/runs/" in name) == 5


@pytest.mark.req("AD-14")
async def test_the_smallest_priority_is_taken_first(tmp_path: Path, shop: Shop) -> None:
    """Of what is due, a worker takes the smallest number first, whenever it was started."""
    engine = {**FAST, "pools": [{"queue": "runs", "slots": 1}]}
    with shop_home(tmp_path, shop, engine=engine) as raven:
        ids = [
            (await start(raven, [step("reserve", item=str(priority))], priority=priority)).run_id
            for priority in (300, 100, 200)
        ]
        async with working(raven):
            for each in ids:
                await reach(raven, each, "succeeded")
    assert shop.calls == ["reserve 100", "reserve 200", "reserve 300"]
