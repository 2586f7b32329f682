"""Recording meets full disks, locks, lost servers, forks and sudden ends: clear errors, and nothing promised lost."""

from __future__ import annotations

import ast
import asyncio
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from blockbuster import blockbuster_ctx

from tests.integration.recording_processes import CHILDREN, PER_CHILD, run_process
from tests.postgres import PostgresLogin, PostgresServer
from tests.recording import assert_linked
from twinraven.foundation.errors import StorageBusy, StorageError, StorageUnavailable, TwinRavenError
from twinraven.muninn import Collector, SqlEventStore, batch
from twinraven.storage import Database, open_database
from twinraven.storage.sqlite import SqliteDatabase

TENANT = "default"


@pytest.fixture
def url(request: pytest.FixtureRequest, database: Database) -> str:
    """The address of the test's database, for other processes."""
    if isinstance(database, SqliteDatabase):
        return f"sqlite:///{database.path}"
    login: PostgresLogin = request.getfixturevalue("postgres_login")
    return login.url


async def numbers_of(database: Database, session: str = "s") -> list[int]:
    events = (await SqlEventStore(database).session(TENANT, session)).events
    assert_linked(events)
    return [event.input_params["n"] for event in events]


@pytest.mark.parametrize(("name", "code"), [("exit_at_once", 0), ("exit_by_error", 3), ("exit_with_thread", 0)])
async def test_a_process_that_ends_writes_what_it_recorded(database: Database, url: str, name: str, code: int) -> None:
    """Events nobody waited for are there after the process fell off its end, was made to exit, or left a thread."""
    done = await asyncio.to_thread(run_process, name, url)
    assert (done.returncode, done.stderr) == (code, "")
    assert sorted(await numbers_of(database)) == list(range(200))


async def test_children_of_multiprocessing_write_what_they_recorded(database: Database, url: str) -> None:
    """Children that skip the usual end of a process still write what they queued, forked or spawned."""
    done = await asyncio.to_thread(run_process, "exit_children", url)
    assert (done.stdout, done.stderr) == ("[0, 0, 0]\n", "")
    expected = [number * 1000 + step for number in (1, 2, 3) for step in range(PER_CHILD)]
    assert sorted(await numbers_of(database)) == [0, *expected]


async def test_a_fork_in_the_middle_of_recording_loses_nothing(database: Database, url: str) -> None:
    """Parent and children record on with the same collector; each event is there once, whoever forked when."""
    done = await asyncio.to_thread(run_process, "fork_in_the_middle", url)
    assert done.stderr == ""
    recorded, codes = (ast.literal_eval(line) for line in done.stdout.splitlines())
    assert codes == [0] * CHILDREN
    numbers = Counter(await numbers_of(database))
    assert set(numbers.values()) == {1}
    children = [child * 1_000_000 + step for child in range(1, CHILDREN + 1) for step in range(PER_CHILD)]
    assert sorted(numbers) == [*range(recorded), *children]
    assert len(await numbers_of(database, "parent")) == CHILDREN


