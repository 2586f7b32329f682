"""Somebody who owns the database and obeys none of its guards."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from twinraven.storage import Database
from twinraven.storage.sqlite import SqliteDatabase, library


class Intruder(Protocol):
    """Whoever runs SQL past every guard; parameters are written with `?`."""

    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]: ...

    def restore(self, table: str, saved: str) -> None:
        """Put a table's rows back as they were saved."""
        ...

    def close(self) -> None: ...


class SqliteIntruder:
    """A program that opened the file, dropped the triggers and obeys no foreign keys."""

    def __init__(self, path: Path) -> None:
        self._raw: Any = library.connect(str(path), isolation_level=None)
        for (name,) in self.run("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            self.run(f"DROP TRIGGER {name}")

    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return self._raw.execute(sql, params).fetchall()

    def restore(self, table: str, saved: str) -> None:
        self.run(f"DELETE FROM {table}")
        self.run(f"INSERT INTO {table} SELECT * FROM {saved}")

    def close(self) -> None:
        self._raw.close()


class PostgresIntruder:
    """The superuser, with triggers and foreign keys switched off."""

    def __init__(self, url: str) -> None:
        self._raw: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._raw.execute("SET session_replication_role = replica")

    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self._raw.execute(sql.replace("?", "%s"), params)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return cursor.fetchall() if cursor.description else []

    def restore(self, table: str, saved: str) -> None:
        self.run(f"DELETE FROM {table}")
        self.run(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {saved}")

    def close(self) -> None:
        self._raw.close()


def intruder_of(database: Database, request: pytest.FixtureRequest) -> Intruder:
    """An intruder into the database of the test that asks."""
    if isinstance(database, SqliteDatabase):
        return SqliteIntruder(database.path)
    return PostgresIntruder(request.getfixturevalue("postgres_login").admin_url)
