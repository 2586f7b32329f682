"""Exports the event log as OTLP spans in JSON, one `TracesData` object per line.

A session becomes a trace and an event a span of the operation `execute_tool`, under the names of the GenAI conventions;
what these have no name for stands under ours. Reading the file back gives the same events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO, Any, cast

import orjson

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.clock import to_micros
from twinraven.muninn.formats import genai
from twinraven.muninn.full_log import FullEvent, scan_full
from twinraven.muninn.model import EVENT_FIELDS, MuninnEvent
from twinraven.storage import Database

_INTERNAL = 1
_ERROR = 2
_TOLD_OTHERWISE = frozenset(
    {
        *(
            "session_id",
            "tool_id",
            "input_params",
            "error_code",
            "raised",
            "timestamp",
            "latency_ms",
        ),  # the span
        *("tags", "time_known"),  # only where they say something
        *("input_hash", "output_hash", "output_summary", "predecessor", "successor", "arrival"),  # follow from the rest
        *("tenant_id", "source_key"),  # belong to the log that was exported
    }
)
_OWN_ATTRIBUTES = [
    (each.name, genai.attribute_of(each.name)) for each in EVENT_FIELDS if each.name not in _TOLD_OTHERWISE
]


async def export_otlp(database: Database, tenant_id: str, out: IO[bytes]) -> int:
    """Write every event; says how many."""
    written = 0

    def visit(batch: list[FullEvent]) -> None:
        nonlocal written
        out.writelines([orjson.dumps(_document(batch), option=orjson.OPT_APPEND_NEWLINE)])
        written += len(batch)

    await scan_full(database, tenant_id, visit)
    return written


def _document(batch: list[FullEvent]) -> dict[str, Any]:
    scope = {"name": "twinraven.muninn"}
    spans = [_span(*full) for full in batch]
    resource = {"attributes": [_attribute(genai.SERVICE_NAME, "twinraven")]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


def _span(event: MuninnEvent, output: bytes | None) -> dict[str, Any]:
    began = to_micros(event.timestamp) * 1000
    span = {
        "traceId": _trace_id(event),
        "spanId": _span_id(event.event_id.bytes),
        "name": f"{genai.EXECUTE_TOOL} {event.tool_id}",
        "kind": _INTERNAL,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + event.latency_ms * 1_000_000),
        "attributes": [_attribute(name, value) for name, value in _facts(event, output) if value is not None],
        "status": _status(event, output),
    }
    if event.parent_event_id is not None:
        span["parentSpanId"] = _span_id(event.parent_event_id.bytes)
    return span


def _facts(event: MuninnEvent, output: bytes | None) -> Iterator[tuple[str, Any]]:
    yield genai.OPERATION, genai.EXECUTE_TOOL
    yield genai.TOOL_NAME, event.tool_id
    yield genai.TOOL_TYPE, genai.TOOL_TYPE_FUNCTION
    yield genai.CALL_ID, str(event.event_id)
    yield genai.CONVERSATION, event.session_id
    yield genai.ARGUMENTS, canonical_json(event.input_params).decode()
    if output is not None:
        yield genai.RESULT, output.decode()
        yield genai.RESULT_ENCODING, "json"
    yield genai.ERROR_TYPE, event.error_code
    told = event.as_json()
    for name, attribute in _OWN_ATTRIBUTES:
        yield attribute, told[name]
    yield genai.TAGS, event.tags or None
    yield genai.TIME_KNOWN, None if event.time_known else False


def _status(event: MuninnEvent, output: bytes | None) -> dict[str, Any]:
    if not event.raised:
        return {}
    found = None if output is None else parse_json(output, field="output")
    words = cast("dict[str, Any]", found).get("error") if isinstance(found, dict) else None
    return {"code": _ERROR} if words is None else {"code": _ERROR, "message": str(words)}


def _attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": _tagged(value)}


def _tagged(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_tagged(item) for item in value]}}  # pyright: ignore[reportUnknownVariableType]
    return {"stringValue": str(value)}


def _trace_id(event: MuninnEvent) -> str:
    named = "\0".join(("twinraven.trace", event.tenant_id, event.session_id))
    return hashlib.sha256(named.encode()).digest()[:16].hex()


def _span_id(event_id: bytes) -> str:
    return event_id[:8].hex()
