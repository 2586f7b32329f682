"""What every store promises to whoever uses the port, checked on each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.records import BLOB_COLUMNS, add_blob, add_events, all_rows, blob_keys
from twinraven.foundation.errors import Conflict, InvalidInput, SchemaOutdated, StorageError, StorageReadOnly
from twinraven.storage import Database, Transaction

pytestmark = pytest.mark.tenants("t", "u")


async def test_what_work_wrote_is_there_for_everybody_after_it_returns(database: Database) -> None:
    """A unit of work is committed when `write` returns."""
    assert await database.write("t", add_blob("t", "a")) == 1
    connection = database.connect()
    with connection.transaction("t", write=False) as tx:
        assert blob_keys("t")(tx) == ["a"]
    connection.close()


async def test_work_that_raises_changes_nothing(database: Database) -> None:
    """An exception leaves `write` as it is and takes every statement of the work with it."""

    def work(tx: Transaction) -> None:
        add_blob("t", "a")(tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write("t", work)
    assert await database.read("t", blob_keys("t")) == []


async def test_a_read_sees_one_snapshot(database: Database) -> None:
    """What others commit while a unit of work reads stays out of its sight."""
    await database.write("t", add_blob("t", "before"))

    def work(tx: Transaction) -> tuple[list[str], list[str]]:
        first = blob_keys("t")(tx)
        asyncio.run(database.write("t", add_blob("t", "meanwhile")))
        return first, blob_keys("t")(tx)

    assert await database.read("t", work) == (["before"], ["before"])
    assert await database.read("t", blob_keys("t")) == ["before", "meanwhile"]


async def test_a_read_refuses_to_write(database: Database) -> None:
    """Writing inside `read` is an error, and the same connection writes again when it may."""
    with pytest.raises(StorageReadOnly):
        await database.read("t", add_blob("t", "a"))
    connection = database.connect()
    with pytest.raises(StorageReadOnly), connection.transaction("t", write=False) as tx:
        add_blob("t", "b")(tx)
    with connection.transaction("t", write=True) as tx:
        add_blob("t", "c")(tx)
    connection.close()
    assert await database.read("t", blob_keys("t")) == ["c"]


async def test_a_read_on_the_calling_thread_sees_what_is_committed_and_refuses_to_write(database: Database) -> None:
    """Code without an event loop reads as everybody does, also after a refusal and from many threads at once."""
    with pytest.raises(StorageReadOnly):
        database.read_here("t", add_blob("t", "a"))
    await database.write("t", add_blob("t", "b"))
    assert database.read_here("t", blob_keys("t")) == ["b"]
    reads = (asyncio.to_thread(database.read_here, "t", blob_keys("t")) for _ in range(12))
    assert await asyncio.gather(*reads) == [["b"]] * 12


async def test_concurrent_work_never_loses_an_update(database: Database) -> None:
    """Work that reads, computes and writes behaves as if nobody else were writing."""
    await database.write("t", add_blob("t", "counter", b"0"))

    def count(tx: Transaction) -> None:
        row = tx.fetch_one("SELECT body FROM blobs WHERE tenant_id = :tenant AND hash = 'counter'", tenant="t")
        assert row is not None
        body = str(int(row["body"]) + 1).encode()
        tx.execute(
            "UPDATE blobs SET body = :body WHERE tenant_id = :tenant AND hash = 'counter'", tenant="t", body=body
        )

    await asyncio.gather(*(database.write("t", count) for _ in range(24)))
    (row,) = await database.read("t", all_rows("blobs"))
    assert row["body"] == b"24"


async def test_concurrent_work_takes_numbers_without_gaps(database: Database) -> None:
    """The next number after the largest goes to one writer only, and to each its own."""

    def take_number(tx: Transaction) -> None:
        rows = tx.fetch_all("SELECT hash FROM blobs WHERE tenant_id = :tenant", tenant="t")
        add_blob("t", f"{len(rows):03}")(tx)

    await asyncio.gather(*(database.write("t", take_number) for _ in range(16)))
    assert await database.read("t", blob_keys("t")) == [f"{number:03}" for number in range(16)]


async def test_a_cancelled_caller_does_not_cancel_the_work(database: Database) -> None:
    """Work that was handed over is finished, whether or not anybody still waits for it."""
    release = threading.Event()
    blocked = [asyncio.create_task(database.write("t", lambda _: release.wait(10))) for _ in range(8)]
    task = asyncio.create_task(database.write("t", add_blob("t", "a")))
    await asyncio.sleep(0.05)
    task.cancel()
    release.set()
    await asyncio.gather(*blocked)
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(10):
        while await database.read("t", blob_keys("t")) != ["a"]:
            pass


@pytest.mark.usefixtures("loop_guard")
async def test_the_event_loop_is_never_blocked(database: Database) -> None:
    """Opening connections, reading and writing all happen on threads of the database's own."""
    here = threading.get_ident()
    assert await database.write("t", lambda _: threading.get_ident()) != here
    assert await database.read("t", lambda _: threading.get_ident()) != here