async def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    """When there is no room the caller is told, what was acknowledged stays, and with room recording goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    url = f"sqlite:///{disk / 'twinraven.db'}"
    if can_mount(tmp_path):
        mount = f'mount -t tmpfs -o size=4000k tmpfs {disk} && exec "$0" "$@"'
        prefix = ("unshare", "-rm", "sh", "-c", mount)
        done = await asyncio.to_thread(run_process, "run_out_of_room", url, prefix=prefix, small_disk=disk)
        codes: tuple[str, ...] = ("STORAGE_FULL",)
    else:
        done = await asyncio.to_thread(run_process, "run_out_of_room", url)
        codes = ("STORAGE_FULL", "STORAGE_FAILED")
    assert done.stderr == ""
    error, acknowledged, stored = done.stdout.splitlines()
    assert error.startswith(codes)
    there: list[int] = ast.literal_eval(stored)
    assert set(ast.literal_eval(acknowledged)) <= set(there)
    assert there[-1] == 1_000_000
    assert len(there) == len(set(there))


def can_mount(tmp_path: Path) -> bool:
    """Whether a small file system can be mounted here; where not, a limit on file sizes takes its place."""
    if shutil.which("unshare") is None:
        return False
    probe = tmp_path / "probe"
    probe.mkdir()
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(probe)]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


async def test_a_file_that_may_not_be_written_is_a_clear_error() -> None:
    """A read-only file is named as such, and once it may be written again the same collector writes."""
    # Not the test's own folder: that is closed to other users, and one of them is about to look into it.
    with tempfile.TemporaryDirectory(prefix="twinraven-read-only-") as folder:
        Path(folder).chmod(0o755)
        url = f"sqlite:///{folder}/twinraven.db"
        database = open_database(url)
        database.migrate()
        done = await asyncio.to_thread(run_process, "be_locked_out", url)
        assert done.stderr == ""
        assert done.stdout.startswith(("STORAGE_READ_ONLY", "STORAGE_UNAVAILABLE")), done.stdout
        assert await numbers_of(database) == [0, 2]
        database.close()


async def test_a_locked_database_is_a_clear_error(sqlite_database: Database) -> None:
    """Whoever waits for a lock in vain is told; meanwhile the loop runs, and afterwards recording goes on."""
    assert isinstance(sqlite_database, SqliteDatabase)
    impatient = SqliteDatabase(sqlite_database.path, busy_timeout_s=0.2)
    collector = Collector(impatient)
    holder = sqlite_database.connect()
    session = collector.observe("s")
    with blockbuster_ctx("twinraven"):
        await session.record("f", {"n": 0})
    with holder.transaction(TENANT, write=True):
        waiting = asyncio.gather(*(recorded(collector, number) for number in (1, 2)), return_exceptions=True)
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0)
            turns += 1
        answers = await waiting
    assert turns > 20, "the loop stood still"
    assert [type(answer) for answer in answers] == [StorageBusy] * 2
    await session.record("f", {"n": 3})
    collector.close()
    impatient.close()
    holder.close()
    assert await numbers_of(sqlite_database) == [0, 3]


async def recorded(collector: Collector, number: int) -> UUID:
    return await collector.observe("s").record("f", {"n": number})


async def test_a_database_that_is_gone_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without its file says so; nothing is created in its place."""
    monkeypatch.setattr(batch, "PAUSES_S", (0.02,))
    database = open_database(f"sqlite:///{tmp_path / 'gone.db'}")
    collector = Collector(database)
    with pytest.raises(StorageUnavailable, match=r"gone\.db"):
        await recorded(collector, 1)
    collector.close()
    database.close()
    assert list(tmp_path.iterdir()) == []


async def test_postgres_restarted_in_the_middle_loses_nothing(
    restartable_postgres: PostgresServer, full_scale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the server goes and comes back, an event is stored once if its caller was told so, else once at most."""
    monkeypatch.setattr(batch, "PAUSES_S", (0.02, 0.05))
    with restartable_postgres.fresh_database() as login:
        database = open_database(login.url)
        workers = Workers(Collector(database), tasks=16 if full_scale else 8)
        for crash in (False, True) * (20 if full_scale else 1):
            await asyncio.sleep(0.15)
            await asyncio.to_thread(restartable_postgres.stop, crash=crash)
            # Longer than the writer's patience, so that callers do learn of it.
            await asyncio.sleep(0.3)
            await asyncio.to_thread(restartable_postgres.start)
        before = len(workers.acknowledged)
        await asyncio.sleep(0.3)
        await workers.stop()
        assert len(workers.acknowledged) > before
        assert workers.errors
        assert all(isinstance(error, StorageError) for error in workers.errors)
        counts = Counter(await numbers_of(database))
        assert set(counts.values()) == {1}
        assert set(workers.acknowledged) <= set(counts)
        database.close()


class Workers:
    """Tasks that record one event after the other until they are stopped, and go on after errors."""

    def __init__(self, collector: Collector, *, tasks: int) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[TwinRavenError] = []
        self._collector = collector
        self._is_over = False
        self._tasks = [asyncio.create_task(self._work(range(task, 10**9, tasks))) for task in range(tasks)]

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        self._collector.close()

    async def _work(self, numbers: range) -> None:
        for number in numbers:
            if self._is_over:
                return
            try:
                await recorded(self._collector, number)
                self.acknowledged.append(number)
            except TwinRavenError as error:
                self.errors.append(error)


async def test_a_short_absence_of_postgres_goes_unnoticed(
    restartable_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart within the writer's patience costs nobody an event, not even those nobody waits for."""
    # A busy machine takes longer for a restart than the writer is patient with.
    monkeypatch.setattr(batch, "PAUSES_S", (*batch.PAUSES_S, *[1.0] * 60))
    with restartable_postgres.fresh_database() as login:
        database = open_database(login.url)
        collector = Collector(database)
        session = collector.observe("s")
        await session.record("f", {"n": 0})
        await asyncio.to_thread(restartable_postgres.stop)
        for number in range(1, 50):
            session.record("f", {"n": number})
        await asyncio.to_thread(restartable_postgres.start)
        await session.record("f", {"n": 50})
        await asyncio.to_thread(collector.flush)
        assert await numbers_of(database) == list(range(51))
        collector.close()
        database.close()
