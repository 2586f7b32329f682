"""Streams the event log with its outputs, for exporters.

An event names its output by hash and the output lies elsewhere; whoever hands the log to other programs needs both.
They are read together, in one snapshot and in session order, and never more than a batch of them is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from twinraven.muninn.columns import COLUMNS
from twinraven.muninn.event_row import to_event
from twinraven.muninn.model import MuninnEvent
from twinraven.storage import Database, Transaction

_NAMES = ("arrival", *COLUMNS, "predecessor", "successor")
_SCAN = f"""
SELECT e.arrival, {", ".join(f"e.{name}" for name in COLUMNS)},
       lag(e.event_id) OVER session_order AS predecessor, lead(e.event_id) OVER session_order AS successor, b.body
FROM muninn_event_log e LEFT JOIN blobs b ON b.tenant_id = e.tenant_id AND b.hash = e.output_hash
WHERE e.tenant_id = :tenant
WINDOW session_order AS (PARTITION BY e.session_id ORDER BY e.timestamp, e.arrival)
ORDER BY e.session_id, e.timestamp, e.arrival
"""  # noqa: S608 - names of our own


class FullEvent(NamedTuple):
    """An event and the JSON text of its output, where that was kept."""

    event: MuninnEvent
    output: bytes | None


async def scan_full(
    database: Database, tenant_id: str, visit: Callable[[list[FullEvent]], None], *, batch: int = 500
) -> None:
    """Stream every event with its output, session by session in order, a batch at a time."""

    def work(tx: Transaction) -> None:
        for rows in tx.stream(_SCAN, batch=batch, tenant=tenant_id):
            visit([_full(row) for row in rows])

    await database.read(tenant_id, work)


def _full(row: tuple[Any, ...]) -> FullEvent:
    *columns, body = row
    return FullEvent(to_event(dict(zip(_NAMES, columns, strict=True))), None if body is None else bytes(body))
