"""Learning reads a log as columns first and in full only where it matters, on SQLite and on Postgres."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.huginn.billing_world import LOAD, LOOKUP, RATE, billing_scripts, lines_of
from twinraven.foundation.clock import utc_now
from twinraven.huginn import (
    CandidateChain,
    LogWindow,
    MiningConfig,
    MiningRun,
    SampleLimits,
    load_evidence,
    load_traces,
    read_traces,
)
from twinraven.huginn.mining_run import load_columns, mine_log
from twinraven.muninn import Collector, EventFilter, Importer, Outcome, SqlEventStore
from twinraven.storage import Database

TENANT = "default"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CONFIG = MiningConfig(min_support=0.02, collapse_repeats=True)


@pytest.fixture
def store(database: Database) -> SqlEventStore:
    return SqlEventStore(database)


async def imported(database: Database, sessions: int) -> bytes:
    lines = lines_of(billing_scripts(sessions, seed=8))
    await Importer(database).import_calls(TENANT, lines.splitlines())
    return lines


async def test_the_log_gives_the_traces_that_its_file_gives(database: Database, store: SqlEventStore) -> None:
    """Calls, outputs, turns, keys and sessions are those of the imported file."""
    lines = await imported(database, 40)
    from_file = read_traces(lines.splitlines()).sessions
    from_log = (await load_traces(store, TENANT, idle_gap_s=900)).sessions
    for read, loaded in zip(from_file, from_log, strict=True):
        assert (loaded.session_id, loaded.task_id, loaded.failed) == (read.session_id, read.task_id, read.failed)
        assert (loaded.turns_known, loaded.turns) == (read.turns_known, read.turns)
        assert [(c.tool_id, c.params, c.output, c.key, c.turn, c.raised) for c in loaded.calls] == [
            (c.tool_id, c.params, c.output, c.key, c.turn, c.raised) for c in read.calls
        ]


async def test_equal_arguments_and_outputs_are_one_object(database: Database, store: SqlEventStore) -> None:
    """What was stored once by content is held once in memory."""
    with closing(Collector(database)) as collector:
        for number in range(3):
            with collector.observe(f"s{number}") as session:
                await session.record("look", {"page": 1}, output={"rows": [1, 2]})
    first, second, third = (session.calls[0] for session in (await load_traces(store, TENANT, idle_gap_s=9)).sessions)
    assert first.params is second.params is third.params
    assert first.output is second.output is third.output
    assert first.key is second.key
    assert first.tool_id is third.tool_id


async def test_only_the_wanted_sessions_and_calls_are_read(database: Database, store: SqlEventStore) -> None:
    """A list of sessions and a longest session bound what is loaded, and the log says how many were cut."""
    await imported(database, 30)
    wanted = [f"s{number:05}" for number in (3, 17, 29)]
    log = await load_traces(store, TENANT, idle_gap_s=900, sessions=wanted, most_calls=2)
    assert [session.session_id for session in log.sessions] == wanted
    assert {len(session.calls) for session in log.sessions} == {2}
    assert log.cut_sessions == 3
    assert (await load_traces(store, TENANT, idle_gap_s=900, sessions=[])).sessions == []
    nothing = EventFilter(until=NOON - timedelta(days=20_000))
    assert (await load_traces(store, TENANT, idle_gap_s=900, where=nothing)).sessions == []


@pytest.mark.req("TR-08")
async def test_a_verdict_and_an_idle_gap_are_seen(database: Database, store: SqlEventStore) -> None:
    """A session's verdict wins over its events, and a long pause counts as something from outside."""
    with closing(Collector(database)) as collector, collector.observe("s") as session:
        await session.record("a", {}, output=1, timestamp=NOON, latency_ms=500)
        await session.record("b", {}, output=1, timestamp=NOON + timedelta(seconds=2), latency_ms=500)
        await session.record("c", {}, output=1, timestamp=NOON + timedelta(seconds=60), latency_ms=500)
    await store.state_verdict(TENANT, "s", Outcome.FAILURE, stated_by="me")
    (loaded,) = (await load_traces(store, TENANT, idle_gap_s=10)).sessions
    assert loaded.failed
    assert [call.outside_input for call in loaded.calls] == [None, None, ""]


