"""Muninn's log, recorded through the collector and read through the store, on SQLite and on Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recording import assert_linked, start_recorder
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound, TwinRavenError
from twinraven.muninn import Collector, EventFilter, MuninnEvent, Outcome, SqlEventStore, ToolHour, ToolTransition
from twinraven.muninn.columns import COLUMNS
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("a", "b")

TENANT = "default"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TWELVE = {
    "event_id": UUID,
    "session_id": str,
    "tool_id": str,
    "input_hash": str,
    "input_params": dict,
    "output_summary": str,
    "predecessor": UUID,
    "successor": UUID,
    "timestamp": datetime,
    "latency_ms": int,
    "outcome": Outcome,
    "tags": list,
}


@pytest.fixture
def collector(database: Database) -> Generator[Collector]:
    collector = Collector(database)
    yield collector
    collector.close()


@pytest.fixture
def store(database: Database) -> SqlEventStore:
    return SqlEventStore(database)


async def events_of(store: SqlEventStore, session_id: str) -> tuple[MuninnEvent, ...]:
    return (await store.session(TENANT, session_id)).events


@pytest.mark.req("TR-01")
async def test_an_event_has_all_twelve_fields(collector: Collector, store: SqlEventStore) -> None:
    """What was recorded comes back with every field, each of its type."""
    session = collector.observe("s", task_id="task-1")
    first = await session.record("open", {}, timestamp=NOON)
    middle = await session.record(
        "get_order",
        {"order_id": 7, "deep": {"list": [1, 2.5, None, True]}},
        output={"status": "shipped"},
        latency_ms=12,
        outcome=Outcome.SUCCESS,
        timestamp=NOON + timedelta(seconds=1),
        tags=["urgent", "eu"],
        turn=3,
        outside_input="where is my order?",
        correlation_id="request-1",
    )
    last = await session.record("close", {}, timestamp=NOON + timedelta(seconds=2))
    event = await store.event(TENANT, middle)
    assert {name: type(getattr(event, name)) for name in TWELVE} == TWELVE
    assert (event.event_id, event.predecessor, event.successor) == (middle, first, last)
    assert (event.session_id, event.tool_id, event.latency_ms) == ("s", "get_order", 12)
    assert event.input_params == {"order_id": 7, "deep": {"list": [1, 2.5, None, True]}}
    assert event.output_summary == '{"status":"shipped"}'
    assert event.timestamp == NOON + timedelta(seconds=1)
    assert (event.outcome, event.tags) == (Outcome.SUCCESS, ["urgent", "eu"])
    assert (event.turn, event.task_id, event.outside_input) == (3, "task-1", "where is my order?")
    assert (event.correlation_id, event.raised, event.time_known) == ("request-1", False, True)


@pytest.mark.req("TR-01")
async def test_what_is_not_said_has_its_default(collector: Collector, store: SqlEventStore) -> None:
    """Of a call only tool and arguments need be known; what is nullable is None, and tags are an empty list."""
    before = datetime.now(UTC)
    event = await store.event(TENANT, await collector.observe("s").record("ping", {}))
    assert (event.output_summary, event.predecessor, event.successor) == (None, None, None)
    assert (event.tags, event.latency_ms, event.outcome) == ([], 0, Outcome.PARTIAL)
    assert before - timedelta(seconds=1) <= event.timestamp <= datetime.now(UTC)
    assert event.event_id.version == 4


@pytest.mark.req("TR-01", "TR-08")
async def test_a_call_that_raised_is_an_event(collector: Collector, store: SqlEventStore) -> None:
    """A failure is recorded with its words and its code, and its outcome is the caller's to state."""
    session = collector.observe("s")
    await session.record_failure("get_order", {"order_id": 7}, error=KeyError("no order 7"), latency_ms=4)
    await session.record_failure("get_order", {"order_id": 8}, error=NotFound("no order 8"), outcome="success")
    foreign, ours = await events_of(store, "s")
    assert (foreign.raised, foreign.error_code, foreign.outcome) == (True, "KeyError", Outcome.FAILURE)
    assert (ours.raised, ours.error_code, ours.outcome) == (True, "NOT_FOUND", Outcome.SUCCESS)
    assert ours.output_summary == '{"error":"no order 8"}'


