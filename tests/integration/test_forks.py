"""A process may fork while it uses a database, and neither side loses anything."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.records import add_blob, blob_keys
from twinraven.storage import Database, Transaction
from twinraven.storage.sqlite import SqliteConnection, library

pytestmark = [
    pytest.mark.tenants("t"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked child and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_reads_and_writes(database: Database) -> None:
    """Parent and child go on with the same object, each on connections of its own."""
    asyncio.run(database.write("t", add_blob("t", "before")))
    asyncio.run(database.read("t", blob_keys("t")))

    def work() -> None:
        asyncio.run(database.write("t", add_blob("t", "child")))
        assert asyncio.run(database.read("t", blob_keys("t"))) == ["before", "child"]

    assert in_child(work) == 0
    asyncio.run(database.write("t", add_blob("t", "parent")))
    assert asyncio.run(database.read("t", blob_keys("t"))) == ["before", "child", "parent"]


def test_a_connection_of_ones_own_survives_a_fork(database: Database) -> None:
    """The connection a thread keeps works before and after, in the parent."""
    connection = database.connect()
    with connection.transaction("t", write=True) as tx:
        add_blob("t", "before")(tx)
    assert in_child(lambda: None) == 0
    with connection.transaction("t", write=True) as tx:
        add_blob("t", "after")(tx)
    connection.close()
    assert asyncio.run(database.read("t", blob_keys("t"))) == ["after", "before"]


def test_a_fork_waits_for_a_file_that_is_being_opened(tmp_path: Path) -> None:
    """A child that inherits the locks which SQLite holds while it opens a file could never open one itself."""
    is_opening, may_open, opened = threading.Event(), threading.Event(), list[Path]()

    def open_slowly() -> object:
        is_opening.set()
        may_open.wait(30)
        opened.append(tmp_path / "twinraven.db")
        return library.connect(str(opened[-1]), check_same_thread=False)

    thread = threading.Thread(target=lambda: SqliteConnection(open_slowly).close())
    thread.start()
    assert is_opening.wait(30)
    threading.Timer(0.2, may_open.set).start()

    def see_it_open() -> None:
        assert opened

    assert in_child(see_it_open) == 0
    thread.join()


def test_an_error_before_a_fork_leaves_nobody_waiting(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reports what a hook raises and forks all the same; databases can be opened and used afterwards."""
    reported: list[str] = []

    def report(told: sys.UnraisableHookArgs) -> None:
        reported.append(str(told.exc_value))

    monkeypatch.setattr(sys, "unraisablehook", report)
    connections = [sqlite_database.connect() for _ in range(3)]
    assert in_child(lambda: None) == 0
    monkeypatch.setattr(connections[1], "before_fork", _fail)
    assert in_child(lambda: None) == 0
    assert set(reported) == {"broken"}
    counts: list[int] = []

    def use() -> None:
        for connection in (*connections, sqlite_database.connect()):
            with connection.transaction("t", write=False) as tx:
                counts.append(len(blob_keys("t")(tx)))
            connection.close()

    # On a thread of its own, so that a wait without end is a failure.
    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(60)
    assert counts == [0, 0, 0, 0]


def _fail() -> None:
    raise OSError("broken")


def test_a_child_inherits_no_open_file(sqlite_database: Database, tmp_path: Path) -> None:
    """An inherited SQLite handle would carry locks that the child does not have."""
    connection = sqlite_database.connect()
    with connection.transaction("t", write=True) as tx:
        add_blob("t", "a")(tx)
    asyncio.run(sqlite_database.read("t", blob_keys("t")))
    files = {(path.stat().st_dev, path.stat().st_ino) for path in tmp_path.iterdir()}

    def is_one_of_them(descriptor: int) -> bool:
        with suppress(OSError):
            status = os.fstat(descriptor)
            return (status.st_dev, status.st_ino) in files
        return False

    def work() -> None:
        assert not any(is_one_of_them(descriptor) for descriptor in range(1024))

    assert any(is_one_of_them(descriptor) for descriptor in range(1024))
    assert in_child(work) == 0
    connection.close()


def test_a_fork_waits_for_the_transaction_under_way(sqlite_database: Database) -> None:
    """What a thread was writing when another forked is committed once, by the parent."""
    begun, forked = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> bool:
        add_blob("t", "slow")(tx)
        begun.set()
        # True would mean that the fork went ahead in the middle of this.
        return forked.wait(0.3)

    overtaken: list[bool] = []
    writer = threading.Thread(target=lambda: overtaken.append(asyncio.run(sqlite_database.write("t", slow))))
    writer.start()
    assert begun.wait(10)
    assert in_child(lambda: asyncio.run(sqlite_database.write("t", add_blob("t", "child")))) == 0
    forked.set()
    writer.join()
    assert overtaken == [False]
    assert asyncio.run(sqlite_database.read("t", blob_keys("t"))) == ["child", "slow"]


_DAEMON = """
import asyncio, os, signal, sys
from tests.neighbours import settle_tenants
from tests.records import add_blob
from twinraven.storage import open_database

database = open_database(sys.argv[1])
database.migrate()
settle_tenants(database, "t")
asyncio.run(database.write("t", add_blob("t", "parent")))
parent_lives, parent_ends = os.pipe()
if os.fork():
    database.close()
    sys.exit()
os.close(parent_ends)
asyncio.run(database.write("t", add_blob("t", "child, early")))
os.read(parent_lives, 1)
asyncio.run(database.write("t", add_blob("t", "child, late")))
print("acknowledged", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_outlives_its_parent_keeps_what_it_acknowledged(
    sqlite_url: str, request: pytest.FixtureRequest
) -> None:
    """A daemon's parent, leaving, must not take the log of its child with it."""
    root = str(request.config.rootpath)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((root, f"{root}/src")), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", _DAEMON, sqlite_url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "acknowledged\n", done.stderr
    program = "import sqlite3, sys; print([*sqlite3.connect(sys.argv[1]).execute('SELECT hash FROM blobs ORDER BY 1')])"
    reader = [sys.executable, "-c", program, sqlite_url.removeprefix("sqlite:///")]
    seen = subprocess.run(reader, capture_output=True, text=True, timeout=60, check=True).stdout
    assert seen == "[('child, early',), ('child, late',), ('parent',)]\n"
