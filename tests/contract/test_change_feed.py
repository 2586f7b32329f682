"""The change feed, on both stores: what any connection commits is told to all listeners, at the price of one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, api_home, login_of, made
from twinraven.foundation.clock import now_micros
from twinraven.foundation.ids import new_id
from twinraven.muninn import Collector, EventTail, SqlEventStore
from twinraven.storage import Change, ChangeFeed, Database, Transaction

pytestmark = pytest.mark.tenants("ada", "bob")
TENANT = "default"


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.faults = 0

    def __call__(self, change: Change) -> None:
        self.changes.append(change)
        if self.faults:
            self.faults -= 1
            raise RuntimeError("a listener that fails")

    def until(self, change: Change, *, count: int = 1) -> None:
        deadline = time.monotonic() + 60
        while self.changes.count(change) < count:
            assert time.monotonic() < deadline, self.changes
            time.sleep(0.01)


@pytest.fixture
def feed(database: Database) -> Generator[ChangeFeed]:
    feed = ChangeFeed(database, poll_s=0.02)
    yield feed
    feed.close()


@pytest.fixture
def heard(feed: ChangeFeed) -> Heard:
    heard = Heard()
    feed.subscribe(heard)
    heard.until(Change())
    return heard


def record(database: Database, tenant_id: str, count: int = 1, *, sessions: Sequence[str] = ("s",)) -> None:
    """Record calls that are committed together."""
    collector = Collector(database)
    observers = [collector.observe(each, tenant_id=tenant_id) for each in sessions]
    for number in range(count):
        for observer in observers:
            observer.record("count", {"number": number})
    collector.close()


def log_calls(database: Database, tenant_id: str, sessions: Sequence[str]) -> None:
    """Write a call of each session into the log with one statement, as an import does."""
    given = (
        "tenant_id event_id session_id tool_id input_hash input_params output_summary tags outcome timestamp latency_ms"
    )
    names = (*given.split(), "raised", "time_known")
    rows = [(tenant_id, new_id(), each, "t", "0", "{}", "{}", "[]", "success", 1, 1, 0, 1) for each in sessions]
    with closing(database.connect()) as connection, connection.transaction(tenant_id, write=True) as tx:
        tx.insert_rows("muninn_event_log", names, rows)


async def raise_catalogue(database: Database, tenant_id: str) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO catalog_version (tenant_id, version) VALUES (:tenant, 1) "
            "ON CONFLICT (tenant_id) DO UPDATE SET version = catalog_version.version + 1",
            tenant=tenant_id,
        )

    await database.write(tenant_id, work)


async def test_what_changed_since_a_moment(database: Database, feed: ChangeFeed, heard: Heard) -> None:
    """What was seen from a moment on is named by tenant; before the feed watched, anything may have changed."""
    assert ChangeFeed(database).changed_since("ada", now_micros()) is None
    assert feed.changed_since("ada", now_micros() - 3_600_000_000) is None
    begun = now_micros()
    assert feed.changed_since("ada", begun) == []
    record(database, "ada")
    heard.until(Change("events", "ada", "s"))
    await raise_catalogue(database, "bob")
    heard.until(Change("catalog", "bob"))
    assert feed.changed_since("ada", begun) == [Change("events", "ada", "s")]
    assert feed.changed_since("bob", begun) == [Change("catalog", "bob")]
    assert feed.changed_since("ada", now_micros()) == []


async def test_a_commit_is_told_with_its_tenant_and_topic(database: Database, heard: Heard) -> None:
    """Events and new catalogues are told with the tenant they belong to, and nothing is told of anybody else."""
    heard.changes.clear()
    record(database, "ada")
    await asyncio.to_thread(heard.until, Change("events", "ada", "s"))
    for _ in range(2):
        before = heard.changes.count(Change("catalog", "bob"))
        await raise_catalogue(database, "bob")
        await asyncio.to_thread(heard.until, Change("catalog", "bob"), count=before + 1)
    assert set(heard.changes) == {Change("events", "ada", "s"), Change("catalog", "bob")}


async def test_new_and_changed_work_is_told(database: Database, heard: Heard) -> None:
    """What a run asks is told when it is asked and again when it is answered, each time with its tenant."""
    row = {"tenant": "ada", "run": "r", "question": b"?", "at": 1}
    columns = "tenant_id, run_id, place, kind, question, asked_at"
    stated = "target, definition, parameters, body_hash, state, queue, priority, epoch, actor, created_at"
    values = ":tenant, :run, 't', :question, :question, 'h', 'active', 'q', 1, 1, 'a', :at"
    for statement in (
        f"INSERT INTO runs (tenant_id, run_id, {stated}) VALUES ({values})",
        f"INSERT INTO run_waits ({columns}) VALUES (:tenant, :run, '0', 'person', :question, :at)",
        "UPDATE run_waits SET answered_at = :at WHERE tenant_id = :tenant AND run_id = :run AND question = :question",
    ):
        heard.changes.clear()
        await database.write("ada", lambda tx, words=statement: tx.execute(words, **row))
        await asyncio.to_thread(heard.until, Change("runs", "ada", "r"))
        assert set(heard.changes) == {Change("runs", "ada", "r")}


def test_what_a_change_is_about_is_named(database: Database, heard: Heard) -> None:
    """Each session that has new calls is told by name, whatever it is called; of many at once, that there are some."""
    odd = "run:7 of\n'ä' "
    heard.changes.clear()
    log_calls(database, "ada", ["a", "b", odd])
    for name in ("a", "b", odd):
        heard.until(Change("events", "ada", name))
    assert set(heard.changes) == {Change("events", "ada", name) for name in ("a", "b", odd)}
    heard.changes.clear()
    log_calls(database, "ada", [f"many-{number}" for number in range(200)])
    heard.until(Change("events", "ada"))
    assert set(heard.changes) == {Change("events", "ada")}


def test_a_name_too_long_to_be_told_is_told_as_any(database: Database, heard: Heard) -> None:
    """A session whose name no notification holds is told: by name on SQLite, as any session on Postgres."""
    heard.changes.clear()
    log_calls(database, "ada", ["x" * 9_000])
    heard.until(Change("events", "ada", "x" * 9_000 if database.dialect == "sqlite" else None))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_notes_that_were_dropped_are_made_up_for(database: Database) -> None:
    """More changes between two looks than are kept: listeners are told that anything may have changed."""
    feed, heard = ChangeFeed(database, poll_s=0.5), Heard()
    feed.subscribe(heard)
    heard.until(Change())
    heard.changes.clear()
    with closing(database.connect()) as connection, connection.transaction("ada", write=True) as tx:
        for number in range(1_500):
            tx.execute(
                "INSERT INTO campaigns (tenant_id, campaign_id, name, status, state_version, created_by, created_at, "
                "updated_at) VALUES ('ada', :name, 'c', 'active', 1, 'a', 1, 1)",
                name=f"c{number}",
            )
        noted = tx.fetch_one("SELECT count(*) AS notes FROM change_notes")
    assert noted is not None
    assert 1_000 <= noted["notes"] < 1_256
    heard.until(Change())
    feed.close()


def test_what_was_seen_long_ago_is_remembered_by_topic(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions there are, few are remembered by name, and no change is forgotten."""
    monkeypatch.setattr("twinraven.storage.changes._MOST_REMEMBERED", 8)
    feed, heard = ChangeFeed(database, poll_s=0.02), Heard()
    feed.subscribe(heard)
    heard.until(Change())
    begun = now_micros()
    for number in range(30):
        record(database, "ada", sessions=[f"s-{number}"])
        heard.until(Change("events", "ada", f"s-{number}"))
    found = feed.changed_since("ada", begun)
    assert found is not None
    assert Change("events", "ada") in found
    assert Change("events", "ada", "s-29") in found
    assert len(found) <= 16
    feed.close()