@pytest.mark.req("TR-02")
async def test_the_collectors_connection_cannot_change_history(
    collector: Collector, store: SqlEventStore, database: Database
) -> None:
    """What application logic connects with may add to the log and nothing else."""
    await collector.observe("s").record("ping", {}, outcome=Outcome.FAILURE)
    await store.state_verdict(TENANT, "s", Outcome.FAILURE, stated_by="judge")
    connection = database.connect()
    for table in ("muninn_event_log", "session_verdicts"):
        for statement in (f"UPDATE {table} SET outcome = 'success'", f"DELETE FROM {table}"):
            with pytest.raises(AppendOnly), connection.transaction(TENANT, write=True) as tx:
                tx.execute(statement)
    connection.close()
    session = await store.session(TENANT, "s")
    assert (session.outcome, session.events[0].outcome) == (Outcome.FAILURE, Outcome.FAILURE)


@pytest.mark.req("TR-02")
async def test_an_id_is_recorded_once(collector: Collector, store: SqlEventStore) -> None:
    """A second event under one id is a conflict, the first stays as it was, and the rest of the batch is stored."""
    session = collector.observe("s")
    event_id = uuid4()
    await session.record("first", {}, event_id=event_id)
    receipts = [session.record(f"beside-{number}", {}) for number in range(10)]
    receipts.insert(5, session.record("second", {}, event_id=event_id))
    answers = await asyncio.gather(*receipts, return_exceptions=True)
    assert [type(answer) for answer in answers] == [UUID] * 5 + [Conflict] + [UUID] * 5
    assert (await store.event(TENANT, event_id)).tool_id == "first"
    assert len(await events_of(store, "s")) == 11


@pytest.mark.req("TR-03")
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments=st.lists(st.integers(0, 6), min_size=1, max_size=12), waits=st.data())
def test_links_agree_whatever_the_order_of_storing(
    collector: Collector, store: SqlEventStore, moments: list[int], waits: st.DataObject
) -> None:
    """Calls stored in any order, also with equal times, form one chain in the order in which they began."""
    name = f"session-{uuid4()}"
    session = collector.observe(name)
    for number, moment in enumerate(moments):
        receipt = session.record("step", {"n": number}, timestamp=NOON + timedelta(microseconds=moment))
        if waits.draw(st.booleans()):
            receipt.result()
    collector.flush()
    events = asyncio.run(events_of(store, name))
    assert_linked(events)
    assert [event.timestamp.microsecond for event in events] == sorted(moments)


@pytest.mark.req("TR-03")
async def test_overlapping_calls_are_ordered_by_their_beginning(collector: Collector, store: SqlEventStore) -> None:
    """A long call that began first stands first, though it is stored last; links follow as events arrive."""
    session = collector.observe("s")
    inner = await session.record("inner", {}, timestamp=NOON + timedelta(seconds=1), latency_ms=10)
    assert (await store.event(TENANT, inner)).predecessor is None
    outer = await session.record("outer", {}, timestamp=NOON, latency_ms=5_000)
    assert (await store.event(TENANT, inner)).predecessor == outer
    assert (await store.predecessor(TENANT, outer), await store.successor(TENANT, inner)) == (None, None)
    following = await store.successor(TENANT, outer)
    assert following is not None
    assert following.event_id == inner
    assert_linked(await events_of(store, "s"))


