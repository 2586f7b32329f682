"""Lifts a guard for one transaction, the only path by which history is removed.

Both stores change triggers inside a transaction, so a process that is killed in the middle leaves the guard standing
and nothing removed. On Postgres the path needs the owner's login (`storage.admin_url`); on SQLite it is a connection
without the authorizer.

What is deleted from a SQLite file is overwritten, but would stay readable in its write-ahead log and where earlier page
splits left copies. These are gone after `clear_residue`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, cast

from twinraven.foundation.errors import InvalidSetting, StorageBusy, StorageError, StorageFull
from twinraven.storage.database import Connection, Database, Transaction
from twinraven.storage.guards import APPEND_ONLY_TABLES

_OWNER = "SELECT pg_has_role(relowner, 'MEMBER') AS owned FROM pg_class WHERE oid = CAST(:log AS regclass)"


class MaintainedDatabase(Database, Protocol):
    """A store that can be pruned."""

    def maintenance(self) -> Connection:
        """Return a connection on which guards can be lifted."""
        ...


def maintained(database: Database) -> MaintainedDatabase:
    """Return the store as one that can be pruned."""
    if not hasattr(database, "maintenance"):
        raise StorageError(f"{type(database).__name__} offers no maintenance")
    return cast("MaintainedDatabase", database)


@contextmanager
def pruning(connection: Connection, tenant_id: str, *, tables: tuple[str, ...]) -> Generator[Transaction]:
    """Open an exclusive transaction, on tables that it may delete from inside `lifted`.

    `tables` come in the order in which others write to them, so that nobody waits for each other in a circle.
    """
    with connection.transaction(tenant_id, write=True) as tx:
        if tx.dialect == "postgres":
            _check_owner(tx, tables[0])
            # Deleting what nobody refers to is only safe while nobody can begin to.
            tx.execute(f"LOCK TABLE {', '.join(tables)} IN SHARE ROW EXCLUSIVE MODE")
        yield tx


@contextmanager
def lifted(tx: Transaction, *tables: str) -> Generator[None]:
    """Let rows be deleted from append-only tables until the block ends."""
    strangers = set(tables) - APPEND_ONLY_TABLES
    if strangers:
        raise AssertionError(f"{', '.join(strangers)}: no append-only table")
    if tx.dialect == "postgres":
        for table in tables:
            tx.execute(f"ALTER TABLE {table} DISABLE TRIGGER {table}_no_delete")
        yield
        for table in tables:
            tx.execute(f"ALTER TABLE {table} ENABLE TRIGGER {table}_no_delete")
        return
    guards = [_take_guard(tx, f"{table}_no_delete") for table in tables]
    yield
    for guard in guards:
        tx.execute(guard)


def clear_residue(database: Database, *, compact: bool) -> bool:
    """Remove the last traces of what was deleted from a SQLite file; False where another connection was in the way.

    `compact` writes the whole file anew, which alone reaches the copies that page splits leave in free space, and gives
    the space back; writers wait meanwhile. Otherwise only the write-ahead log is emptied.
    """
    if database.dialect != "sqlite":
        return True
    from twinraven.storage.sqlite import BUSY_TIMEOUT_S, SqliteDatabase, library, translate

    path = cast("SqliteDatabase", database).path
    try:
        raw = library.connect(str(path), timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            if compact:
                raw.execute("VACUUM")
            blocked, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            raw.close()
    except library.Error as error:
        translated = translate(error)
        if isinstance(translated, (StorageBusy, StorageFull)):
            return False
        raise translated from error
    return not blocked


def _take_guard(tx: Transaction, name: str) -> str:
    """Drop a trigger and say how to make it again, word for word."""
    row = tx.fetch_one("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name", name=name)
    if row is None:
        raise StorageError(f"the guard {name} is missing; somebody has tampered with the database")
    tx.execute(f"DROP TRIGGER {name}")
    return row["sql"]


def _check_owner(tx: Transaction, table: str) -> None:
    row = tx.fetch_one(_OWNER, log=table)
    if row is None or not row["owned"]:
        raise InvalidSetting(
            "only the owner of the tables may prune; set storage.admin_url to the login that runs the migrations",
            field="storage.admin_url",
        )
