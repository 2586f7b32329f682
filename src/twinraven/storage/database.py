"""Declares the port to a database: a unit of work is a function.

    work = lambda tx: tx.fetch_all("SELECT … WHERE tenant_id = :tenant", tenant=tenant_id)
    rows = await database.read(tenant_id, work)

`work` receives a transaction, runs on one of the database's threads, and commits when it returns. Because it is a
function and not a block, it can be run again when the database asks for it (a lock, a serialization failure), it costs
one thread hop however many statements it has, and the same code serves SQLite and Postgres. `work` must therefore do
nothing but SQL and plain computation.

SQL is written once, with `:name` parameters, in the subset both stores share. Times are integers (microseconds), flags
are 0 or 1, JSON is text, so that a value read back is the value written, on either store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

Dialect = Literal["sqlite", "postgres"]
Row = dict[str, Any]
T = TypeVar("T")

DEFAULT_TENANT = "default"


class Transaction(Protocol):
    """Executes statements inside a unit of work."""

    @property
    def dialect(self) -> Dialect: ...

    def execute(self, sql: str, **params: Any) -> int:
        """Run one statement and say how many rows it touched."""
        ...

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement, written with `?`, for each row."""
        ...

    def fetch_all(self, sql: str, **params: Any) -> list[Row]: ...

    def fetch_one(self, sql: str, **params: Any) -> Row | None: ...

    def stream(self, sql: str, *, batch: int = 5000, **params: Any) -> Iterator[list[tuple[Any, ...]]]:
        """Rows as tuples, a batch at a time, so that a million of them fit in constant memory."""
        ...

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows in the store's fastest durable way."""
        ...

    def insert_missing(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert the rows whose key is not there yet; only for tables that carry no append-only guard."""
        ...

    def insert_appending(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows whose last column is bytes and whose others are the key; to a key that is there, append them."""
        ...

    def present(self, table: str, column: str, values: Sequence[str], *, tenant_id: str) -> set[str]:
        """Return which of these values an indexed column of the tenant's rows already holds."""
        ...

    def act_for(self, tenant_id: str) -> None:
        """Go on for another tenant inside the same transaction (only the event writer batches tenants)."""
        ...

    def begin_part(self, tenant_id: str) -> None:
        """Keep what was done so far, and set the savepoint of the next work in a group commit."""
        ...

    def undo_part(self) -> None:
        """Take back what was done since `begin_part`."""
        ...


Work = Callable[[Transaction], T]


class Connection(Protocol):
    """A connection that one thread uses at a time; the event writer and long streams have one of their own."""

    def transaction(self, tenant_id: str, *, write: bool) -> AbstractContextManager[Transaction]: ...

    def close(self) -> None: ...


class Database(Protocol):
    """A store of ours: the embedded file or a Postgres schema."""

    @property
    def dialect(self) -> Dialect: ...

    async def read(self, tenant_id: str, work: Work[T]) -> T:
        """Run `work` on a consistent snapshot; writing inside it is an error."""
        ...

    def read_here(self, tenant_id: str, work: Work[T]) -> T:
        """Do what `read` does on the calling thread, for code that has no event loop."""
        ...

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        """Run `work` and commit it durably, or change nothing and raise."""
        ...

    def connect(self) -> Connection:
        """Return a connection for the calling thread alone."""
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to date and name what was done."""
        ...

    def applied(self) -> dict[int, str]:
        """Return the migrations this database has."""
        ...

    def close(self) -> None: ...


def chunks(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut an iterable into lists of at most `size`."""
    chunk: list[T] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
