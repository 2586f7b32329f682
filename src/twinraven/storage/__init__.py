"""Stores everything durable: one port, two databases, the same SQL.

`open_database(url)` gives the embedded SQLite file or a Postgres schema. Contexts write their SQL against
`Transaction`; what the two stores do differently stays inside this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from twinraven.foundation.errors import InvalidSetting, StorageError
from twinraven.foundation.lazy import lazy_names
from twinraven.storage.arrivals import settled_arrival
from twinraven.storage.database import (
    DEFAULT_TENANT,
    Connection,
    Database,
    Dialect,
    Row,
    Transaction,
    Work,
    chunks,
)
from twinraven.storage.forks import forget_after_fork

if TYPE_CHECKING:
    from twinraven.storage.backup import BackupFolder, BackupManifest, restore_backup, write_backup
    from twinraven.storage.changes import Change, ChangeFeed
    from twinraven.storage.maintenance import MaintainedDatabase, clear_residue, lifted, maintained, pruning
    from twinraven.storage.postgres import PostgresDatabase
    from twinraven.storage.settings import StorageSettings
    from twinraven.storage.sqlite import SqliteDatabase

__all__ = [
    "DEFAULT_TENANT",
    "BackupFolder",
    "BackupManifest",
    "Change",
    "ChangeFeed",
    "Connection",
    "Database",
    "Dialect",
    "MaintainedDatabase",
    "Row",
    "SqliteDatabase",
    "StorageSettings",
    "Transaction",
    "Work",
    "check_login",
    "chunks",
    "clear_residue",
    "forget_after_fork",
    "lifted",
    "maintained",
    "open_database",
    "pending_migrations",
    "pruning",
    "restore_backup",
    "settled_arrival",
    "write_backup",
]


__getattr__ = lazy_names(__name__)


def open_database(url: str, *, admin_url: str | None = None) -> Database:
    """`sqlite:///relative/path`, `sqlite:////absolute/path` or `postgresql://…`."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        from twinraven.storage.sqlite import SqliteDatabase

        return SqliteDatabase(Path(rest[1:]))
    if scheme in ("postgres", "postgresql") and separator:
        try:
            from twinraven.storage.postgres import PostgresDatabase
        except ModuleNotFoundError as error:
            raise InvalidSetting(
                f"storage.url names Postgres, and {error.name} is not installed",
                field="storage.url",
                fix="pip install 'twinraven[postgres]'",
            ) from error
        return PostgresDatabase(url, admin_url=admin_url)
    raise InvalidSetting(
        f"storage.url {scheme + '://…' if separator else url!r} names no store; "
        "use sqlite:///path/to/file.db or postgresql://user@host/database",
        field="storage.url",
    )


def check_login(database: Database) -> None:
    """Refuse a login that row-level security does not bind; an embedded file has no logins."""
    if database.dialect == "postgres":
        cast("PostgresDatabase", database).check_role()


def pending_migrations(database: Database) -> list[str]:
    """Return the migrations that a database lacks, read-only, so that opening a current one takes no lock."""
    from twinraven.storage.migrations import STEPS

    present = set(database.applied().values())
    unknown = sorted(present.difference(STEPS))
    if unknown:
        raise StorageError(
            f"the database was made by a newer TwinRaven: it has {', '.join(unknown)}", fix="upgrade TwinRaven"
        )
    return [step for step in STEPS if step not in present]
