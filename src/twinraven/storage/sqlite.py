"""Implements the database port on one SQLite file, in WAL mode with full synchronisation.

This module is the only one that imports a SQLite library. Two of them in one process on one file lose data silently
(each drops the other's POSIX locks), so the choice is made here, once: Python's own, or pysqlite3's where Python's is
older than 3.42.

Writers take `BEGIN IMMEDIATE`, so a transaction never fails half-way for a lock it did not have at the start. An
authorizer on every connection of ours refuses what the append-only triggers refuse, also for statements that would
never fire a trigger (DROP, PRAGMA writable_schema, ATTACH).
"""

from __future__ import annotations

import json
import sqlite3 as python_sqlite
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    InvalidInput,
    SchemaOutdated,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    TwinRavenError,
)
from twinraven.storage.database import Dialect, Row, Work
from twinraven.storage.forks import forget_after_fork, put_away_before_fork
from twinraven.storage.grouped import GroupCommit
from twinraven.storage.guards import APPEND_ONLY_TABLES, FENCE_MESSAGE, GUARD_MESSAGE
from twinraven.storage.idle import IdleConnections
from twinraven.storage.threads import hop

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
# Without secure_delete, what was deleted stays readable in the file's free space.
_PRAGMAS = ("synchronous = FULL", "foreign_keys = ON", "cell_size_check = ON", "secure_delete = ON")
# 16 MB a connection, taken as they are needed: ids are random, so an import changes pages all over the indexes, which
# would be written out and read again within one transaction.
_CACHE = "cache_size = -16000"
_READERS = 4
_MOST_ROWS = 64
_MOST_VALUES = 999  # in one statement, before SQLite 3.32
_FORK_PATIENCE_S = 10.0


def _choose_library() -> Any:
    if python_sqlite.sqlite_version_info >= (3, 42):
        return python_sqlite
    try:
        import pysqlite3  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return python_sqlite
    return pysqlite3


def _nothing(value: None) -> None:
    return value


library: Any = _choose_library()
"""The one SQLite library of this process."""

# It looks for methods by which any value that is no number or text adapts itself, and raises and drops two exceptions
# where there are none; an adapter is found before that.
library.register_adapter(bytes, bytes)
library.register_adapter(type(None), _nothing)


