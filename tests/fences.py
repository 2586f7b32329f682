"""Trying to cross from one tenant into another: every method of a store, with the other's ids.

A store is asked by an intruder who knows the victim's ids. Nothing of the victim may show in an answer, and nothing of
theirs may change. On Postgres the same holds when the application's own filter is taken out of every statement: then
row-level security alone stands between the two.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from twinraven.foundation.errors import TwinRavenError
from twinraven.storage import Database, Dialect, Row, Transaction

_FILTER = re.compile(r"\b(?:\w+\.)?tenant_id = (:tenant\b|\?)")

Attempt = Callable[[Transaction], object]


class Unfiltered:
    """A transaction whose statements have lost their filter by tenant."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner

    @property
    def dialect(self) -> Dialect:
        return self._inner.dialect

    def execute(self, sql: str, **params: Any) -> int:
        return self._inner.execute(_without_filter(sql), **params)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._inner.execute_many(_without_filter(sql), rows)

    def fetch_all(self, sql: str, **params: Any) -> list[Row]:
        return self._inner.fetch_all(_without_filter(sql), **params)

    def fetch_one(self, sql: str, **params: Any) -> Row | None:
        return self._inner.fetch_one(_without_filter(sql), **params)

    def stream(self, sql: str, *, batch: int = 5000, **params: Any) -> Iterator[list[tuple[Any, ...]]]:
        return self._inner.stream(_without_filter(sql), batch=batch, **params)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._inner.insert_rows(table, columns, rows)

    def insert_missing(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._inner.insert_missing(table, columns, rows)

    def insert_appending(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._inner.insert_appending(table, columns, rows)

    def present(self, table: str, column: str, values: Sequence[str], *, tenant_id: str) -> set[str]:
        del tenant_id
        wanted = set(values)
        return {row[column] for row in self._inner.fetch_all(f"SELECT {column} FROM {table}") if row[column] in wanted}

    def act_for(self, tenant_id: str) -> None:
        raise AssertionError(f"a store acted for {tenant_id}")

    def begin_part(self, tenant_id: str) -> None:
        raise AssertionError(f"a store began a part for {tenant_id}")

    def undo_part(self) -> None:
        raise AssertionError("a store undid a part")


def _without_filter(sql: str) -> str:
    return _FILTER.sub(r"CAST(\1 AS TEXT) IS NOT NULL", sql)


def methods_of(store: type[Any]) -> set[str]:
    """The methods a store's port has."""
    return {name for name, _ in inspect.getmembers(store, inspect.isfunction) if not name.startswith("_")}


async def rows_of(database: Database, tenant_id: str, tables: Sequence[str]) -> list[list[Row]]:
    """All a tenant has in some tables."""

    def work(tx: Transaction) -> list[list[Row]]:
        return [
            sorted(tx.fetch_all(f"SELECT * FROM {table} WHERE tenant_id = :tenant", tenant=tenant_id), key=repr)
            for table in tables
        ]

    return await database.read(tenant_id, work)


async def attempt(database: Database, intruder: str, act: Attempt, *, filtered: bool = True) -> str:
    """What an intruder gets to see of an attempt, a refusal counting as nothing."""

    def work(tx: Transaction) -> str:
        answer = act(tx if filtered else Unfiltered(tx))
        return repr(list(cast("Iterator[object]", answer)) if isinstance(answer, Iterator) else answer)

    try:
        return await database.write(intruder, work)
    except TwinRavenError:
        return ""


async def assert_fenced(
    database: Database,
    attempts: Mapping[str, Attempt],
    *,
    intruder: str,
    victim: str,
    tables: Sequence[str],
    marks: Sequence[str],
) -> None:
    """No attempt shows one of the victim's marks or changes one of the victim's rows."""
    before = await rows_of(database, victim, tables)
    assert all(before)
    for filtered in (True, False) if database.dialect == "postgres" else (True,):
        for name, act in attempts.items():
            seen = await attempt(database, intruder, act, filtered=filtered)
            assert not [mark for mark in marks if mark in seen], f"{name} shows {seen}"
            assert await rows_of(database, victim, tables) == before, f"{name} changed something"
