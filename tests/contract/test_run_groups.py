"""Runs that are taken together are read together and end together, and none of them notices."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresLogin
from tests.working import Shop, reach, shop_home, start, step, until, working
from twinraven.app import TwinRaven
from twinraven.engine import RunEnd
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import Conflict
from twinraven.storage import Transaction, Work

MANY = 30


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path, shop: Shop) -> Generator[TwinRaven]:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    pools = [{"queue": "runs", "slots": MANY}, {"queue": "python", "slots": MANY}]
    with shop_home(tmp_path, shop, postgres=login, engine={"pools": pools}) as raven:
        yield raven


async def _queue(raven: TwinRaven, count: int) -> None:
    """Start runs of one read before anybody works."""
    for number in range(count):
        await start(raven, [step("look", item=f"i{number}")], run_id=f"r{number}")


async def test_many_runs_take_few_transactions(raven: TwinRaven, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker takes at once is read by one transaction, and ends by a few."""
    await _queue(raven, MANY)
    seen = {"read": 0, "write": 0}

    def count(name: str) -> None:
        inner = getattr(raven.database, name)

        async def counted(tenant_id: str, work: Work[Any]) -> Any:
            seen[name] += tenant_id == "default"
            return await inner(tenant_id, work)

        monkeypatch.setattr(raven.database, name, counted)

    count("read")
    count("write")
    async with working(raven):
        await until(lambda: len(shop.calls) == MANY)
    monkeypatch.undo()
    assert seen["read"] <= MANY / 5, seen
    assert seen["write"] <= MANY / 2, seen
    listed = await raven.runs.list("default")
    assert {run.state for run in listed} == {"succeeded"}
    assert sorted(shop.calls) == sorted(f"look i{number}" for number in range(MANY))
    for run in listed:
        assert [record.place for record in (await raven.runs.get("default", run.run_id)).steps] == ["0"]


async def test_a_run_that_does_not_open_keeps_no_other_from_its_end(raven: TwinRaven) -> None:
    """Of runs that are read together, one whose values were tampered with is the only one that does not go on."""
    await _queue(raven, 3)

    def tamper(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO runs (tenant_id, run_id, target, definition, parameters, body_hash, state, queue, priority, "
            "epoch, actor, created_at) SELECT tenant_id, 'bad', target, definition, parameters, 'other', state, queue, "
            "priority, epoch, actor, created_at FROM runs WHERE tenant_id = 'default' AND run_id = 'r1'"
        )
        raven.dispatcher.enqueue(tx, "default", "bad", queue="runs", priority=0)

    await raven.database.write("default", tamper)
    async with working(raven):
        for number in range(3):
            await reach(raven, f"r{number}", "succeeded")
    row = await raven.database.read("default", _state_of("bad"))
    assert row == "active"


async def test_an_end_that_somebody_refuses_is_refused_alone(raven: TwinRaven) -> None:
    """Where whoever hears of the end of a run refuses one of a group, the others end all the same."""
    told: list[str] = []

    def refuse(_: Transaction, ends: Sequence[RunEnd]) -> None:
        if any(end.run_id == "r1" for end in ends):
            raise Conflict("not this one")
        told.extend(end.run_id for end in ends)

    await _queue(raven, 4)
    raven.runs.register_ends(refuse)
    async with working(raven):
        for number in (0, 2, 3):
            await reach(raven, f"r{number}", "succeeded")
    assert sorted(told) == ["r0", "r2", "r3"]
    assert await raven.database.read("default", _state_of("r1")) == "active"


async def test_runs_that_end_together_stay_part_of_their_requests(raven: TwinRaven) -> None:
    """Whoever writes with the end of a run does so under the id of the request that started it."""
    started: dict[str, str] = {}
    ended: dict[str, str | None] = {}
    raven.runs.register_end(lambda _, end: ended.update({end.run_id: current_correlation.get()}))
    for number in range(3):
        started[f"r{number}"] = f"request-{number}"
        outer = current_correlation.set(f"request-{number}")
        await start(raven, [step("look", item="i")], run_id=f"r{number}")
        current_correlation.reset(outer)
    async with working(raven):
        for run_id in started:
            await reach(raven, run_id, "succeeded")
    assert ended == started


async def test_a_lease_that_was_lost_ends_nothing(raven: TwinRaven) -> None:
    """Of runs that end together, one that somebody else has by now stays theirs; jobs go with the runs that end."""
    await _queue(raven, 3)
    dispatcher = raven.dispatcher

    def add_job(tx: Transaction) -> None:
        dispatcher.enqueue(tx, "default", "r0", place="0", queue="mcp", priority=0)

    await raven.database.write("default", add_job)
    leases = {lease.run_id: lease for lease in await dispatcher.take("me", {"runs": MANY})}
    late = leases["r1"]._replace(epoch=leases["r1"].epoch - 1)
    stranger = leases["r2"]._replace(worker="other")
    given = [leases["r0"], late, stranger]
    assert await raven.database.write("default", lambda tx: dispatcher.let_go(tx, given)) == {leases["r0"]}
    left = await raven.database.read(
        "default", lambda tx: tx.fetch_all("SELECT run_id, place FROM run_dispatch ORDER BY run_id")
    )
    assert [(row["run_id"], row["place"]) for row in left] == [("r1", ""), ("r2", "")]


def _state_of(run_id: str) -> Work[Any]:
    def work(tx: Transaction) -> Any:
        row = tx.fetch_one("SELECT state FROM runs WHERE tenant_id = 'default' AND run_id = :run", run=run_id)
        return None if row is None else row["state"]

    return work
