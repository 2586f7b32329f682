"""Implements the database port on Postgres, through psycopg, with one connection per thread.

SQLite lets one writer in at a time; code that was right there must be right here. So a unit of work that writes is
serializable and is run again when Postgres finds that it raced another, and one that reads sees one snapshot. The event
writer only appends, needs no such care, and takes a plain connection.

Every transaction first states its tenant, and row-level security does the rest: a query that forgets its filter sees
nothing of anybody else. The application's role may not be superuser, owner or BYPASSRLS, since each of these would
make that fence decoration; migrations run under `admin_url`.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.sql import Literal

from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    InvalidInput,
    InvalidSetting,
    SchemaOutdated,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    TwinRavenError,
)
from twinraven.storage.database import Dialect, Row, Work
from twinraven.storage.forks import forget_after_fork
from twinraven.storage.grouped import GroupCommit
from twinraven.storage.guards import APP_ROLE, FENCE_MESSAGE, GUARD_MESSAGE, TENANT_SETTING
from twinraven.storage.idle import IdleConnections
from twinraven.storage.threads import hop

T = TypeVar("T")

_THREADS = 8
_PATIENCE_S = 30.0
_LONGEST_SILENCE_S = 30.0
"""A writer that says nothing for so long in mid-transaction was stopped; the server ends it and frees its rows."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.1
# A quoted text is kept as it is; outside of one, our placeholders become psycopg's.
_TOKEN = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_][a-z0-9_]*)|[?%]")

_ROLE = """
    SELECT r.rolname AS name, r.rolsuper AS superuser, r.rolbypassrls AS bypassrls,
        EXISTS (SELECT 1 FROM pg_class c
            WHERE c.relname = 'muninn_event_log' AND pg_has_role(c.relowner, 'MEMBER')) AS owner,
        (SELECT pg_has_role(a.oid, 'USAGE') FROM pg_roles a WHERE a.rolname = :app_role) AS member
    FROM pg_roles r WHERE r.rolname = current_user"""

_stream_numbers = itertools.count()

_NUMBERS = "float8[]"
_READ = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
_APPEND = "ISOLATION LEVEL READ COMMITTED READ WRITE"
_WRITE = "ISOLATION LEVEL SERIALIZABLE READ WRITE"
_TURN = "LOCK TABLE tenants IN SHARE UPDATE EXCLUSIVE MODE; "
"""Waits for other writers in turn, and for no other reader or writer; unlike a row lock, taken before the snapshot."""
_TURNS = 64
"""How many writes after a collision take turns: begun at once, they would collide again and be made in vain."""


@lru_cache(maxsize=1024)
def _translated(sql: str) -> LiteralString:
    """Our `:name` and `?` as psycopg's placeholders."""
    return cast("LiteralString", _TOKEN.sub(_translated_token, sql))


def _translated_token(hit: re.Match[str]) -> str:
    if hit[1]:
        return f"%({hit[1]})s"
    return "%s" if hit[0] == "?" else hit[0].replace("%", "%%")