def test_a_listener_that_failed_is_told_again(database: Database, heard: Heard) -> None:
    """What a listener could not take in is made up for: it is told that anything may have changed."""
    heard.changes.clear()
    heard.faults = 1
    record(database, TENANT)
    heard.until(Change())


def test_nothing_is_told_once_a_listener_left(database: Database, feed: ChangeFeed) -> None:
    """Ending a subscription ends what is told."""
    gone, stays = Heard(), Heard()
    leave = feed.subscribe(gone)
    feed.subscribe(stays)
    gone.until(Change())
    leave()
    gone.changes.clear()
    record(database, TENANT)
    stays.until(Change("events", TENANT, "s"))
    assert Change("events", TENANT, "s") not in gone.changes


async def test_a_follower_that_falls_behind_misses_nothing(
    database: Database, feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever does not read while more comes than is kept for it reads the rest from the log, in order, each once."""
    monkeypatch.setattr("twinraven.muninn.tail._MOST_WAITING", 2)
    monkeypatch.setattr("twinraven.muninn.tail._AT_ONCE", 5)
    tail = EventTail(SqlEventStore(database), feed)
    async with tail.following(TENANT, after=0) as slow, tail.following(TENANT, after=0) as quick:
        await asyncio.to_thread(record, database, TENANT, 40)
        seen: list[list[int]] = []
        for follower in (quick, slow):
            numbers: list[int] = []
            while len(numbers) < 40:
                batch = await follower.next(within_s=20)
                assert batch is not None
                numbers += [event.input_params["number"] for event in batch.events]
            seen.append(numbers)
    assert seen == [list(range(40))] * 2


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Every statement that this process sends to either store, from any thread; asking begins anew."""
    from twinraven.storage.postgres import PostgresTransaction
    from twinraven.storage.sqlite import SqliteTransaction

    found: list[str] = []
    lock = threading.Lock()

    def counted(method: Any) -> Any:
        def run(self: Any, sql: str, *args: Any, **params: Any) -> Any:
            with lock:
                found.append(sql)
            return method(self, sql, *args, **params)

        return run

    for kind in (SqliteTransaction, PostgresTransaction):
        for name in ("execute", "fetch_all", "fetch_one", "stream", "insert_rows"):
            monkeypatch.setattr(kind, name, counted(getattr(kind, name)))

    def taken() -> list[str]:
        with lock:
            said, found[:] = list(found), []
        return said

    return taken


def test_watching_while_nothing_happens_reads_no_table(
    database: Database, heard: Heard, statements: Callable[[], list[str]]
) -> None:
    """As long as nothing is committed, SQLite is asked for one number and Postgres for nothing at all."""
    statements()
    time.sleep(0.3)
    assert set(statements()) == ({"PRAGMA data_version"} if database.dialect == "sqlite" else set())
    assert heard.changes == [Change()]


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


async def test_two_hundred_streams_cost_the_database_what_one_does(
    home: ApiHome, statements: Callable[[], list[str]]
) -> None:
    """New events are read once for all live streams of a tenant; nobody polls for itself."""
    ada = await home.tenant("ada")
    reads: list[int] = []
    for count in (1, 200):
        async with AsyncExitStack() as streams:
            opened = [await streams.enter_async_context(ada.door.listen("/v1/events/live")) for _ in range(count)]
            for each in opened:
                await each.place()
            # Until one event came through, streams may still be joining.
            for number in range(2):
                statements()
                event = {"session_id": "s", "tool_id": "count", "input_params": {"number": number}}
                made(await ada.door.post("/v1/events", {"events": [event]}))
                heard = [(await each.next(within_s=20))[1]["input_params"]["number"] for each in opened]
                assert heard == [number] * count
            reads.append(sum("FROM muninn_events " in each or "pg_locks" in each for each in statements()))
    assert reads[0] >= 1
    assert reads[1] <= reads[0] + 3


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_lost_connection_is_made_up_for(database: Database, heard: Heard) -> None:
    """When Postgres cuts the listening connection, listeners are told that anything may have changed, and go on."""
    heard.changes.clear()
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND usename = current_user"
    )
    connection = database.connect()
    with connection.transaction(TENANT, write=False) as tx:
        tx.fetch_all(cut)
    connection.close()
    heard.until(Change())
    record(database, TENANT)
    heard.until(Change("events", TENANT, "s"))