@pytest.mark.req("TR-03", "TR-05")
async def test_two_processes_share_one_session(
    request: pytest.FixtureRequest, database: Database, store: SqlEventStore
) -> None:
    """Events that two processes write to one session at once form one chain, and equal arguments hash equally."""
    name = "sqlite_url" if database.dialect == "sqlite" else "postgres_login"
    place = request.getfixturevalue(name)
    processes = [start_recorder(getattr(place, "url", place), "shared", 40) for _ in range(2)]
    for process in processes:
        await asyncio.to_thread(process.communicate)
    assert [process.returncode for process in processes] == [0, 0]
    events = await events_of(store, "shared")
    assert len(events) == 80
    assert len({event.input_params["pid"] for event in events}) == 2
    assert_linked(events)


@pytest.mark.req("TR-04")
async def test_impossible_latencies_and_times_are_refused(collector: Collector, store: SqlEventStore) -> None:
    """A negative latency and a time that is not UTC are refused by name rather than guessed, and nothing is stored."""
    latencies: list[Any] = [-1, 1.5, True, "3", None, 2**60]
    moments: list[Any] = [
        datetime(2026, 1, 1),  # noqa: DTZ001
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        2**62,
        1.5,
    ]
    session = collector.observe("s")
    for latency in latencies:
        with pytest.raises(InvalidInput, match="latency_ms") as caught:
            session.record("ping", {}, latency_ms=latency)
        assert caught.value.details["field"] == "latency_ms"
    for moment in moments:
        with pytest.raises(InvalidInput, match="timestamp"):
            session.record("ping", {}, timestamp=moment)
    assert await store.counts(TENANT) == (0, 0)


@pytest.mark.req("TR-04")
async def test_the_database_takes_no_negative_latency(
    database: Database, collector: Collector, store: SqlEventStore
) -> None:
    """A program that writes to the log beside the collector cannot store what the collector refuses."""
    await collector.observe("s").record("ping", {}, latency_ms=1)
    stated = {"event_id": f"'{uuid4()}'", "latency_ms": "latency_ms - 2"}
    copied = f"SELECT {', '.join(stated.get(name, name) for name in COLUMNS)} FROM muninn_event_log"
    with pytest.raises(TwinRavenError):
        await database.write(
            TENANT, lambda tx: tx.execute(f"INSERT INTO muninn_event_log ({', '.join(COLUMNS)}) {copied}")
        )
    assert await store.counts(TENANT) == (1, 1)


@pytest.mark.req("TR-04")
async def test_times_come_back_in_utc(collector: Collector, store: SqlEventStore) -> None:
    """A stored time carries UTC and keeps its microseconds."""
    moment = NOON + timedelta(microseconds=123_457)
    event = await store.event(TENANT, await collector.observe("s").record("ping", {}, timestamp=moment))
    assert (event.timestamp, event.timestamp.tzinfo) == (moment, UTC)


@pytest.mark.req("TR-05")
async def test_equal_arguments_have_equal_hashes(collector: Collector, store: SqlEventStore) -> None:
    """The hash is XXH64 of sorted, tight JSON with deterministic floats, whatever order the arguments came in."""
    session = collector.observe("s")
    await session.record("f", {"b": 1.0, "a": [1, "é", 1e-7]}, timestamp=NOON)
    await session.record("f", {"a": [1, "é", 0.0000001], "b": 1}, timestamp=NOON)
    await session.record("f", {"a": [1, "é", 1e-7], "b": 2}, timestamp=NOON)
    one, other, different = await events_of(store, "s")
    assert one.input_hash == other.input_hash == xxhash.xxh64_hexdigest('{"a":[1,"é",1e-7],"b":1}'.encode())
    assert different.input_hash != one.input_hash