class PostgresTransaction:
    """One transaction on one connection."""

    dialect: Dialect = "postgres"

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._has_parts = False

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
        with self._raw.cursor(name=f"twinraven_stream_{next(_stream_numbers)}") as cursor:
            cursor.execute(_translated(sql), params)
            while rows := cursor.fetchmany(batch):
                yield rows

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._insert(table, columns, rows, "")

    def insert_missing(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        # Two writers that insert the same keys in different orders would wait for each other.
        ordered = sorted(rows, key=lambda row: [str(value) for value in row[:2]])
        self._insert(table, columns, ordered, " ON CONFLICT DO NOTHING")

    def insert_appending(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        *key, last = columns
        joined = f"{last} = {table}.{last} || excluded.{last}"
        self._insert(table, columns, rows, f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {joined}")

    def present(self, table: str, column: str, values: Sequence[str], *, tenant_id: str) -> set[str]:
        sql = f"SELECT DISTINCT {column} FROM {table} WHERE tenant_id = %s AND {column} = ANY(%s)"
        return {row[0] for row in self._raw.execute(cast("LiteralString", sql), (tenant_id, list(values)))}

    def act_for(self, tenant_id: str) -> None:
        self._raw.execute(f"SELECT set_config('{TENANT_SETTING}', %s, true)", (tenant_id,))

    def begin_part(self, tenant_id: str) -> None:
        keep = "RELEASE SAVEPOINT part; " if self._has_parts else ""
        self._raw.execute(f"{keep}SAVEPOINT part; {_setting(tenant_id)}", prepare=False)
        self._has_parts = True

    def undo_part(self) -> None:
        self._raw.execute("ROLLBACK TO SAVEPOINT part")

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], tail: str) -> None:
        """One statement for all rows: COPY is refused under row-level security, and a row a statement is slow."""
        if not rows:
            return
        arrays = {name: list(values) for name, values in zip(columns, zip(*rows, strict=True), strict=True)}
        types = {name: _array_type(values) for name, values in arrays.items()}
        # Nothing has no type of its own: written as such, it takes that of its column.
        picked = ", ".join("NULL" if types[name] is None else name for name in columns)
        given = [name for name in columns if types[name] is not None]
        marks = ", ".join(f"%s::{types[name]}" for name in given)
        statement = (
            f"INSERT INTO {table} ({', '.join(columns)}) "
            f"SELECT {picked} FROM unnest({marks}) AS given ({', '.join(given)}){tail}"
        )
        self._raw.execute(cast("LiteralString", statement), [_as_array(arrays[name], types[name]) for name in given])

    def _run(self, sql: str, params: dict[str, Any]) -> psycopg.Cursor[Any]:
        if not params:
            return self._raw.execute(cast("LiteralString", sql))
        return self._raw.execute(_translated(sql), params)


def _setting(tenant_id: str) -> LiteralString:
    """Return the statement that states whose rows the transaction may touch, as text: it goes along with others."""
    return cast("LiteralString", f"SELECT set_config('{TENANT_SETTING}', {Literal(tenant_id).as_string()}, true)")


def _array_type(values: list[Any]) -> str | None:
    """Return the type of a column's values; None where there are none."""
    kinds: set[type[object]] = {type(value) for value in values if value is not None}
    if not kinds:
        return None
    if all(issubclass(kind, int) for kind in kinds):
        return "bigint[]"
    if all(issubclass(kind, (int, float)) for kind in kinds):
        return _NUMBERS
    return "bytea[]" if kinds == {bytes} else "text[]"


def _as_array(values: list[Any], type_name: str | None) -> list[Any]:
    """Return the values as the driver takes them: numbers of one kind."""
    if type_name != _NUMBERS:
        return values
    return [None if value is None else float(value) for value in values]


class PostgresConnection:
    """A connection that one thread uses at a time, made again when it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._raw: psycopg.Connection[Any] | None = None

    @contextmanager
    def transaction(
        self, tenant_id: str, *, write: bool, serializable: bool = False, in_turn: bool = False
    ) -> Generator[PostgresTransaction]:
        mode = _READ if not write else _WRITE if serializable else _APPEND
        try:
            raw = self._begin(mode, tenant_id, _TURN if in_turn else "")
            try:
                yield PostgresTransaction(raw)
                _commit(raw)
            finally:
                _roll_back(raw)
        except psycopg.Error as error:
            if self._raw is not None and self._raw.broken:
                self.close()
            raise translate(error) from error
        except (OverflowError, UnicodeEncodeError) as error:
            raise InvalidInput(f"Postgres cannot hold a value: {error}") from error

    def notifications(self, channel: str, *, within_s: float) -> list[str] | None:
        """Payloads that NOTIFY sent to a channel, waiting for the first; None where listening has only just begun."""
        try:
            raw, is_new = self._usable()
            if is_new:
                raw.execute(cast("LiteralString", f"LISTEN {channel}"))
                return None
            return [each.payload for each in raw.notifies(timeout=within_s, stop_after=1)]
        except psycopg.Error as error:
            self.close()
            raise translate(error) from error

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _begin(self, mode: str, tenant_id: str, turn: str) -> psycopg.Connection[Any]:
        """Begin in one round trip; a connection that died while idle is replaced silently."""
        bound = (
            "" if mode == _READ else f"SET LOCAL idle_in_transaction_session_timeout = '{_LONGEST_SILENCE_S:.0f}s'; "
        )
        statement = f"BEGIN {mode}; {bound}{turn}{_setting(tenant_id)}"
        raw, is_new = self._usable()
        try:
            raw.execute(cast("LiteralString", statement), prepare=False)
        except psycopg.OperationalError:
            if is_new or not raw.broken:
                raise
            self.close()
            return self._begin(mode, tenant_id, turn)
        return raw

    def _usable(self) -> tuple[psycopg.Connection[Any], bool]:
        if self._raw is not None and not self._raw.closed:
            return self._raw, False
        self._raw = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        self._raw.execute("SELECT set_config('lock_timeout', %s, false)", (f"{_PATIENCE_S:.0f}s",))
        return self._raw, True


def _commit(raw: psycopg.Connection[Any]) -> None:
    try:
        answer = raw.execute("COMMIT").statusmessage
    except psycopg.OperationalError as error:
        if not raw.broken:
            raise
        raise StorageUnavailable(
            "Postgres: the connection was lost during COMMIT; it may or may not be stored, look before trying again",
            commit="unknown",
        ) from error
    if answer != "COMMIT":
        raise StorageError("Postgres: a statement failed and its error was ignored, so nothing was stored")


def _roll_back(raw: psycopg.Connection[Any]) -> None:
    """Undo what was not committed."""
    if not raw.closed and raw.info.transaction_status != TransactionStatus.IDLE:
        # The original error is on its way to the caller, and a lost connection has rolled back by itself.
        with suppress(psycopg.Error):
            raw.execute("ROLLBACK")


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
        self._group = GroupCommit(
            self._pool, lambda tenant_id, work: self._run(tenant_id, work, write=True), most_lanes=_THREADS // 2
        )
        self._turns: dict[str, int] = {}
        """How many of the next writes of a tenant take turns with those of other processes."""
        self._idle = IdleConnections(self.connect)

    def after_fork(self) -> None:
        """A child has neither the threads nor a right to the sockets: it begins with its own."""
        self._start_threads()

    async def read(self, tenant_id: str, work: Work[T]) -> T:
        return await hop(self._pool, lambda: self.read_here(tenant_id, work))

    def read_here(self, tenant_id: str, work: Work[T]) -> T:
        return self._run(tenant_id, work, write=False)

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        return await self._group.write(tenant_id, work)

    def connect(self) -> PostgresConnection:
        return PostgresConnection(self._url)

    def migrate(self) -> list[str]:
        from twinraven.storage.migrations import upgrade

        connection = PostgresConnection(self._admin_url)
        try:
            with connection.transaction("", write=True) as tx:
                return upgrade(tx)
        except AppendOnly as error:
            if not isinstance(error.__cause__, errors.InsufficientPrivilege):
                raise
            reason = error.message.removeprefix("refused: ")
            raise InvalidSetting(
                f"the login of storage.admin_url may not upgrade the database: {reason}",
                field="storage.admin_url",
                fix=f"as a superuser run: CREATE ROLE {APP_ROLE} NOLOGIN; and let this login own the database",
            ) from error
        finally:
            connection.close()

    def applied(self) -> dict[int, str]:
        from twinraven.storage.migrations import applied_migrations

        return self.read_here("", applied_migrations)

    def maintenance(self) -> PostgresConnection:
        """Return a connection as the owner, for audited pruning alone."""
        return PostgresConnection(self._admin_url)

    def check_role(self) -> None:
        """Refuse a login that row-level security does not bind, or that may not use the tables at all."""
        role = self.read_here("", lambda tx: tx.fetch_one(_ROLE, app_role=APP_ROLE) or {})
        faults = [word for word in ("superuser", "bypassrls", "owner") if role[word]]
        if faults:
            raise InvalidSetting(
                f"storage.url logs in as {role['name']!r}, which row-level security does not bind "
                f"({', '.join(faults)}); use a plain member of {APP_ROLE!r} and keep that login for storage.admin_url",
                field="storage.url",
            )
        if role["member"] is False:
            raise InvalidSetting(
                f"storage.url logs in as {role['name']!r}, which may not use the tables; "
                f"run: GRANT {APP_ROLE} TO {role['name']}",
                field="storage.url",
            )

    def close(self) -> None:
        self._pool.shutdown()
        self._idle.close()

    def _run(self, tenant_id: str, work: Work[T], *, write: bool) -> T:
        connection = self._idle.take()
        try:
            return self._run_on(connection, tenant_id, work, write=write)
        finally:
            self._idle.give(connection)

    def _run_on(self, connection: PostgresConnection, tenant_id: str, work: Work[T], *, write: bool) -> T:
        deadline = time.monotonic() + _PATIENCE_S
        pause = _FIRST_PAUSE_S
        has_collided = False
        while True:
            in_turn = write and self._take_turn(tenant_id)
            try:
                with connection.transaction(tenant_id, write=write, serializable=True, in_turn=in_turn) as tx:
                    return work(tx)
            except StorageBusy:
                if time.monotonic() > deadline:
                    raise
                self._turns[tenant_id] = _TURNS
            except Conflict as error:
                # A row that a transaction beside this one added was not there to be seen; the second run sees it.
                if has_collided or not isinstance(error.__cause__, errors.UniqueViolation):
                    raise
                has_collided = True
            time.sleep(random.uniform(0, pause))
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _take_turn(self, tenant_id: str) -> bool:
        left = self._turns.pop(tenant_id, 0)
        if left > 1:
            self._turns[tenant_id] = left - 1
        return left > 0


def translate(error: psycopg.Error) -> TwinRavenError:
    """Return a driver error as one of ours: the only place that knows Postgres' states."""
    message = str(error).strip().split("\n")[0]
    if "row-level security" in message:
        return StorageError(f"Postgres: {message}: the row belongs to another tenant")
    if GUARD_MESSAGE in message or isinstance(error, errors.InsufficientPrivilege):
        return AppendOnly(f"refused: {message}")
    if FENCE_MESSAGE in message:
        return InvalidInput(message, field=message.partition(":")[0])
    if isinstance(error, errors.IntegrityError):
        return Conflict(f"the database refused it: {message}", constraint=error.diag.constraint_name)
    if isinstance(error, (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)):
        return StorageBusy(f"Postgres: {message}")
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        return StorageFull(f"Postgres: {message}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StorageReadOnly(f"Postgres: {message}")
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedColumn)):
        return SchemaOutdated(f"Postgres: {message}; run `twinraven db upgrade`")
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"Postgres cannot hold a value: {message}")
    gone = (psycopg.OperationalError, psycopg.InterfaceError, errors.IdleInTransactionSessionTimeout)
    if isinstance(error, gone):
        return StorageUnavailable(f"Postgres: {message}")
    return StorageError(f"Postgres: {message}")