async def test_a_taken_key_is_a_conflict(database: Database) -> None:
    """A unique key that is taken is the caller's conflict, not a driver's error."""
    await database.write("t", add_blob("t", "a"))
    with pytest.raises(Conflict) as refusal:
        await database.write("t", add_blob("t", "a"))
    assert refusal.value.code == "CONFLICT"
    assert refusal.value.details["constraint"]


@pytest.mark.parametrize("sql", ["SELECT * FROM no_such_table", "SELECT no_such_column FROM blobs"])
async def test_a_schema_that_lacks_something_asks_for_an_upgrade(database: Database, sql: str) -> None:
    """A missing table or column says how to get it."""
    with pytest.raises(SchemaOutdated, match="twinraven db upgrade"):
        await database.read("t", lambda tx: tx.fetch_all(sql))


async def test_nonsense_is_a_storage_error(database: Database) -> None:
    """SQL that does not parse comes back as an error of ours."""
    with pytest.raises(StorageError):
        await database.read("t", lambda tx: tx.fetch_all("SELEKT 1"))


@pytest.mark.parametrize(
    "row",
    [("t", "lone surrogate \ud800", 0), ("t", "e", 2**70)],
    ids=["surrogate", "huge integer"],
)
async def test_values_no_store_can_hold_are_invalid_input(database: Database, row: tuple[Any, ...]) -> None:
    """What cannot be stored is refused alike on every store, and nothing of it is stored."""
    columns = ("tenant_id", "session_id", "stated_at", "outcome", "stated_by")
    with pytest.raises(InvalidInput):
        await database.write("t", lambda tx: tx.insert_rows("session_verdicts", columns, [(*row, "success", "me")]))
    assert await database.read("t", all_rows("session_verdicts")) == []


async def test_ignoring_a_failed_statement_does_not_half_commit(database: Database) -> None:
    """Work that swallows a storage error either keeps all that succeeded or is told that nothing was stored."""
    await database.write("t", add_blob("t", "taken"))

    def work(tx: Transaction) -> None:
        add_blob("t", "a")(tx)
        try:
            add_blob("t", "taken")(tx)
        except Exception as error:  # noqa: BLE001 - the driver's own error, which work cannot name
            del error

    stored = ["a", "taken"]
    try:
        await database.write("t", work)
    except StorageError:
        stored = ["taken"]
    assert await database.read("t", blob_keys("t")) == stored


