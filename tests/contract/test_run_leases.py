"""Leases of runs on both stores: whoever lost a run begins nothing more, whatever it did before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.working import Shop, shop_home, start, step
from twinraven.app import TwinRaven
from twinraven.engine import EmbeddedDispatcher, Lease
from twinraven.engine.errors import RunSuperseded
from twinraven.storage import Database, Transaction

TENANT = "default"


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    login = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with shop_home(tmp_path, Shop(), postgres=login) as raven:
        yield raven


@pytest.fixture
async def dispatcher(raven: TwinRaven) -> AsyncGenerator[EmbeddedDispatcher]:
    """One run that is due."""
    await start(raven, [step("look", item="tea")], run_id="r1")
    dispatcher = EmbeddedDispatcher(raven.database)
    yield dispatcher
    dispatcher.close()


async def _taken(dispatcher: EmbeddedDispatcher, worker: str) -> Lease:
    """A lease of the only run, whose worker before is not heard of any more."""
    (lease,) = await dispatcher.take(worker, {"runs": 1})
    assert lease.worker == worker
    return lease


@pytest.mark.req("CH-16")
async def test_a_worker_that_lost_a_run_begins_nothing_more(raven: TwinRaven, dispatcher: EmbeddedDispatcher) -> None:
    """Before and after the next worker began a call, the one before is refused; so is one whose run has ended."""
    database: Database = raven.database
    first = await _taken(dispatcher, "w1")
    for _ in range(2):
        await database.write(TENANT, lambda tx: dispatcher.hold(tx, first))
    second = await _taken(dispatcher, "w2")
    for _ in range(2):
        with pytest.raises(RunSuperseded):
            await database.write(TENANT, lambda tx: dispatcher.hold(tx, first))
        await database.write(TENANT, lambda tx: dispatcher.hold(tx, second))
    await database.write(TENANT, lambda tx: dispatcher.drop(tx, TENANT, "r1"))
    with pytest.raises(RunSuperseded):
        await database.write(TENANT, lambda tx: dispatcher.hold(tx, second))


@pytest.mark.req("AD-14", "AD-11")
async def test_what_wakes_a_run_before_it_rests_is_not_lost(raven: TwinRaven, dispatcher: EmbeddedDispatcher) -> None:
    """An answer that comes while a worker is about to let a run rest lets it be taken at once; without one it rests."""
    lease = await _taken(dispatcher, "w1")
    await raven.database.write(TENANT, lambda tx: dispatcher.wake(tx, TENANT, "r1"))
    await raven.database.write(TENANT, lambda tx: dispatcher.rest(tx, lease, None))
    again = await _taken(dispatcher, "w2")
    await raven.database.write(TENANT, lambda tx: dispatcher.rest(tx, again, None))
    assert await dispatcher.take("w1", {"runs": 1}) == []


async def test_a_run_says_that_it_is_being_worked_at(raven: TwinRaven, dispatcher: EmbeddedDispatcher) -> None:
    """A run that was taken is marked when its worker begins a call, and not before; it is anew when another has it."""
    database: Database = raven.database

    def mark(tx: Transaction) -> int:
        row = tx.fetch_one("SELECT executing FROM run_dispatch WHERE run_id = 'r1'")
        return -1 if row is None else row["executing"]

    marks: list[int] = []
    for worker in ("w1", "w2"):
        lease = await _taken(dispatcher, worker)
        marks.append(await database.read(TENANT, mark))
        for _ in range(2):
            await database.write(TENANT, lambda tx, lease=lease: dispatcher.hold(tx, lease))
            marks.append(await database.read(TENANT, mark))
    assert marks == [0, 1, 1] * 2
