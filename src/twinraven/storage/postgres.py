"""The cluster store: Postgres through psycopg, one connection per thread.

Every transaction first states its tenant, and row-level security does the rest: a query that forgets its filter sees
nothing of anybody else. The application's role may not be superuser, owner or BYPASSRLS, since each of these would
make that fence decoration; migrations run under `admin_url`.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg import errors

from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    InvalidSetting,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    TwinRavenError,
)
from twinraven.storage.database import Dialect, Row, Work
from twinraven.storage.forks import forget_after_fork
from twinraven.storage.guards import GUARD_MESSAGE, TENANT_SETTING
from twinraven.storage.threads import hop

T = TypeVar("T")

_THREADS = 8
_ATTEMPTS = 5
_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)\b")


@lru_cache(maxsize=1024)
def _translated(sql: str) -> LiteralString:
    """Our `:name` and `?` as psycopg's placeholders."""
    text = _NAMED.sub(r"%(\1)s", sql.replace("%", "%%")).replace("?", "%s")
    return cast("LiteralString", text)


class PostgresTransaction:
    """One transaction on one connection."""

    dialect: Dialect = "postgres"

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw

    def execute(self, sql: str, **params: Any) -> int:
        return self._run(sql, params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._raw.cursor() as cursor:
            cursor.executemany(_translated(sql), rows)

    def fetch_all(self, sql: str, **params: Any) -> list[Row]:
        cursor = self._run(sql, params)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def fetch_one(self, sql: str, **params: Any) -> Row | None:
        cursor = self._run(sql, params)
        row = cursor.fetchone()
        if row is None:
            return None
        return dict(zip((column.name for column in cursor.description or ()), row, strict=True))

    def stream(self, sql: str, *, batch: int = 5000, **params: Any) -> Iterator[list[tuple[Any, ...]]]:
        with self._raw.cursor(name="twinraven_stream") as cursor:
            cursor.execute(_translated(sql), params)
            while rows := cursor.fetchmany(batch):
                yield rows

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._insert(table, columns, rows, "")

    def insert_missing(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._insert(table, columns, rows, " ON CONFLICT DO NOTHING")

    def present(self, table: str, column: str, values: Sequence[str], *, tenant_id: str) -> set[str]:
        sql = f"SELECT DISTINCT {column} FROM {table} WHERE tenant_id = %s AND {column} = ANY(%s)"
        return {row[0] for row in self._raw.execute(cast("LiteralString", sql), (tenant_id, list(values)))}

    def act_for(self, tenant_id: str) -> None:
        self._raw.execute(f"SELECT set_config('{TENANT_SETTING}', %s, true)", (tenant_id,))

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], tail: str) -> None:
        """One statement for all rows: COPY is refused under row-level security, and a row a statement is slow."""
        if not rows:
            return
        arrays = [list(column) for column in zip(*rows, strict=True)]
        marks = ", ".join(f"%s::{_array_type(values)}" for values in arrays)
        names = ", ".join(columns)
        statement = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({marks}){tail}"
        self._raw.execute(cast("LiteralString", statement), arrays)

    def _run(self, sql: str, params: dict[str, Any]) -> psycopg.Cursor[Any]:
        if not params:
            return self._raw.execute(cast("LiteralString", sql))
        return self._raw.execute(_translated(sql), params)


def _array_type(values: list[Any]) -> str:
    for value in values:
        if value is None:
            continue
        if isinstance(value, int):
            return "bigint[]"
        if isinstance(value, bytes):
            return "bytea[]"
        if isinstance(value, float):
            return "float8[]"
        return "text[]"
    return "text[]"


