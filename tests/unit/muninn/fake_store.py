"""A database that keeps committed rows in a list and fails when the test says so."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from twinraven.muninn import Collector, EncodingRules
from twinraven.muninn.row import RowEncoder
from twinraven.muninn.writer import EventWriter
from twinraven.storage import Database, Dialect


class FakeTransaction:
    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.dialect: Dialect = store.dialect
        self.rows: list[dict[str, Any]] = []

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        assert table == "muninn_event_log"
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            refusal = self._store.refused.get(named["tool_id"])
            if refusal is not None:
                raise refusal
            self.rows.append(named)

    def insert_missing(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        assert (table, len(columns), bool(rows)) == ("blobs", 3, True)

    def present(self, table: str, column: str, values: Sequence[str], *, tenant_id: str) -> set[str]:
        assert (table, column) == ("muninn_event_log", "event_id")
        there = {row["event_id"] for row in self._store.rows if row["tenant_id"] == tenant_id}
        return there.intersection(values)

    def act_for(self, tenant_id: str) -> None:
        self._store.acted_for.append(tenant_id)


class FakeStore:
    """What happens to each write: nothing for success, an error before the commit, or one after it."""

    def __init__(self, dialect: Dialect = "sqlite") -> None:
        self.dialect: Dialect = dialect
        self.rows: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.acted_for: list[str] = []
        self.before_commit: deque[BaseException] = deque()
        self.after_commit: deque[BaseException] = deque()
        self.refused: dict[str, BaseException] = {}
        self.unreachable: BaseException | None = None
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def connect(self) -> FakeStore:
        return self

    def close(self) -> None:
        """Nothing is held."""

    @contextmanager
    def transaction(self, tenant_id: str, *, write: bool) -> Generator[FakeTransaction]:
        del tenant_id
        self.entered.set()
        self.gate.wait()
        if self.unreachable is not None:
            raise self.unreachable
        tx = FakeTransaction(self)
        yield tx
        if not write:
            return
        if self.before_commit:
            raise self.before_commit.popleft()
        self.rows.extend(tx.rows)
        self.batches.append(len(tx.rows))
        if self.after_commit:
            raise self.after_commit.popleft()

    @property
    def tools(self) -> list[str]:
        return [row["tool_id"] for row in self.rows]


def collector_on(store: FakeStore, *, queue_size: int = 1000) -> Collector:
    return Collector(cast("Database", store), queue_size=queue_size)


def writer_on(store: FakeStore, encoder: RowEncoder | None = None) -> EventWriter:
    return EventWriter(cast("Database", store), encoder or RowEncoder(EncodingRules()))
