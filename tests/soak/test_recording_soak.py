"""The long forms: death at every kind of system call, ten million events, and an import that does not grow."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

import pytest

from bench.bench_import import generated_lines
from tests.recording import assert_linked
from tests.workers import ROOT
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound
from twinraven.muninn import EventFilter, Importer, SqlEventStore, export_json
from twinraven.muninn.columns import COLUMNS
from twinraven.storage import Database, chunks
from twinraven.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.soak

TENANT = "default"
TEN_MILLION = 10_000_000
SESSION = 20
SYSTEM_CALLS = "pwrite64,fdatasync,fsync,ftruncate,unlink"
DEATHS = 60


async def test_death_at_any_system_call_loses_nothing_acknowledged(sqlite_database: Database) -> None:
    """A process that dies at the k-th write or sync, for many k, leaves a sound file with all it had promised."""
    assert shutil.which("strace"), "this test needs strace"
    assert isinstance(sqlite_database, SqliteDatabase)
    url = f"sqlite:///{sqlite_database.path}"
    chance = random.Random(7)
    acknowledged: set[str] = set()
    survivors = 0
    for number in range(DEATHS):
        place = chance.randrange(1, 400)
        has_died, said = await asyncio.to_thread(_die_at, url, f"death-{number % 5}", place)
        acknowledged |= said
        survivors += not has_died
    assert survivors < DEATHS / 2
    store = SqlEventStore(sqlite_database)
    stored: list[str] = []
    for summary in await store.sessions(TENANT, limit=100):
        events = (await store.session(TENANT, summary.session_id)).events
        assert_linked(events)
        stored += [f"{event.input_params['pid']} {event.input_params['number']}" for event in events]
    assert len(stored) == len(set(stored))
    assert acknowledged <= set(stored)
    assert len(acknowledged) > DEATHS
    rows = await sqlite_database.read(TENANT, lambda tx: tx.fetch_all("PRAGMA integrity_check"))
    assert rows == [{"integrity_check": "ok"}]


def _die_at(url: str, session: str, place: int) -> tuple[bool, set[str]]:
    """Whether the process was killed at that call, and what it had promised until then."""
    inject = f"inject={SYSTEM_CALLS}:signal=SIGKILL:when={place}"
    recorder = [sys.executable, "-m", "tests.recording", url, session, "400", "--acknowledge"]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={SYSTEM_CALLS}", "-e", inject, *recorder]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
    return done.returncode != 0, set(done.stdout.splitlines())


_FIXED: dict[str, Any] = {
    "tenant_id": TENANT,
    "input_hash": "0" * 16,
    "input_params": '{"order_id":"#W2378156"}',
    "output_summary": '{"status":"delivered"}',
    "latency_ms": 3,
    "outcome": "success",
    "tags": "[]",
    "raised": 0,
    "time_known": 1,
}
_NAMES = tuple(name for name in COLUMNS if name in (*_FIXED, "event_id", "session_id", "tool_id", "timestamp"))


def _row(number: int) -> tuple[Any, ...]:
    facts = {
        **_FIXED,
        "event_id": str(UUID(int=number)),
        "session_id": f"session-{number // SESSION:09d}",
        "tool_id": f"tool-{number % 5000}",
        "timestamp": number * 1_000_000,
    }
    return tuple(facts[name] for name in _NAMES)


def _fill(database: Database, count: int) -> None:
    connection = database.connect()
    for numbers in chunks(range(count), 50_000):
        with connection.transaction(TENANT, write=True) as tx:
            tx.insert_rows("muninn_event_log", _NAMES, [_row(number) for number in numbers])
    connection.close()


@pytest.mark.req("TR-06")
async def test_look_ups_do_not_slow_down_at_ten_million_events(sqlite_database: Database) -> None:
    """By session, tool, time and neighbour, a look-up among ten million events takes milliseconds."""
    await asyncio.to_thread(_fill, sqlite_database, TEN_MILLION)
    store = SqlEventStore(sqlite_database)
    chance = random.Random(1)

    def event() -> UUID:
        return UUID(int=chance.randrange(TEN_MILLION))

    def session() -> str:
        return f"session-{chance.randrange(TEN_MILLION // SESSION):09d}"

    def moment() -> EventFilter:
        begin = chance.randrange(TEN_MILLION) * 1_000_000
        return EventFilter(since=from_micros(begin), until=from_micros(begin + 60_000_000))

    look_ups: dict[str, Callable[[], Any]] = {
        "session": lambda: store.session(TENANT, session()),
        "event": lambda: store.event(TENANT, event()),
        "predecessor": lambda: store.predecessor(TENANT, event()),
        "successor": lambda: store.successor(TENANT, event()),
        "tool": lambda: store.events(TENANT, EventFilter(tool_id=f"tool-{chance.randrange(5000)}")),
        "time": lambda: store.events(TENANT, moment()),
        "page": lambda: store.sessions(TENANT, after=session()),
    }
    times = {name: await _median_time(look_up) for name, look_up in look_ups.items()}
    assert max(times.values()) < 0.05, times
    with pytest.raises(NotFound):
        await store.event(TENANT, UUID(int=TEN_MILLION + 1))


async def _median_time(look_up: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(50):
        begun = time.perf_counter()
        await look_up()
        times.append(time.perf_counter() - begun)
    return median(times)


async def test_an_import_does_not_grow_with_its_file(sqlite_database: Database) -> None:
    """A file fifty times as long needs hardly more memory."""
    part = generated_lines(2_000)
    await Importer(sqlite_database).import_calls(TENANT, part)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def lines() -> Iterator[bytes]:
        for number in range(50):
            replaced = f'"copy-{number}-'.encode()
            yield from (line.replace(b'"session-', replaced, 1) for line in part)

    report = await Importer(sqlite_database).import_calls(TENANT, lines())
    assert report.events == 50 * len(part)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 60_000, f"{grown} KiB more"


async def test_a_long_file_is_imported_once_and_exported_whole(sqlite_database: Database, tmp_path: Path) -> None:
    """A file of many sessions imported twice is there once, and exporting it gives as many lines."""
    lines = generated_lines(3_000)
    for events, duplicates in ((len(lines), 0), (0, len(lines))):
        report = await Importer(sqlite_database).import_calls(TENANT, lines)
        assert (report.events, report.duplicates, report.sessions) == (events, duplicates, 3_000)
    path = tmp_path / "export.jsonl"
    with path.open("wb") as out:
        assert await export_json(SqlEventStore(sqlite_database), TENANT, out) == len(lines)
    assert path.read_bytes().count(b"\n") == len(lines)
