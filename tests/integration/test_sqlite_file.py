"""The embedded file in a rough world: other programs, other processes, damage, and no room."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.other_user import as_somebody_else
from tests.records import add_blob, add_events, all_rows, blob_keys
from twinraven.foundation.errors import (
    InvalidSetting,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from twinraven.storage import Database, Transaction, open_database
from twinraven.storage.sqlite import SqliteDatabase, library, translate

pytestmark = pytest.mark.tenants("t")


async def test_stock_python_reads_the_file(sqlite_database: Database, tmp_path: Path) -> None:
    """Python's own SQLite, in another process, reads tables and views while we have the file open."""
    await sqlite_database.write("t", add_events("t", "e1", "e2"))
    program = (
        "import json, sqlite3, sys; db = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True); "
        "print(json.dumps(db.execute('SELECT event_id, predecessor, successor FROM muninn_events').fetchall())); "
        "assert db.execute('PRAGMA integrity_check').fetchone() == ('ok',)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "twinraven.db")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [["e1", None, "e2"], ["e2", "e1", None]]


async def test_a_lock_held_for_too_long_is_busy(sqlite_database: Database, tmp_path: Path) -> None:
    """A writer that waited its time says that it may be tried again, and can be."""
    impatient = SqliteDatabase(tmp_path / "twinraven.db", busy_timeout_s=0.05)
    holder = sqlite_database.connect()
    with holder.transaction("t", write=True), pytest.raises(StorageBusy) as refusal:
        await impatient.write("t", add_blob("t", "a"))
    assert refusal.value.retryable
    await impatient.write("t", add_blob("t", "a"))
    holder.close()
    impatient.close()


def test_a_new_file_waits_for_whoever_looks_at_it(tmp_path: Path) -> None:
    """Setting up a file that another process has just begun to read waits for it instead of failing."""
    path = tmp_path / "twinraven.db"
    reader = library.connect(str(path), isolation_level=None, check_same_thread=False)
    reader.execute("CREATE TABLE other (a)")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM other").fetchall()
    done = threading.Timer(0.1, reader.close)
    done.start()
    database = SqliteDatabase(path)
    assert database.migrate()
    database.close()
    done.join()


async def test_a_full_disk_is_a_clear_error_and_loses_nothing(sqlite_database: Database) -> None:
    """What does not fit is refused as a whole; what was there before stays, and room is used again."""
    await sqlite_database.write("t", add_blob("t", "before"))

    def overflow(tx: Transaction) -> None:
        (pages,) = tx.fetch_all("PRAGMA page_count")
        tx.execute(f"PRAGMA max_page_count = {pages['page_count'] + 2}")
        add_blob("t", "small")(tx)
        add_blob("t", "large", b"x" * 1_000_000)(tx)

    with pytest.raises(StorageFull):
        await sqlite_database.write("t", overflow)
    assert await sqlite_database.read("t", blob_keys("t")) == ["before"]
    await sqlite_database.write("t", lambda tx: tx.execute("PRAGMA max_page_count = 1000000"))
    await sqlite_database.write("t", add_blob("t", "after"))
    assert await sqlite_database.read("t", blob_keys("t")) == ["after", "before"]


def test_a_file_that_may_not_be_written_is_read_only(sqlite_database: Database, tmp_path: Path) -> None:
    """SQLite's refusal to write becomes the error that names the cause."""
    raw = library.connect(f"file:{tmp_path / 'twinraven.db'}?mode=ro", uri=True)
    with pytest.raises(library.Error) as refusal:
        raw.execute("DELETE FROM blobs")
    raw.close()
    assert isinstance(translate(refusal.value), StorageReadOnly)


def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path) -> None:
    """Opening something else by mistake says so and does not touch it."""
    path = tmp_path / "twinraven.db"
    path.write_text("Once upon a time there were two ravens. " * 50)
    before = path.read_bytes()
    database = SqliteDatabase(path)
    with pytest.raises(StorageCorrupt):
        database.migrate()
    database.close()
    assert path.read_bytes() == before


async def test_a_database_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    """Reading never creates a file behind the user's back."""
    path = tmp_path / "none.db"
    database = SqliteDatabase(path)
    with pytest.raises(StorageUnavailable, match="twinraven init"):
        await database.read("t", all_rows("blobs"))
    database.close()
    assert not path.exists()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    """A home below something that is not a folder is refused with the reason."""
    (tmp_path / "file").touch()
    database = SqliteDatabase(tmp_path / "file" / "twinraven.db")
    with pytest.raises(StorageReadOnly, match="cannot create"):
        database.migrate()
    database.close()


@pytest.mark.parametrize("url", ["mysql://root@db/x", "twinraven.db", "sqlite://relative.db", ""])
def test_an_address_of_no_store_is_an_invalid_setting(url: str) -> None:
    """An address that names no store says what one looks like."""
    with pytest.raises(InvalidSetting, match="sqlite:///") as refusal:
        open_database(url)
    assert refusal.value.details["field"] == "storage.url"


def test_a_password_in_a_wrong_address_is_not_repeated() -> None:
    """The error about an address shows its scheme and nothing that might be secret."""
    with pytest.raises(InvalidSetting) as refusal:
        open_database("mysql://root:hunter2@db/x")
    assert "hunter2" not in str(refusal.value)


def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path) -> None:
    """Whoever may not look into the folder is told which one it is and what to do."""
    folder = tmp_path / "closed"
    database = SqliteDatabase(folder / "twinraven.db")
    database.migrate()
    folder.chmod(0)
    try:
        with as_somebody_else():
            for attempt in (database.applied, database.connect):
                with pytest.raises(StorageError, match=r"cannot be reached: Permission denied") as refused:
                    attempt()
                assert str(folder) in refused.value.details["fix"]
    finally:
        folder.chmod(0o700)
        database.close()
