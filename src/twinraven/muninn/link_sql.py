"""Finds events by what links them to other records: their id, session, parent or task."""

from __future__ import annotations

from typing import Final, NamedTuple

from twinraven.foundation.clock import from_micros, iso
from twinraven.storage import Row, Transaction

_COLUMNS: Final = (
    "event_id, session_id, tool_id, timestamp, outcome, raised, error_code, correlation_id, parent_event_id, task_id"
)


class LinkedEvent(NamedTuple):
    """An event without its values."""

    event_id: str
    session_id: str
    tool_id: str
    at: str
    outcome: str
    """The outcome of the work around the call, where it was stated; never that of the call."""
    raised: bool
    error_code: str | None
    correlation_id: str | None
    parent_event_id: str | None
    task_id: str | None


def event_of(tx: Transaction, tenant_id: str, event_id: str) -> LinkedEvent | None:
    """Return one event by its id."""
    row = tx.fetch_one(
        f"SELECT {_COLUMNS} FROM muninn_event_log WHERE tenant_id = :tenant AND event_id = :id",
        tenant=tenant_id,
        id=event_id,
    )
    return None if row is None else _to_event(row)


def events_of_session(tx: Transaction, tenant_id: str, session_id: str, *, limit: int) -> list[LinkedEvent]:
    """Return the calls of a session, in order."""
    return _events(tx, tenant_id, "session_id", session_id, limit)


def events_below(tx: Transaction, tenant_id: str, event_id: str, *, limit: int) -> list[LinkedEvent]:
    """Return the calls that a call made."""
    return _events(tx, tenant_id, "parent_event_id", event_id, limit)


def events_of_task(tx: Transaction, tenant_id: str, task_id: str, *, limit: int) -> list[LinkedEvent]:
    """Return the calls that name a task."""
    return _events(tx, tenant_id, "task_id", task_id, limit)


def _events(tx: Transaction, tenant_id: str, column: str, value: str, limit: int) -> list[LinkedEvent]:
    rows = tx.fetch_all(
        f"SELECT {_COLUMNS} FROM muninn_event_log WHERE tenant_id = :tenant AND {column} = :value "
        "ORDER BY timestamp, arrival LIMIT :limit",
        tenant=tenant_id,
        value=value,
        limit=limit,
    )
    return [_to_event(row) for row in rows]


def _to_event(row: Row) -> LinkedEvent:
    parent = row["parent_event_id"]
    return LinkedEvent(
        event_id=str(row["event_id"]),
        session_id=row["session_id"],
        tool_id=row["tool_id"],
        at=iso(from_micros(row["timestamp"])),
        outcome=str(row["outcome"]),
        raised=bool(row["raised"]),
        error_code=row["error_code"],
        correlation_id=row["correlation_id"],
        parent_event_id=None if parent is None else str(parent),
        task_id=row["task_id"],
    )
