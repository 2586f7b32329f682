"""`events`: what `twinraven export json` wrote, one event a line.

The export has summaries of outputs and not the outputs themselves, so events come back without them; `export otlp` has
everything. An event keeps its id, so a log that reads its own export stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.records import Record, first_record, micros_of, records_in, text_of
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, TraceCounts, items_of, members_of


def recognises(value: Any) -> bool:
    """Return whether this is an exported event."""
    found = first_record(value, "items")
    return found is not None and {"event_id", "session_id", "tool_id", "input_params"} <= found.keys()


class OwnEventsParser:
    """Each line is an event that needs no other."""

    keeps_ids = True

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id
        self.seen = TraceCounts("lines", "is an event")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        for record in records_in(line, "items"):
            try:
                yield _call(record).observed_for(self._tenant_id)
            except TwinRavenError as error:
                yield LineError(number, error.message)

    def finish(self) -> Iterator[Heard]:
        yield from ()


def _call(record: Record) -> ForeignCall:
    began = micros_of(record, "timestamp")
    if began is None:
        raise InvalidInput("timestamp is missing", field="timestamp")
    latency = record.get("latency_ms")
    return ForeignCall(
        identity=f"event:{record.get('event_id')}",
        session_id=str(record.get("session_id") or ""),
        tool_id=str(record.get("tool_id") or ""),
        params=members_of(record.get("input_params"), "input_params"),
        timestamp=began,
        time_known=record.get("time_known") is not False,
        output=record.get("output"),
        latency_ms=latency if type(latency) is int else 0,
        raised=record.get("raised") is True,
        error_code=text_of(record, "error_code"),
        outcome=text_of(record, "outcome"),
        turn=record.get("turn"),
        task_id=text_of(record, "task_id"),
        outside_input=cast("str | None", record.get("outside_input")),
        tags=tuple(map(str, items_of(record.get("tags"), "tags"))),
        correlation_id=text_of(record, "correlation_id"),
        event_id=_uuid(record, "event_id"),
        parent_event_id=_uuid(record, "parent_event_id"),
        corrects=_uuid(record, "corrects"),
    )


def _uuid(record: Record, name: str) -> UUID | None:
    found = record.get(name)
    try:
        return None if found is None else UUID(str(found))
    except ValueError:
        raise InvalidInput(f"{name} must be a UUID, not {found!r}", field=name) from None
