"""From a row of the log back to an event."""

from __future__ import annotations

from uuid import UUID

import orjson

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.muninn.model import MuninnEvent, Outcome
from twinraven.storage import Row


def to_event(row: Row) -> MuninnEvent:
    """A row of the view as an event."""
    return MuninnEvent(
        event_id=UUID(row["event_id"]),
        session_id=row["session_id"],
        tool_id=row["tool_id"],
        input_hash=row["input_hash"],
        input_params=parse_json(row["input_params"], field="input_params"),
        output_summary=row["output_summary"],
        predecessor=_uuid(row["predecessor"]),
        successor=_uuid(row["successor"]),
        timestamp=from_micros(row["timestamp"]),
        latency_ms=row["latency_ms"],
        outcome=Outcome(row["outcome"]),
        tags=orjson.loads(row["tags"]),
        tenant_id=row["tenant_id"],
        arrival=row["arrival"],
        parent_event_id=_uuid(row["parent_event_id"]),
        raised=bool(row["raised"]),
        error_code=row["error_code"],
        output_hash=row["output_hash"],
        turn=row["turn"],
        task_id=row["task_id"],
        outside_input=row["outside_input"],
        source_key=row["source_key"],
        time_known=bool(row["time_known"]),
        correlation_id=row["correlation_id"],
    )


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
