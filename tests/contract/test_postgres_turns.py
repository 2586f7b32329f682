"""Writes of several processes that collide on Postgres take turns for a while instead of failing in vain."""

from __future__ import annotations

import asyncio
import threading

from tests.postgres import PostgresLogin
from tests.records import add_blob
from twinraven.storage import Transaction
from twinraven.storage.postgres import PostgresDatabase

_PATIENCE_S = 60


def _touch(tx: Transaction) -> None:
    tx.execute("UPDATE blobs SET body = :body WHERE tenant_id = 'default' AND hash = 'head'", body=b"x")


def _turns(tx: Transaction) -> int:
    """How many transactions have their turn or wait for it, this one among them."""
    row = tx.fetch_one(
        "SELECT count(*) AS found FROM pg_locks WHERE mode = 'ShareUpdateExclusiveLock' "
        "AND relation = 'tenants'::regclass"
    )
    assert row is not None
    return int(row["found"])


async def test_a_write_that_collided_waits_for_its_turn(postgres_login: PostgresLogin) -> None:
    """A write that another's commit made vain is made once more, in turn, and so are those after it, up to a number;
    reads, other tenants' writes and writes that have not collided wait for nobody."""
    first, second = PostgresDatabase(postgres_login.url), PostgresDatabase(postgres_login.url)
    try:
        await first.write("default", add_blob("default", "head"))
        held, go, tries = threading.Event(), threading.Event(), list[int]()

        def hold(tx: Transaction) -> None:
            _touch(tx)
            held.set()
            assert go.wait(_PATIENCE_S)

        def collide(tx: Transaction) -> int:
            tries.append(_turns(tx))  # the first try takes its snapshot here, before the other commits
            if len(tries) == 1:
                go.set()
            _touch(tx)
            return tries[-1]

        holding = asyncio.ensure_future(first.write("default", hold))
        assert await asyncio.to_thread(held.wait, _PATIENCE_S)
        assert (await second.write("default", collide), tries) == (1, [0, 1])
        await holding
        assert await first.write("default", _turns) == 0
        assert await second.write("other", _turns) == 0
        left = 0
        while await second.write("default", _turns):
            left += 1
        assert left == 63
        assert await second.read("default", _turns) == 0
    finally:
        first.close()
        second.close()
