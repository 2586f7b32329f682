"""Homes for tests that need the whole house, on either store."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.postgres import PostgresLogin
from tests.stores import copy_migrated
from twinraven.app import TwinRaven, open_home
from twinraven.storage.sqlite import library


def make_home(folder: Path, *, postgres: PostgresLogin | None = None, **sections: Any) -> Path:
    """A home that can be opened, with its settings beside it."""
    home = folder / ".twinraven"
    home.mkdir(parents=True)
    if postgres is not None:
        sections["storage"] = {"url": postgres.url, "admin_url": postgres.admin_url}
    elif "storage" not in sections:
        copy_migrated(home / "twinraven.db")
    (folder / "twinraven.yaml").write_text(json.dumps(sections))
    return home


@contextmanager
def opened_home(
    folder: Path,
    functions: Iterable[Callable[..., Any]] = (),
    *,
    postgres: PostgresLogin | None = None,
    **sections: Any,
) -> Generator[TwinRaven]:
    with open_home(make_home(folder, postgres=postgres, **sections), functions=functions) as raven:
        yield raven


def all_text(raven: TwinRaven) -> str:
    """Every column of every table as one text, bytes decoded."""
    url, admin_url = raven.settings.storage.url, raven.settings.storage.admin_url
    rows = _postgres_rows(admin_url) if admin_url is not None else _sqlite_rows(url.removeprefix("sqlite:///"))
    return "\n".join(_text(value) for row in rows for value in row)


def _sqlite_rows(path: str) -> list[tuple[Any, ...]]:
    connection = library.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = [row for name in names for row in connection.execute(f'SELECT * FROM "{name}"')]
    connection.close()
    return rows


def _postgres_rows(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return [
            row
            for (name,) in names
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall()
        ]


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
