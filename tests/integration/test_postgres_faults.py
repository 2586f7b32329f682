"""Postgres goes away, in between and in the middle, and what was acknowledged is there when it returns."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.neighbours import settle_tenants
from tests.postgres import PostgresLogin, PostgresServer
from tests.records import add_blob, blob_keys
from twinraven.foundation.errors import Conflict, StorageUnavailable
from twinraven.storage import Transaction, open_database, postgres

_BLOBS = "SELECT hash, body FROM blobs ORDER BY hash"


async def test_a_restart_between_two_calls_goes_unnoticed(restartable_postgres: PostgresServer) -> None:
    """A connection that died while idle is replaced; nobody has to try again."""
    with restartable_postgres.fresh_database() as login:
        database = open_database(login.url)
        settle_tenants(database, "t")
        await database.write("t", add_blob("t", "before"))
        restartable_postgres.stop()
        restartable_postgres.start()
        await database.write("t", add_blob("t", "after"))
        assert await database.read("t", blob_keys("t")) == ["after", "before"]
        database.close()


async def test_a_crash_in_the_middle_is_a_clear_error(restartable_postgres: PostgresServer) -> None:
    """Work cut off half-way is reported as unavailable, stores nothing, and succeeds when it is tried again."""
    with restartable_postgres.fresh_database() as login:
        database = open_database(login.url)
        settle_tenants(database, "t")
        await database.write("t", add_blob("t", "before"))

        def cut_off(tx: Transaction) -> None:
            add_blob("t", "half")(tx)
            restartable_postgres.stop(crash=True)
            add_blob("t", "other half")(tx)

        with pytest.raises(StorageUnavailable) as failure:
            await database.write("t", cut_off)
        assert failure.value.retryable
        with pytest.raises(StorageUnavailable):
            await database.read("t", blob_keys("t"))
        restartable_postgres.start()
        assert await database.read("t", blob_keys("t")) == ["before"]
        await database.write("t", add_blob("t", "again"))
        assert await database.read("t", blob_keys("t")) == ["again", "before"]
        database.close()


async def test_a_connection_lost_during_commit_says_that_nobody_knows(restartable_postgres: PostgresServer) -> None:
    """When the answer to COMMIT never came, the error says so instead of inviting a blind retry."""
    with restartable_postgres.fresh_database() as login:
        database = open_database(login.url)
        settle_tenants(database, "t")

        def cut_off(tx: Transaction) -> None:
            add_blob("t", "a")(tx)
            restartable_postgres.stop(crash=True)

        with pytest.raises(StorageUnavailable, match="may or may not be stored") as failure:
            await database.write("t", cut_off)
        assert failure.value.details == {"commit": "unknown"}
        restartable_postgres.start()
        assert await database.read("t", blob_keys("t")) == []
        database.close()


async def test_a_writer_that_was_stopped_does_not_hold_its_rows(
    postgres_login: PostgresLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who falls silent in mid-transaction, as a process that is stopped, loses the transaction and holds nobody up."""
    monkeypatch.setattr(postgres, "_LONGEST_SILENCE_S", 1.0)
    database = open_database(postgres_login.url)
    settle_tenants(database, "t")
    silent = database.connect()

    async def fall_silent() -> None:
        with silent.transaction("t", write=True) as tx:
            add_blob("t", "same", b"silent")(tx)
            await database.write("t", add_blob("t", "same", b"other"))
            add_blob("t", "more")(tx)

    with pytest.raises(StorageUnavailable, match="idle-in-transaction"):
        await fall_silent()
    silent.close()
    found = await database.read("t", lambda tx: [(row["hash"], row["body"]) for row in tx.fetch_all(_BLOBS)])
    assert found == [("same", b"other")]
    database.close()


async def test_a_row_that_another_adds_meanwhile_is_seen_on_the_second_run(postgres_login: PostgresLogin) -> None:
    """Work that looks whether a row is there, and adds it, finds the one that a transaction beside it added."""
    database = open_database(postgres_login.url)
    settle_tenants(database, "t")
    beside = database.connect()

    def add_once(tx: Transaction) -> str:
        if "a" in blob_keys("t")(tx):
            return "seen"
        with suppress(Conflict), beside.transaction("t", write=True) as other:
            add_blob("t", "a")(other)
        add_blob("t", "a")(tx)
        return "added"

    assert await database.write("t", add_once) == "seen"
    beside.close()
    database.close()
