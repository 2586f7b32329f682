"""What remembering costs: durable recording beside the bare inserts it cannot avoid, and observed calls beside spans.

Both sides of a durable comparison write the same rows and blobs into the same schema with the same pragmas and guards,
into a file or database that is new in each repeat. The bare side has its rows ready; ours makes them from arguments and
outputs while the clock runs. An observed call is compared with a span of OpenTelemetry's SDK that goes to a batch
processor and carries the same facts as attributes; what counts there is the time the caller loses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

from bench.harness import Harness, Row
from bench.samples import PARAMS, TOOL, encoded_rows, fresh_sqlite, next_output
from bench.spans import Spans
from tests.postgres import PostgresLogin, running_server
from twinraven.muninn import Collector, observed
from twinraven.muninn.columns import BLOB_COLUMNS, COLUMNS
from twinraven.storage import Database, open_database
from twinraven.storage.sqlite import library

TASKS = 64
ROUNDS = 50
ALONE = 200
CALLS = 1500
"""Fewer than either queue holds, so that nobody is slowed down or drops anything."""


def measure(harness: Harness) -> list[Row]:
    with running_server() as server, server.fresh_database() as login:
        rows = [
            harness.compare(
                "64 tasks, durable",
                ours=lambda: _on_sqlite(_record_from_tasks),
                theirs=lambda: _raw_sqlite(TASKS * ROUNDS, batch=TASKS),
                against="executemany in batches of 64",
                aim=2.0,
            ),
            harness.compare(
                "one caller, durable",
                ours=lambda: _on_sqlite(_record_alone),
                theirs=lambda: _raw_sqlite(ALONE, batch=1),
                against="one commit an event",
                aim=2.0,
            ),
            harness.compare(
                "64 tasks, durable, Postgres",
                ours=lambda: _on_postgres(login),
                theirs=lambda: _raw_postgres(login, TASKS * ROUNDS, batch=TASKS),
                against="unnest inserts in batches of 64",
                aim=2.0,
            ),
        ]
    return [*rows, _compare_with_span(harness)]


def _compare_with_span(harness: Harness) -> Row:
    with fresh_sqlite() as (database, _), Spans() as spans:
        collector = Collector(database)
        outputs = [next_output() for _ in range(CALLS)]

        @observed(TOOL, durable=False)
        def get_order_details(order_id: str, include: list[str], language: str) -> dict[str, Any]:
            del order_id, include, language
            return outputs.pop()

        def watched() -> float:
            outputs[:] = [next_output() for _ in range(CALLS)]
            with collector.observe("bench"):
                begun = time.perf_counter()
                for _ in range(CALLS):
                    get_order_details(**PARAMS)
                spent = time.perf_counter() - begun
            collector.flush()
            return spent

        row = harness.compare(
            "observed call, not awaited",
            ours=watched,
            theirs=lambda: spans.measure(CALLS),
            against="OpenTelemetry SDK span, batch processor",
            aim=1.0,
        )
        collector.close()
    return row


def _on_sqlite(record: Callable[[Collector], float]) -> float:
    with fresh_sqlite() as (database, _):
        return _with_collector(database, record)


def _on_postgres(login: PostgresLogin) -> float:
    database = open_database(login.url, admin_url=login.admin_url)
    try:
        return _with_collector(database, _record_from_tasks)
    finally:
        database.close()


def _with_collector(database: Database, record: Callable[[Collector], float]) -> float:
    collector = Collector(database)
    # The connection and the thread are there before the clock runs, as they are on the other side.
    collector.observe("warm-up").record(TOOL, PARAMS, output=next_output()).result()
    try:
        return record(collector)
    finally:
        collector.close()


def _record_from_tasks(collector: Collector) -> float:
    outputs = [[next_output() for _ in range(ROUNDS)] for _ in range(TASKS)]

    async def work(number: int) -> None:
        session = collector.observe(f"bench-{number}")
        for output in outputs[number]:
            await session.record(TOOL, PARAMS, output=output, latency_ms=3)

    async def main() -> float:
        begun = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(TASKS)))
        return time.perf_counter() - begun

    return asyncio.run(main())


def _record_alone(collector: Collector) -> float:
    outputs = [next_output() for _ in range(ALONE)]

    async def main() -> float:
        session = collector.observe("bench")
        begun = time.perf_counter()
        for output in outputs:
            await session.record(TOOL, PARAMS, output=output, latency_ms=3)
        return time.perf_counter() - begun

    return asyncio.run(main())


def _raw_sqlite(count: int, *, batch: int) -> float:
    items = encoded_rows(count)
    log, blob = _insert("muninn_event_log", COLUMNS), _insert("blobs", BLOB_COLUMNS) + " ON CONFLICT DO NOTHING"
    with fresh_sqlite() as (_, path):
        raw = library.connect(str(path), isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cell_size_check = ON"):
            raw.execute(f"PRAGMA {pragma}")
        begun = time.perf_counter()
        for start in range(0, count, batch):
            part = items[start : start + batch]
            raw.execute("BEGIN IMMEDIATE")
            raw.executemany(blob, [body for _, body in part])
            raw.executemany(log, [row for row, _ in part])
            raw.execute("COMMIT")
        spent = time.perf_counter() - begun
        raw.close()
    return spent


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _raw_postgres(login: PostgresLogin, count: int, *, batch: int) -> float:
    import psycopg

    items = encoded_rows(count)
    numbers = {"timestamp", "latency_ms", "raised", "turn", "time_known"}
    log = _unnest("muninn_event_log", COLUMNS, ["bigint" if name in numbers else "text" for name in COLUMNS])
    blob = _unnest("blobs", BLOB_COLUMNS, ["text", "text", "bytea"]) + " ON CONFLICT DO NOTHING"
    with psycopg.connect(login.url, autocommit=True) as raw:
        begun = time.perf_counter()
        for start in range(0, count, batch):
            part = items[start : start + batch]
            raw.execute("BEGIN")
            raw.execute("SELECT set_config('twinraven.tenant_id', 'default', true)")
            raw.execute(blob, _columns([body for _, body in part]))
            raw.execute(log, _columns([row for row, _ in part]))
            raw.execute("COMMIT")
        return time.perf_counter() - begun


def _columns(rows: list[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _unnest(table: str, columns: tuple[str, ...], types: list[str]) -> Any:
    marks = ", ".join(f"%s::{kind}[]" for kind in types)
    return cast("Any", f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({marks})")