async def test_evidence_is_a_sample_of_the_sessions_that_matter(database: Database, store: SqlEventStore) -> None:
    """Chains are counted over all sessions; those read in full call a candidate's first tool, the same in every run."""
    await imported(database, 120)
    with closing(Collector(database)) as collector:
        for number in range(10):
            with collector.observe(f"other-{number}") as session:
                await session.record("unrelated", {"n": number}, output=number)
    run = MiningRun(config=CONFIG, idle_gap_s=900)
    notes: list[str] = []
    limits = SampleLimits(sessions=50, calls=3)
    some = await load_evidence(store, TENANT, run, now=utc_now(), limits=limits, note=notes.append)
    again = await load_evidence(store, TENANT, run, now=utc_now(), limits=limits)
    whole = await load_evidence(store, TENANT, run, now=utc_now())
    assert (some.sessions, some.relevant, len(some.log.sessions)) == (130, 120, 50)
    assert some.scale == 120 / 50
    assert [s.session_id for s in some.log.sessions] == [s.session_id for s in again.log.sessions]
    assert [chain.tools for chain in some.chains] == [chain.tools for chain in whole.chains]
    assert len(whole.log.sessions) == 120
    assert whole.turns == sum(session.turns for session in whole.log.sessions) + 10
    assert any(note.startswith("read 50 of 120 sessions") for note in notes)
    assert any(note.startswith("read the first 3 calls of") for note in notes)
    stored = some.chains[0].mining_config["learning"]
    assert (stored["sample_sessions"], stored["most_calls"]) == (50, 3)
    assert (LOOKUP, LOAD) in [chain.tools[:2] for chain in some.chains]


async def test_a_window_bounds_what_is_mined(database: Database, store: SqlEventStore) -> None:
    """Times and the last so many sessions restrict the columns, and samples still lead to the right events."""
    with closing(Collector(database)) as collector:
        for number in range(20):
            at = NOON + timedelta(hours=number)
            with collector.observe(f"s{99 - number:02}") as session:
                await session.record("a" if number < 10 else "x", {"n": number}, output=1, timestamp=at)
                await session.record("b", {"n": number}, output=1, timestamp=at + timedelta(seconds=1))
    last = LogWindow(last_sessions=10)
    loaded = await load_columns(store, TENANT, idle_gap_s=900, window=last)
    assert loaded.columns.names == ("a", "b", "x")
    assert loaded.columns.sessions == 10
    run = MiningRun(config=MiningConfig(min_support=0.5), idle_gap_s=900, window=last)
    (chain,) = await mine_log(store, TENANT, run, now=utc_now())
    assert (chain.tools, chain.sessions) == (("x", "b"), 10)
    assert (await store.event(TENANT, chain.sample_event_ids[0])).tool_id == "x"
    early = MiningRun(config=run.config, idle_gap_s=900, window=LogWindow(until=NOON + timedelta(hours=10)))
    assert [found.tools for found in await mine_log(store, TENANT, early, now=utc_now())] == [("a", "b")]


@pytest.mark.req("TR-12")
@pytest.mark.parametrize("window", [LogWindow(), LogWindow(last_sessions=60), LogWindow(tag="bill")])
async def test_a_stored_snapshot_repeats_its_run_after_the_log_has_grown(
    database: Database, store: SqlEventStore, window: LogWindow
) -> None:
    """The same chains in the same order with the same figures, although more was recorded since."""
    with closing(Collector(database)) as collector:
        for script in billing_scripts(90, seed=4):
            with collector.observe(script.session_id) as session:
                for line in script.lines:
                    tags = ("bill",) if line["tool"] != RATE else ()
                    await session.record(line["tool"], line["params"], output=line["output"], tags=tags)
    run = MiningRun(config=CONFIG, idle_gap_s=900, window=window, most=7)
    first = await mine_log(store, TENANT, run, now=utc_now())
    with closing(Collector(database)) as collector:
        for number in range(80):
            with collector.observe(f"later-{number}") as session:
                await session.record("noise", {"n": number}, output=1)
                await session.record("din", {"n": number}, output=1, tags=("bill",))
    again = MiningRun.from_dict(first[0].mining_config, idle_gap_s=1)
    second = await mine_log(store, TENANT, again, now=utc_now())

    def figures(chain: CandidateChain) -> dict[str, Any]:
        body = chain.as_json()
        return {name: body[name] for name in body if name not in ("chain_id", "discovered_at")}

    assert [figures(chain) for chain in second] == [figures(chain) for chain in first]