@pytest.mark.req("TR-07")
async def test_a_session_is_what_its_events_say(collector: Collector, store: SqlEventStore, database: Database) -> None:
    """Count, beginning and end are derived; recording writes events and outputs and nothing for the session."""
    session = collector.observe("s")
    before = await _row_counts(database)
    for second in (3, 1, 2):
        await session.record("step", {"n": second}, output=second, timestamp=NOON + timedelta(seconds=second))
    found = await store.session(TENANT, "s")
    assert (found.event_count, len(found.events)) == (3, 3)
    assert (found.started_at, found.ended_at) == (NOON + timedelta(seconds=1), NOON + timedelta(seconds=3))
    assert [event.input_params["n"] for event in found.events] == [1, 2, 3]
    assert await _row_counts(database) == {**before, "muninn_event_log": 3, "blobs": 3}


async def _row_counts(database: Database) -> dict[str, int]:
    names = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        if database.dialect == "sqlite"
        else "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()"
    )

    def work(tx: Any) -> dict[str, int]:
        tables = [row["name"] for row in tx.fetch_all(names)]
        return {table: tx.fetch_one(f"SELECT count(*) AS n FROM {table}")["n"] for table in tables}

    return await database.read(TENANT, work)


@pytest.mark.req("TR-07")
async def test_sessions_are_listed_by_page(collector: Collector, store: SqlEventStore) -> None:
    """A page follows the one before it, and a filter by outcome looks at what the session came to."""
    for name, outcome in (("a", "success"), ("b", "failure"), ("c", "success"), ("d", "partial")):
        await collector.observe(name).record("ping", {}, outcome=outcome)
    assert [found.session_id for found in await store.sessions(TENANT, limit=2)] == ["a", "b"]
    assert [found.session_id for found in await store.sessions(TENANT, limit=2, after="b")] == ["c", "d"]
    succeeded = await store.sessions(TENANT, outcome=Outcome.SUCCESS, limit=5)
    assert [found.session_id for found in succeeded] == ["a", "c"]
    with pytest.raises(NotFound):
        await store.session(TENANT, "e")


@pytest.mark.req("TR-08")
async def test_an_outcome_is_never_read_out_of_an_output(collector: Collector, store: SqlEventStore) -> None:
    """An output that looks like an error leaves the outcome as stated, or as not known."""
    session = collector.observe("s")
    await session.record("f", {}, output={"error": "boom", "ok": False}, timestamp=NOON)
    await session.record("f", {}, output={"error": "boom"}, outcome=Outcome.SUCCESS, timestamp=NOON)
    await session.record("f", {}, output={"ok": True}, outcome="failure", timestamp=NOON)
    assert [event.outcome.value for event in await events_of(store, "s")] == ["partial", "success", "failure"]
    with pytest.raises(InvalidInput, match="outcome"):
        session.record("f", {}, outcome="great")


@pytest.mark.req("TR-08")
async def test_a_later_verdict_wins(collector: Collector, store: SqlEventStore) -> None:
    """A verdict stated after the calls decides the session's outcome, a later one decides again, the events stay."""
    await collector.observe("s").record("f", {}, outcome=Outcome.SUCCESS)
    await store.state_verdict(TENANT, "s", Outcome.FAILURE, stated_by="judge")
    assert (await store.session(TENANT, "s")).outcome is Outcome.FAILURE
    await store.state_verdict(TENANT, "s", Outcome.PARTIAL, stated_by="customer")
    session = await store.session(TENANT, "s")
    assert (session.outcome, session.events[0].outcome) == (Outcome.PARTIAL, Outcome.SUCCESS)
    assert [found.outcome for found in await store.sessions(TENANT)] == [Outcome.PARTIAL]
    with pytest.raises(NotFound):
        await store.state_verdict(TENANT, "nobody", Outcome.SUCCESS, stated_by="judge")