class SqliteTransaction:
    """One transaction on one connection."""

    dialect: Dialect = "sqlite"

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._has_parts = False

    def execute(self, sql: str, **params: Any) -> int:
        return self._raw.execute(sql, params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._raw.executemany(sql, rows)

    def fetch_all(self, sql: str, **params: Any) -> list[Row]:
        cursor = self._raw.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def fetch_one(self, sql: str, **params: Any) -> Row | None:
        cursor = self._raw.execute(sql, params)
        row = cursor.fetchone()
        if row is None:
            return None
        return dict(zip((column[0] for column in cursor.description), row, strict=True))

    def stream(self, sql: str, *, batch: int = 5000, **params: Any) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self._raw.execute(sql, params)
        while rows := cursor.fetchmany(batch):
            yield rows

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        _insert_all(self._raw, table, columns, rows)

    def insert_missing(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        _insert_all(self._raw, table, columns, rows, then=" ON CONFLICT DO NOTHING")

    def insert_appending(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        *key, last = columns
        # Two blobs put together are a text to SQLite, byte by byte the same.
        joined = f"{last} = CAST({table}.{last} || excluded.{last} AS BLOB)"
        _insert_all(self._raw, table, columns, rows, then=f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {joined}")

    def present(self, table: str, column: str, values: Sequence[str], *, tenant_id: str) -> set[str]:
        sql = (
            f"SELECT DISTINCT t.{column} FROM json_each(?) v "
            f"CROSS JOIN {table} t ON t.tenant_id = ? AND t.{column} = v.value"
        )
        return {row[0] for row in self._raw.execute(sql, (json.dumps(list(values)), tenant_id))}

    def act_for(self, tenant_id: str) -> None:
        """Every query names its tenant; an embedded file has no further fence."""

    def begin_part(self, tenant_id: str) -> None:
        del tenant_id
        if self._has_parts:
            self._raw.execute("RELEASE SAVEPOINT part")
        self._raw.execute("SAVEPOINT part")
        self._has_parts = True

    def undo_part(self) -> None:
        self._raw.execute("ROLLBACK TO SAVEPOINT part")


def _insert_all(raw: Any, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, then: str = "") -> None:
    """Insert many rows with few statements: at each, the interpreter's lock is given up and must be waited for.

    They come in powers of two, so that a handful of prepared statements serves every number of rows.
    """
    begun = 0
    most = min(_MOST_ROWS, _MOST_VALUES // len(columns))
    while left := min(most, len(rows) - begun):
        size = 1 << left.bit_length() - 1
        sql = _insert(table, tuple(columns), size) + then
        values: list[Any] = []
        for row in rows[begun : begun + size]:
            values += row
        raw.execute(sql, values)
        begun += size


@lru_cache(256)
def _insert(table: str, columns: tuple[str, ...], rows: int) -> str:
    marks = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([marks] * rows)}"


class SqliteConnection:
    """A connection that one thread uses at a time, closed for the moment of a fork and opened again on its next use.

    A fork also waits while the file is being opened: SQLite holds locks of the whole process meanwhile, and a child
    that inherits one of them waits for ever when it opens a file itself.
    """

    def __init__(self, open_file: Callable[[], Any]) -> None:
        self._open_file = open_file
        self._is_read_only = False
        self._busy = threading.RLock()
        self._is_held = False
        self._raw: Any = None
        put_away_before_fork(self)
        with self._busy:
            self._raw = open_file()

    @contextmanager
    def transaction(self, tenant_id: str, *, write: bool) -> Generator[SqliteTransaction]:
        del tenant_id
        with self._busy:
            raw = self._usable(write=write)
            try:
                raw.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield SqliteTransaction(raw)
                _finish(raw, write=write)
            except library.Error as error:
                raise translate(error) from error
            except (OverflowError, UnicodeEncodeError) as error:
                raise InvalidInput(f"SQLite cannot hold a value: {error}") from error
            finally:
                _roll_back(raw)

    def close(self) -> None:
        with self._busy:
            if self._raw is not None:
                self._raw.close()
                self._raw = None

    def before_fork(self) -> None:
        """Wait for the transaction under way, unless the forking thread is itself inside it."""
        self._is_held = self._busy.acquire(timeout=_FORK_PATIENCE_S)
        if self._is_held and self._raw is not None and not self._raw.in_transaction:
            self.close()

    def after_fork_in_parent(self) -> None:
        if self._is_held:
            self._is_held = False
            self._busy.release()

    def after_fork(self) -> None:
        self._busy = threading.RLock()

    def _usable(self, *, write: bool) -> Any:
        if self._raw is None:
            self._raw = self._open_file()
            self._is_read_only = False
        if write is self._is_read_only:
            self._raw.execute(f"PRAGMA query_only = {int(not write)}")
            self._is_read_only = not write
        return self._raw


def _finish(raw: Any, *, write: bool) -> None:
    try:
        raw.execute("COMMIT" if write else "ROLLBACK")
    except library.Error as error:
        if not _name_of(error).startswith("SQLITE_IOERR"):
            raise
        _roll_back(raw)
        raise StorageError(
            f"SQLite: {error} during COMMIT; it may or may not be stored, look before trying again", commit="unknown"
        ) from error


def _roll_back(raw: Any) -> None:
    """Undo what was not finished."""
    if raw.in_transaction:
        # The original error is on its way to the caller; after a full disk SQLite has rolled back by itself.
        with suppress(library.Error):
            raw.execute("ROLLBACK")


class SqliteDatabase:
    """The embedded store behind the async port."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._start_threads()
        forget_after_fork(self)

    def _start_threads(self) -> None:
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="twinraven-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="twinraven-write")
        self._group = GroupCommit(self._writer, self._write_here)
        self._idle = IdleConnections(self.connect)
        # Of its own: what a connection has read stays valid until another one writes.
        self._writing: SqliteConnection | None = None

    def after_fork(self) -> None:
        """A child has neither the threads nor a right to the connections: it begins with its own."""
        self._start_threads()

    async def read(self, tenant_id: str, work: Work[T]) -> T:
        return await hop(self._readers, lambda: self.read_here(tenant_id, work))

    def read_here(self, tenant_id: str, work: Work[T]) -> T:
        connection = self._idle.take()
        try:
            with connection.transaction(tenant_id, write=False) as tx:
                return work(tx)
        finally:
            self._idle.give(connection)

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        return await self._group.write(tenant_id, work)

    def connect(self) -> SqliteConnection:
        return SqliteConnection(self._open)

    def migrate(self) -> list[str]:
        from twinraven.storage.migrations import upgrade

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageReadOnly(f"cannot create {self.path.parent}: {error.strerror}") from error
        connection = SqliteConnection(lambda: self._open(guarded=False, create=True))
        try:
            with connection.transaction("", write=True) as tx:
                return upgrade(tx)
        finally:
            connection.close()

    def applied(self) -> dict[int, str]:
        from twinraven.storage.migrations import applied_migrations

        return self.read_here("", applied_migrations) if self._is_there() else {}

    def maintenance(self) -> SqliteConnection:
        """Return a connection without the authorizer, for audited pruning alone; the triggers still stand."""
        return SqliteConnection(lambda: self._open(guarded=False))

    def close(self) -> None:
        self._readers.shutdown()
        self._writer.shutdown()
        self._idle.close()
        if self._writing is not None:
            self._writing.close()

    def _write_here(self, tenant_id: str, work: Work[T]) -> T:
        if self._writing is None:
            self._writing = self.connect()
        with self._writing.transaction(tenant_id, write=True) as tx:
            return work(tx)

    def _is_there(self) -> bool:
        try:
            return self.path.exists()
        except OSError as error:
            raise StorageError(
                f"the database at {self.path} cannot be reached: {error.strerror}",
                path=str(self.path),
                fix=f"let the user who runs twinraven enter {self.path.parent}, or name another place in storage.url",
            ) from error

    def _open(self, *, guarded: bool = True, create: bool = False) -> Any:
        if not create and not self._is_there():
            raise StorageUnavailable(f"no database at {self.path}; run `twinraven init`", path=str(self.path))
        try:
            raw = library.connect(
                str(self.path), timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
            )
        except library.Error as error:
            raise translate(error) from error
        try:
            _enter_wal_mode(raw, self._busy_timeout_s)
            for pragma in (*_PRAGMAS, _CACHE):
                raw.execute(f"PRAGMA {pragma}")
        except library.Error as error:
            raw.close()
            raise translate(error) from error
        if guarded:
            raw.set_authorizer(_authorizer())
        return raw


def _enter_wal_mode(raw: Any, patience_s: float) -> None:
    """SQLite does not wait for the lock that this one change needs, so processes that start together must."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            return
        except library.Error as error:
            if not _name_of(error).startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _authorizer() -> Callable[..., int]:
    """Deny on our own connections what no application logic may do to any table or to the file."""
    denied = {
        library.SQLITE_DROP_TABLE,
        library.SQLITE_DROP_TRIGGER,
        library.SQLITE_DROP_VIEW,
        library.SQLITE_DROP_INDEX,
        library.SQLITE_ALTER_TABLE,
        library.SQLITE_CREATE_TRIGGER,
        library.SQLITE_ATTACH,
        library.SQLITE_DETACH,
    }
    pragmas = {
        "writable_schema",
        "journal_mode",
        "synchronous",
        "recursive_triggers",
        "ignore_check_constraints",
        "secure_delete",
    }

    def decide(action: int, first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
        if action in denied:
            return library.SQLITE_DENY
        if action == library.SQLITE_PRAGMA and str(first).lower() in pragmas and second is not None:
            return library.SQLITE_DENY
        if action in (library.SQLITE_UPDATE, library.SQLITE_DELETE) and first in APPEND_ONLY_TABLES:
            return library.SQLITE_DENY
        return library.SQLITE_OK

    return decide


_BY_CODE: dict[str, type[StorageError]] = {
    "SQLITE_BUSY": StorageBusy,
    "SQLITE_LOCKED": StorageBusy,
    "SQLITE_FULL": StorageFull,
    "SQLITE_READONLY": StorageReadOnly,
    "SQLITE_PERM": StorageReadOnly,
    "SQLITE_CORRUPT": StorageCorrupt,
    "SQLITE_NOTADB": StorageCorrupt,
    "SQLITE_CANTOPEN": StorageUnavailable,
    "SQLITE_AUTH": AppendOnly,
}


def translate(error: Exception) -> TwinRavenError:
    """Return a driver error as one of ours: the only place that knows SQLite's codes."""
    message = str(error)
    name = _name_of(error)
    if GUARD_MESSAGE in message or name == "SQLITE_AUTH" or "not authorized" in message:
        return AppendOnly(f"refused: {message}")
    if FENCE_MESSAGE in message:
        return InvalidInput(message, field=message.partition(":")[0])
    if name.startswith("SQLITE_CONSTRAINT"):
        return Conflict(f"the database refused it: {message}", constraint=message)
    for prefix, kind in _BY_CODE.items():
        if name.startswith(prefix):
            return kind(f"SQLite: {message}")
    if message.startswith(("no such table", "no such column", "no such view")):
        return SchemaOutdated(f"SQLite: {message}; run `twinraven db upgrade`")
    return StorageError(f"SQLite: {message}")


def _name_of(error: Exception) -> str:
    return getattr(error, "sqlite_errorname", "") or ""
