"""`langfuse`: observations and traces as Langfuse exports them, from its pages, its API or its storage.

A line, an item of an array or an item of a trace's `observations` is an observation. Those of type TOOL are calls,
those of type GENERATION are turns of a model with its messages. Input and output may be JSON text. A call's session is
the trace's `sessionId`, else the trace; its actor is the trace's `userId`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.records import Record, first_record, micros_of, text_of
from twinraven.muninn.formats.span_facts import arguments_of, request_and_response, unwrapped_output
from twinraven.muninn.formats.spans import ModelSpan, SpanLog, ToolSpan, derived_id
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, TraceCounts, members_of

_TYPES: Final = (
    "SPAN",
    "GENERATION",
    "EVENT",
    "TOOL",
    "AGENT",
    "CHAIN",
    "RETRIEVER",
    "EVALUATOR",
    "EMBEDDING",
    "GUARDRAIL",
)


def recognises(value: Any) -> bool:
    """Return whether this is an observation, or a trace with its observations."""
    found = first_record(value, "observations")
    if found is None:
        return False
    has_trace = "traceId" in found or "trace_id" in found
    return str(found.get("type")).upper() in _TYPES and has_trace and ("startTime" in found or "start_time" in found)


class LangfuseParser:
    """Reads observations as spans."""

    keeps_ids = True

    def __init__(self, tenant_id: str) -> None:
        self._log = SpanLog(tenant_id, "langfuse")
        self.seen = TraceCounts("observations", "is of type TOOL, or a GENERATION with tool calls in its messages")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        found = parse_json(line, field="the line")
        for item in cast("list[Any]", found) if isinstance(found, list) else [found]:
            around = members_of(item, "an item of the line")
            listed = around.get("observations")
            inner = cast("list[Any]", listed) if isinstance(listed, list) else [around]
            trace = around.get("trace")
            told = cast("Record", trace) if isinstance(trace, dict) else around
            session, user = text_of(told, "sessionId", "session_id"), text_of(told, "userId", "user_id")
            for observation in inner:
                yield from self._read(observation, session, user, number)
        yield from self._log.weigh(len(line))

    def finish(self) -> Iterator[Heard]:
        yield from self._log.finish()

    def _read(self, observation: Any, session: str | None, user: str | None, number: int) -> Iterator[Heard]:
        try:
            span = self._span(members_of(observation, "an observation"), session, user, number)
        except TwinRavenError as error:
            yield LineError(number, error.message)
        else:
            if span is not None:
                yield from self._log.hold(span)

    def _span(self, record: Record, around: str | None, user: str | None, number: int) -> ToolSpan | ModelSpan | None:
        kind = str(record.get("type")).upper()
        trace, own = text_of(record, "traceId", "trace_id"), text_of(record, "id")
        session = text_of(record, "sessionId", "session_id") or around
        if trace is None or own is None:
            raise InvalidInput("an observation must have an id and a traceId", field="traceId")
        if session is not None:
            self._log.state_session(trace, session)
        user = text_of(record, "userId", "user_id") or user
        if user is not None:
            self._log.state_user(trace, user)
        if kind != "TOOL":
            self.seen.count(f"of type {kind}")
        if kind not in ("TOOL", "GENERATION"):
            return None
        began = micros_of(record, "startTime", "start_time")
        if began is None:
            raise InvalidInput(f"observation {own}: startTime is missing", field="startTime")
        ended = micros_of(record, "endTime", "end_time")
        parent = text_of(record, "parentObservationId", "parent_observation_id")
        key, outer = (trace, own), (trace, parent) if parent else None
        if kind == "GENERATION":
            messages = partial(request_and_response, record.get("input"), record.get("output"))
            return ModelSpan(key, outer, session, began, ended or began, number, messages)
        output, call_id, raised = unwrapped_output(record.get("output"))
        raised = raised or record.get("level") == "ERROR"
        if output is None and raised:
            output = {"error": str(record.get("statusMessage", record.get("status_message")))}
        call = ForeignCall(
            identity=f"langfuse:{trace}:{own}",
            session_id=session or trace,
            tool_id=str(record.get("name") or ""),
            params=arguments_of(record.get("input")),
            timestamp=began,
            time_known=ended is not None and ended >= began,
            output=output,
            latency_ms=max(0, ended - began) // 1000 if ended is not None else 0,
            raised=raised,
            event_id=derived_id("langfuse", key),
        )
        return ToolSpan(key, outer, call, session, number, call_id, is_complete="input" not in call.params)
