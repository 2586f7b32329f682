"""kill -9 at random moments while several processes record: what was acknowledged is there, once, in whole sessions."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter

import pytest

from tests.postgres import PostgresLogin
from tests.recording import assert_linked, start_recorder
from tests.workers import ForkedProcess
from twinraven.muninn import Collector, SqlEventStore
from twinraven.storage import Database
from twinraven.storage.sqlite import SqliteDatabase

TENANT = "default"
SEED = 20_261_115


@pytest.mark.req("TR-03")
async def test_kill_minus_nine_loses_nothing_acknowledged(
    request: pytest.FixtureRequest, database: Database, full_scale: bool
) -> None:
    """Every event whose caller was told so is stored exactly once, links are valid, and the log takes more."""
    if isinstance(database, SqliteDatabase):
        url = f"sqlite:///{database.path}"
    else:
        login: PostgresLogin = request.getfixturevalue("postgres_login")
        url = login.url
    chance = random.Random(SEED)
    processes, rounds = (8, 25) if full_scale else (4, 2)
    acknowledged: set[str] = set()
    for number in range(rounds):
        acknowledged |= await asyncio.to_thread(_record_and_kill, url, number, processes, chance)
    assert len(acknowledged) > rounds * processes
    await _assert_whole(database, acknowledged, sessions=2 * rounds)
    collector = Collector(database)
    await collector.observe("afterwards").record("f", {})
    collector.close()


def _record_and_kill(url: str, round_number: int, count: int, chance: random.Random) -> set[str]:
    """What the processes said they had stored before they were killed, one after the other, at random moments."""
    sessions = [f"round-{round_number}-{number % 2}" for number in range(count)]
    recorders = [start_recorder(url, session, 1_000_000, "--acknowledge") for session in sessions]
    first = [_first_line(recorder) for recorder in recorders]
    for recorder in chance.sample(recorders, count):
        time.sleep(chance.uniform(0, 0.08))
        recorder.kill()
    said = [recorder.communicate()[0].splitlines() for recorder in recorders]
    assert {recorder.returncode for recorder in recorders} == {-signal.SIGKILL}
    return {*first, *(line for lines in said for line in lines)}


def _first_line(recorder: ForkedProcess) -> str:
    line = recorder.stdout.readline().strip()
    assert line, "the recorder ended before it recorded anything"
    return line


async def _assert_whole(database: Database, acknowledged: set[str], *, sessions: int) -> None:
    store = SqlEventStore(database)
    found = await store.sessions(TENANT, limit=1000)
    assert len(found) == sessions
    stored: Counter[str] = Counter()
    for summary in found:
        session = await store.session(TENANT, summary.session_id)
        assert session.event_count == len(session.events)
        assert_linked(session.events)
        stored.update(f"{event.input_params['pid']} {event.input_params['number']}" for event in session.events)
        hashes = {str(event.output_hash) for event in session.events}
        assert set(await store.outputs(TENANT, sorted(hashes))) == hashes
    assert set(stored.values()) == {1}
    assert acknowledged <= set(stored)
    if isinstance(database, SqliteDatabase):
        rows = await database.read(TENANT, lambda tx: tx.fetch_all("PRAGMA integrity_check"))
        assert rows == [{"integrity_check": "ok"}]
