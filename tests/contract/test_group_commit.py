"""Works that come together share a commit, and none of them notices."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.records import add_blob, all_rows, blob_keys
from twinraven.foundation.errors import Conflict
from twinraven.storage import Database, Transaction

pytestmark = pytest.mark.tenants("t", "u", "a", "b", "c")


async def _together(database: Database, *works: tuple[str, Any]) -> list[Any]:
    """What each of several works answers that wait behind the same transaction."""
    go, entered = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        entered.set()
        assert go.wait(10)

    holding = asyncio.ensure_future(database.write("t", hold))
    await asyncio.to_thread(entered.wait, 10)
    waiting = [asyncio.ensure_future(database.write(tenant_id, work)) for tenant_id, work in works]
    await asyncio.sleep(0)
    go.set()
    await holding
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_each_work_of_a_group_gets_its_own_answer_and_its_own_tenant(database: Database) -> None:
    """Works of several tenants in one commit are answered each by itself and fenced as ever."""
    tenants = ["a", "b", "a", "c"]
    answers = await _together(database, *((tenant, add_blob(tenant, f"k{n}")) for n, tenant in enumerate(tenants)))
    assert answers == [1, 1, 1, 1]
    assert await database.read("a", blob_keys("a")) == ["k0", "k2"]
    assert await database.read("b", blob_keys("b")) == ["k1"]


@pytest.mark.parametrize("fault", [Conflict("no"), ZeroDivisionError("not ours")])
async def test_a_work_that_raises_takes_back_only_itself(database: Database, fault: Exception) -> None:
    """Whatever one work of a group raises, its neighbours are stored and it leaves nothing behind."""

    def broken(tx: Transaction) -> None:
        add_blob("t", "broken")(tx)
        raise fault

    answers = await _together(
        database, ("t", add_blob("t", "before")), ("t", broken), ("t", broken), ("t", add_blob("t", "after"))
    )
    assert [type(answer) for answer in answers] == [int, type(fault), type(fault), int]
    assert await database.read("t", blob_keys("t")) == ["after", "before"]


async def test_a_work_that_the_store_refuses_takes_back_only_itself(database: Database) -> None:
    """A violated constraint in a group is the error of that work alone."""

    def twice(tx: Transaction) -> None:
        add_blob("t", "own")(tx)
        for _ in range(2):
            tx.execute("INSERT INTO blobs (tenant_id, hash, body) VALUES ('t', 'same', :body)", body=b"x")

    answers = await _together(database, ("t", add_blob("t", "a")), ("t", twice), ("t", add_blob("t", "b")))
    assert [type(answer) for answer in answers] == [int, Conflict, int]
    assert [row["hash"] for row in await database.read("t", all_rows("blobs"))] == ["a", "b"]


async def test_loops_of_several_threads_share_the_queue(database: Database) -> None:
    """Writers on event loops of their own are served by one database."""

    def write_some(name: str) -> None:
        async def some() -> None:
            await asyncio.gather(*(database.write("t", add_blob("t", f"{name}{n}")) for n in range(5)))

        asyncio.run(some())

    await asyncio.gather(*(asyncio.to_thread(write_some, name) for name in "abcd"))
    assert len(await database.read("t", blob_keys("t"))) == 20