@pytest.mark.req("TR-09")
async def test_tags_are_extracted_from_the_record(collector: Collector, store: SqlEventStore) -> None:
    """A repetition after a failure, another way after a failure, and a cached answer each get their tag."""
    session = collector.observe("s")
    await session.record_failure("read", {"id": 1}, error="down", timestamp=NOON)
    await session.record("read", {"id": 1}, output=1, tags=["mine"], timestamp=NOON)
    await session.record("read", {"id": 1}, output=1, timestamp=NOON)
    await session.record_failure("read", {"id": 2}, error="down", timestamp=NOON)
    await session.record("read_mirror", {"id": 2}, output={"cached": True}, timestamp=NOON)
    await session.record_failure("read", {"id": 3}, error="down", timestamp=NOON)
    await session.record("look", {"id": 4}, timestamp=NOON)
    await session.record("read_mirror", {"id": 3}, timestamp=NOON)
    tags = [event.tags for event in await events_of(store, "s")]
    assert tags == [[], ["mine", "retry"], [], [], ["fallback-path", "cached-result"], [], [], []]
    assert [event.input_params for event in await store.events(TENANT, EventFilter(tag="retry"))] == [{"id": 1}]
    assert await store.events(TENANT, EventFilter(tag="ret%")) == []


@pytest.mark.req("TR-09")
async def test_tags_change_neither_identity_nor_order(collector: Collector, store: SqlEventStore) -> None:
    """Two calls that differ in their tags alone have the same hash and stand in the order of their times."""
    session = collector.observe("s")
    await session.record("f", {"a": 1}, tags=["zz", "two words", "👩‍🚀"], timestamp=NOON + timedelta(seconds=1))
    await session.record("f", {"a": 1}, tags=[], timestamp=NOON)
    plain, tagged = await events_of(store, "s")
    assert (plain.tags, tagged.tags) == ([], ["zz", "two words", "👩‍🚀"])
    assert plain.input_hash == tagged.input_hash


@pytest.mark.req("TR-10")
async def test_an_output_has_a_summary_and_is_kept_whole(collector: Collector, store: SqlEventStore) -> None:
    """The summary is short and the same for equal outputs; the whole output is found by its hash."""
    output = {"items": [{"name": "x" * 300, "n": number} for number in range(50)]}
    session = collector.observe("s")
    await session.record("f", {}, output=output, timestamp=NOON)
    await session.record("f", {}, output=dict(output), timestamp=NOON)
    await session.record("f", {}, timestamp=NOON)
    one, other, silent = await events_of(store, "s")
    assert one.output_summary == other.output_summary
    assert one.output_summary is not None
    assert len(one.output_summary) <= 280
    assert "48 more" in one.output_summary
    assert (silent.output_summary, silent.output_hash) == (None, None)
    assert one.output_hash == other.output_hash
    assert await store.outputs(TENANT, [str(one.output_hash)]) == {one.output_hash: output}


@pytest.mark.req("TR-01")
async def test_tenants_do_not_see_each_other(collector: Collector, store: SqlEventStore) -> None:
    """Events of two tenants queued into one batch are each stored under their own name and seen by nobody else."""
    receipts = [collector.observe("s", tenant_id=tenant).record("f", {"of": tenant}) for tenant in "abab"]
    ids = await asyncio.gather(*receipts)
    for tenant, event_id in zip("abab", ids, strict=True):
        assert (await store.event(tenant, event_id)).input_params == {"of": tenant}
    assert await store.counts("a") == (2, 1)
    with pytest.raises(NotFound):
        await store.event("b", ids[0])


async def test_uses_and_transitions_count_the_agents_own_calls(collector: Collector, store: SqlEventStore) -> None:
    """Tools are counted with their failures and known latencies; inner calls of a composite start no transition."""
    session = collector.observe("s")
    outer = await session.record("search", {}, latency_ms=10, timestamp=NOON)
    await session.record("inner", {}, parent_event_id=outer, timestamp=NOON + timedelta(seconds=1))
    await session.record_failure("read", {}, error="x", latency_ms=30, timestamp=NOON + timedelta(seconds=2))
    uses = {use.tool_id: use for use in await store.tool_uses(TENANT)}
    assert (uses["read"].calls, uses["read"].raised, uses["read"].mean_latency_ms) == (1, 1, 30.0)
    assert await store.transitions(TENANT) == [ToolTransition("search", "read", 1)]