class PostgresConnection:
    """A connection owned by one thread, made again when it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._raw: psycopg.Connection[Any] | None = None

    @contextmanager
    def transaction(self, tenant_id: str, *, write: bool) -> Iterator[PostgresTransaction]:
        try:
            raw = self._usable()
            with raw.transaction():
                if not write:
                    raw.execute("SET TRANSACTION READ ONLY")
                tx = PostgresTransaction(raw)
                tx.act_for(tenant_id)
                yield tx
        except psycopg.Error as error:
            if self._raw is not None and self._raw.broken:
                self.close()
            raise translate(error) from error

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _usable(self) -> psycopg.Connection[Any]:
        if self._raw is None or self._raw.closed:
            self._raw = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        return self._raw


class PostgresDatabase:
    """The cluster store behind the async port."""

    dialect: Dialect = "postgres"

    def __init__(self, url: str, *, admin_url: str | None = None) -> None:
        self._url = url
        self._admin_url = admin_url or url
        self._start_threads()
        forget_after_fork(self)

    def _start_threads(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="twinraven-postgres")
        self._local = threading.local()
        self._opened: queue.SimpleQueue[PostgresConnection] = queue.SimpleQueue()

    def after_fork(self) -> None:
        """A child has neither the threads nor a right to the sockets: it begins with its own."""
        self._start_threads()

    async def read(self, tenant_id: str, work: Work[T]) -> T:
        return await hop(self._pool, lambda: self._run(tenant_id, work, write=False))

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        return await hop(self._pool, lambda: self._run(tenant_id, work, write=True))

    def connect(self) -> PostgresConnection:
        return PostgresConnection(self._url)

    def migrate(self) -> list[str]:
        from twinraven.storage.migrations import upgrade

        connection = PostgresConnection(self._admin_url)
        try:
            with connection.transaction("", write=True) as tx:
                return upgrade(tx)
        finally:
            connection.close()

    def applied(self) -> dict[int, str]:
        from twinraven.storage.migrations import applied_migrations

        connection = self.connect()
        try:
            with connection.transaction("", write=False) as tx:
                return applied_migrations(tx)
        finally:
            connection.close()

    def maintenance(self) -> PostgresConnection:
        """A connection as the owner, for audited pruning alone."""
        return PostgresConnection(self._admin_url)

    def check_role(self) -> None:
        """Refuse a login that row-level security does not bind."""
        connection = self.connect()
        try:
            with connection.transaction("", write=False) as tx:
                role = tx.fetch_one(
                    "SELECT r.rolname, r.rolsuper, r.rolbypassrls, EXISTS (SELECT 1 FROM pg_class c "
                    "WHERE c.relname = 'muninn_event_log' AND pg_has_role(c.relowner, 'MEMBER')) AS owner "
                    "FROM pg_roles r WHERE r.rolname = current_user"
                )
        finally:
            connection.close()
        faults = [word for word in ("rolsuper", "rolbypassrls", "owner") if role is not None and role[word]]
        if role is not None and faults:
            raise InvalidSetting(
                f"storage.url logs in as {role['rolname']!r}, which row-level security does not bind "
                f"({', '.join(faults)}); use a plain member of {'twinraven_app'!r} and keep that login for "
                "storage.admin_url",
                field="storage.url",
            )

    def close(self) -> None:
        self._pool.shutdown()
        while not self._opened.empty():
            self._opened.get().close()

    def _run(self, tenant_id: str, work: Work[T], *, write: bool) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self.connect()
            self._opened.put(connection)
        for attempt in range(_ATTEMPTS):
            try:
                with connection.transaction(tenant_id, write=write) as tx:
                    return work(tx)
            except StorageBusy:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")


def translate(error: psycopg.Error) -> TwinRavenError:
    """A driver error as one of ours: the only place that knows Postgres' states."""
    message = str(error).strip().split("\n")[0]
    if GUARD_MESSAGE in message or isinstance(error, errors.InsufficientPrivilege):
        return AppendOnly(f"refused: {message}")
    if isinstance(error, errors.IntegrityError):
        return Conflict(f"the database refused it: {message}", constraint=error.diag.constraint_name)
    if isinstance(error, (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)):
        return StorageBusy(f"Postgres: {message}")
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        return StorageFull(f"Postgres: {message}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StorageReadOnly(f"Postgres: {message}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return StorageUnavailable(f"Postgres: {message}")
    return StorageError(f"Postgres: {message}")
