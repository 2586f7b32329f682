"""A log with old and new sessions, and a process that prunes it and dies at a chosen point.

    python -m tests.pruning URL KEYS POINT COUNT [--admin-url URL]

The process kills itself, as `kill -9` would, right after the function POINT of the retention service has returned for
the COUNT-th time; at "never" it finishes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.workers import ForkedProcess
from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.clock import utc_now
from twinraven.muninn import Collector
from twinraven.muninn.retention import Retention, RingSigner, service
from twinraven.storage import Database, Row, Transaction, open_database

POINTS = ("delete_sessions", "delete_outputs", "add_note", "hash_events")
DAYS = 30


def remember(
    database: Database, sessions: Iterable[tuple[str, Iterable[int], Iterable[Any]]], *, tenant_id: str = "t"
) -> None:
    """Record sessions; each has its id, how many days ago each call was, and each call's output."""
    collector = Collector(database)
    try:
        for session_id, ages, outputs in sessions:
            observer = collector.observe(session_id, tenant_id=tenant_id)
            for place, (age, output) in enumerate(zip(ages, outputs, strict=True)):
                when = utc_now() - timedelta(days=age) + timedelta(milliseconds=place)
                observer.record("tool", {"session": session_id, "place": place}, output=output, timestamp=when)
        collector.flush()
    finally:
        collector.close()


def retention_of(database: Database, keys: Path, **options: Any) -> Retention:
    """Retention with everything it can have."""
    ring = KeyRing(keys)
    return Retention(database, audit=AuditLog(database, Signer(ring)), signer=RingSigner(ring), **options)


def session_sizes(tx: Transaction, tenant_id: str = "t") -> dict[str, int]:
    rows = tx.fetch_all(
        "SELECT session_id, count(*) AS events FROM muninn_event_log WHERE tenant_id = :tenant GROUP BY session_id",
        tenant=tenant_id,
    )
    return {row["session_id"]: row["events"] for row in rows}


def loose_outputs(tx: Transaction, tenant_id: str = "t") -> list[Row]:
    """Outputs that no event names, and events whose output is missing."""
    return tx.fetch_all(
        "SELECT hash FROM blobs WHERE tenant_id = :tenant AND hash NOT IN "
        "(SELECT output_hash FROM muninn_event_log WHERE tenant_id = :tenant AND output_hash IS NOT NULL) "
        "UNION ALL SELECT event_id FROM muninn_event_log WHERE tenant_id = :tenant AND output_hash IS NOT NULL "
        "AND output_hash NOT IN (SELECT hash FROM blobs WHERE tenant_id = :tenant)",
        tenant=tenant_id,
    )


def start_pruner(url: str, keys: Path, point: str, count: int, *arguments: str) -> ForkedProcess:
    return ForkedProcess("tests.pruning", url, str(keys), point, str(count), *arguments)


def prune(url: str, keys: Path, point: str, count: int, *arguments: str) -> int:
    """How the pruner ended."""
    with start_pruner(url, keys, point, count, *arguments) as pruner:
        return pruner.wait()


def _die_after(point: str, count: int) -> None:
    real = getattr(service, point)
    left = count

    def dying(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        answer = real(*arguments, **options)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(service, point, dying)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("keys", type=Path)
    parser.add_argument("point")
    parser.add_argument("count", type=int)
    parser.add_argument("--admin-url")
    options = parser.parse_args()
    if options.point != "never":
        _die_after(options.point, options.count)
    database = open_database(options.url, admin_url=options.admin_url)
    asyncio.run(retention_of(database, options.keys, batch_events=5).run("t", days=DAYS))
    database.close()


if __name__ == "__main__":
    main()