async def test_calls_are_added_up_by_tool_and_hour(collector: Collector, store: SqlEventStore) -> None:
    """Each stretch of the log adds up its own calls, and stretches of any length make the same sums together."""
    session, hour = collector.observe("s"), int(NOON.timestamp()) // 3600
    outer = await session.record("search", {}, latency_ms=10, timestamp=NOON)
    await session.record("search", {}, latency_ms=5, timestamp=NOON + timedelta(minutes=59), parent_event_id=outer)
    await session.record_failure("read", {}, error="x", latency_ms=30, timestamp=NOON + timedelta(minutes=1))
    await session.record("search", {}, latency_ms=1, timestamp=NOON + timedelta(hours=1))
    through = await store.settled(TENANT)
    whole = {ToolHour("read", hour, 1, 1, 30, 0), ToolHour("search", hour, 2, 0, 15, 1)}
    found, up_to = await store.tool_hours(TENANT, after=0, through=through, limit=100)
    assert (set(found), up_to) == (whole | {ToolHour("search", hour + 1, 1, 0, 1, 1)}, through)
    first, middle = await store.tool_hours(TENANT, after=0, through=through, limit=3)
    assert set(first) == whole
    rest, end = await store.tool_hours(TENANT, after=middle, through=through, limit=3)
    assert (rest, end) == ([ToolHour("search", hour + 1, 1, 0, 1, 1)], through)
    assert await store.tool_hours("other", after=0, through=through, limit=3) == ([], through)


async def test_what_arrived_is_narrowed_by_tool_and_session(collector: Collector, store: SqlEventStore) -> None:
    """Of a stretch of the log the calls of one tool are given, or those of sessions whose id begins so."""
    for name in ("run:1", "Run:2", "run_3", "a run:4"):
        for tool in ("f", "g"):
            await collector.observe(name).record(tool, {}, timestamp=NOON)
    arrived = partial(store.arrived, TENANT, after=0, through=await store.settled(TENANT), limit=100)
    assert [each.session_id for each in await arrived(starts_with="run:")] == ["run:1"] * 2
    assert [each.tool_id for each in await arrived(tool_id="g")] == ["g"] * 4
    both = await arrived(tool_id="f", starts_with="run")
    assert [each.session_id for each in both] == ["run:1", "run_3"]


@pytest.mark.req("TR-06")
async def test_events_are_filtered_and_ordered(collector: Collector, store: SqlEventStore) -> None:
    """Filters restrict by tool and time; the newest come first where that is asked for."""
    session = collector.observe("s")
    for second, name in enumerate(("a", "b", "a", "b")):
        await session.record(name, {"n": second}, timestamp=NOON + timedelta(seconds=second))
    window = EventFilter(since=NOON + timedelta(seconds=1), until=NOON + timedelta(seconds=3), newest_first=True)
    assert [event.input_params["n"] for event in await store.events(TENANT, window)] == [2, 1]
    assert [event.input_params["n"] for event in await store.events(TENANT, EventFilter(tool_id="b"))] == [1, 3]
    with pytest.raises(TwinRavenError, match="limit"):
        await store.events(TENANT, EventFilter(limit=0))


async def test_a_scan_gives_every_event_with_its_links(collector: Collector, store: SqlEventStore) -> None:
    """A scan in small batches shows the same events and the same links as the look-ups do."""
    for name in ("a", "b"):
        session = collector.observe(name)
        for number in range(5):
            await session.record("f", {"n": number}, timestamp=NOON + timedelta(seconds=number))
    seen: list[MuninnEvent] = []
    await store.scan(TENANT, seen.extend, batch=3)
    assert seen == [*await events_of(store, "a"), *await events_of(store, "b")]