async def test_rows_go_in_by_the_thousand_and_come_out_in_batches(database: Database) -> None:
    """`insert_rows` keeps every value and `stream` returns them all, never more than a batch at a time."""
    rows = [("t", f"{number:05}", bytes([number % 256])) for number in range(2500)]
    await database.write("t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, rows))

    def work(tx: Transaction) -> list[list[tuple[Any, ...]]]:
        sql = "SELECT tenant_id, hash, body FROM blobs WHERE tenant_id = :tenant ORDER BY hash"
        return list(tx.stream(sql, batch=1000, tenant="t"))

    batches = await database.read("t", work)
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
    assert [row for batch in batches for row in batch] == rows


@pytest.mark.parametrize("count", [0, 1, 2, 3, 63, 64, 65, 127, 200])
async def test_any_number_of_rows_goes_in_once_and_in_order(database: Database, count: int) -> None:
    """Whatever the store makes of many rows at once, each is there once, and those that were there stay."""
    rows = [("t", f"{number:05}", b"new") for number in range(count)]
    await database.write("t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, rows[::2]))
    await database.write("t", lambda tx: tx.insert_missing("blobs", BLOB_COLUMNS, [(*row[:2], b"old") for row in rows]))

    def work(tx: Transaction) -> list[tuple[str, bytes]]:
        sql = "SELECT hash, body FROM blobs WHERE tenant_id = :tenant ORDER BY hash"
        return [(row["hash"], bytes(row["body"])) for row in tx.fetch_all(sql, tenant="t")]

    found = await database.read("t", work)
    assert found == [(row[1], b"old" if number % 2 else b"new") for number, row in enumerate(rows)]
    with pytest.raises(Conflict):
        await database.write(
            "t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, [("t", "zz", b""), ("t", "zz", b"")])
        )
    assert await database.read("t", work) == found


async def test_two_streams_run_side_by_side_and_may_be_abandoned(database: Database) -> None:
    """Streams of one transaction do not disturb each other, and one not read to its end disturbs nobody later."""
    keys = [f"{number:03}" for number in range(100)]
    await database.write("t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, [("t", key, b"") for key in keys]))

    def work(tx: Transaction) -> list[str]:
        sql = "SELECT hash FROM blobs WHERE tenant_id = :tenant ORDER BY hash"
        one, two = tx.stream(sql, batch=10, tenant="t"), tx.stream(sql, batch=20, tenant="t")
        abandoned.append(two)
        return [next(one)[-1][0], next(two)[-1][0], next(one)[-1][0]]

    abandoned: list[Iterator[list[tuple[Any, ...]]]] = []
    assert await database.read("t", work) == ["009", "019", "019"]
    abandoned.clear()
    assert len(await database.read("t", blob_keys("t"))) == 100


async def test_inserting_nothing_is_nothing(database: Database) -> None:
    """An empty batch is not an error."""
    await database.write("t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, []))
    await database.write("t", lambda tx: tx.insert_missing("blobs", BLOB_COLUMNS, []))
    assert await database.read("t", blob_keys("t")) == []


async def test_columns_of_nothing_and_of_some_things_are_kept(database: Database) -> None:
    """A column that is null in some rows of a batch, or in all of them, is stored as given."""
    columns = ("tenant_id", "session_id", "outcome", "stated_at", "stated_by", "source_key")
    rows = [("t", "s", "success", number, "me", key) for number, key in enumerate((None, "k", None))]
    await database.write("t", lambda tx: tx.insert_rows("session_verdicts", columns, rows))
    await database.write("t", lambda tx: tx.insert_rows("session_verdicts", columns, rows[:1]))
    stored = await database.read("t", all_rows("session_verdicts"))
    assert [(row["stated_at"], row["source_key"]) for row in stored] == [(0, None), (1, "k"), (2, None), (0, None)]


async def test_insert_missing_keeps_what_was_there_first(database: Database) -> None:
    """A key that is taken, before or within the batch, keeps its first row."""
    await database.write("t", add_blob("t", "a", b"old"))
    rows = [("t", "a", b"new"), ("t", "b", b"one"), ("t", "b", b"two")]
    await database.write("t", lambda tx: tx.insert_missing("blobs", BLOB_COLUMNS, rows))
    stored = {row["hash"]: row["body"] for row in await database.read("t", all_rows("blobs"))}
    assert stored == {"a": b"old", "b": b"one"}


async def test_insert_appending_adds_bytes_to_what_was_there(database: Database) -> None:
    """A key that is there keeps its bytes and gets the new ones behind them, whatever bytes they are."""
    every = bytes(range(256))
    await database.write("t", lambda tx: tx.insert_appending("blobs", BLOB_COLUMNS, []))
    for added in (every, b"\0\0\xff", b""):
        rows = [("t", key, added) for key in ("a", "b", "c")]
        await database.write("t", lambda tx, rows=rows: tx.insert_appending("blobs", BLOB_COLUMNS, rows))
    stored = {row["hash"]: bytes(row["body"]) for row in await database.read("t", all_rows("blobs"))}
    assert stored == dict.fromkeys(("a", "b", "c"), every + b"\0\0\xff")


async def test_writers_that_insert_the_same_keys_do_not_deadlock(database: Database) -> None:
    """Overlapping batches in opposite orders all go through, on connections that nobody retries for."""
    keys = [f"{number:04}" for number in range(400)]
    barrier = threading.Barrier(4)

    def insert(order: int) -> None:
        connection = database.connect()
        rows = [("t", key, b"") for key in (keys if order % 2 else reversed(keys))]
        barrier.wait()
        with connection.transaction("t", write=True) as tx:
            tx.insert_missing("blobs", BLOB_COLUMNS, rows)
        connection.close()

    await asyncio.gather(*(asyncio.to_thread(insert, order) for order in range(4)))
    assert await database.read("t", blob_keys("t")) == keys


async def test_present_names_the_values_that_are_there(database: Database) -> None:
    """`present` answers for the given tenant alone, for awkward values too."""
    awkward = ["a", "it's", 'a "quote"', "ümlaut", "back\\slash"]
    await database.write("t", add_events("t", *awkward))
    await database.write("u", add_events("u", "elsewhere"))

    def work(tx: Transaction) -> set[str]:
        return tx.present("muninn_event_log", "event_id", [*awkward, "elsewhere", "nowhere"], tenant_id="t")

    assert await database.read("t", work) == set(awkward)
    assert await database.read("t", lambda tx: tx.present("blobs", "hash", [], tenant_id="t")) == set()


async def test_parameters_are_told_from_text(database: Database) -> None:
    """Placeholders inside quotes are text, and a name may end in a digit."""
    sql = "SELECT ':not ? 100% it''s' AS words, :value_1 AS value, 7 % 4 AS rest"
    assert await database.read("t", lambda tx: tx.fetch_one(sql, value_1="v")) == {
        "words": ":not ? 100% it's",
        "value": "v",
        "rest": 3,
    }


async def test_execute_says_how_many_rows_it_touched(database: Database) -> None:
    """The number of rows decides optimistic updates, so it is exact."""
    await database.write("t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, [("t", key, b"") for key in "abc"]))
    touch = "UPDATE blobs SET body = :body WHERE tenant_id = :tenant AND hash <> :key"
    assert await database.write("t", lambda tx: tx.execute(touch, tenant="t", key="a", body=b"x")) == 2
    assert await database.write("t", lambda tx: tx.execute(touch, tenant="none", key="a", body=b"x")) == 0


async def test_execute_many_runs_one_statement_for_each_row(database: Database) -> None:
    """`execute_many` takes question marks and positional rows."""
    await database.write("t", lambda tx: tx.insert_rows("blobs", BLOB_COLUMNS, [("t", key, b"") for key in "ab"]))
    sql = "UPDATE blobs SET body = ? WHERE tenant_id = ? AND hash = ?"
    await database.write("t", lambda tx: tx.execute_many(sql, [(b"1", "t", "a"), (b"2", "t", "b")]))
    assert {row["hash"]: row["body"] for row in await database.read("t", all_rows("blobs"))} == {"a": b"1", "b": b"2"}


async def test_one_transaction_may_write_for_several_tenants(database: Database) -> None:
    """The event writer commits the events of several tenants at once, each under its own name."""
    connection = database.connect()
    with connection.transaction("t", write=True) as tx:
        add_events("t", "e1")(tx)
        tx.act_for("u")
        add_events("u", "e2")(tx)
    connection.close()
    count = "SELECT event_id FROM muninn_event_log WHERE tenant_id = :tenant"
    assert await database.read("t", lambda tx: tx.fetch_all(count, tenant="t")) == [{"event_id": "e1"}]
    assert await database.read("u", lambda tx: tx.fetch_all(count, tenant="u")) == [{"event_id": "e2"}]


@pytest.mark.parametrize("expiry", [(None, None), (None, 7), (7, None)])
async def test_a_column_may_hold_nothing_in_all_rows_or_in_some(
    database: Database, expiry: tuple[int | None, int | None]
) -> None:
    """A batch in which a number is always missing is stored like one in which it never is."""
    columns = ("tenant_id", "key_id", "user_id", "key_hash", "prefix", "label", "created_at", "expires_at")
    rows = [("default", f"k{n}", "local", f"h{n}", "tr_", "", 1, expires) for n, expires in enumerate(expiry)]
    await database.write("default", lambda tx: tx.insert_rows("api_keys", columns, rows))
    query = "SELECT expires_at FROM api_keys WHERE tenant_id = :tenant ORDER BY key_id"
    found = await database.read("default", lambda tx: tx.fetch_all(query, tenant="default"))
    assert tuple(row["expires_at"] for row in found) == expiry


async def test_whole_and_broken_numbers_stand_in_one_column(database: Database) -> None:
    """Which of them comes first in a batch makes no difference."""
    columns = ("tenant_id", "chain_id", "tools", "support", "confidence", "avg_latency_ms", "failure_rate")
    columns += ("sample_event_ids", "discovered_at", "mining_config", "detail")
    rows = [("t", name, "[]", share, 1, 1, 0, "[]", 0, "{}", "{}") for name, share in (("a", 1), ("b", 0.25))]
    await database.write("t", lambda tx: tx.insert_rows("candidate_chains", columns, rows))
    query = "SELECT support FROM candidate_chains WHERE tenant_id = :tenant ORDER BY chain_id"
    found = await database.read("t", lambda tx: tx.fetch_all(query, tenant="t"))
    assert [row["support"] for row in found] == [1, 0.25]
