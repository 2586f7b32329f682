"""`mlflow`: traces as MLflow gives them out (`Trace.to_json`), with `info` and the spans under `data`.

Spans of type TOOL are calls, those of type CHAT_MODEL or LLM turns of a model. Attributes are JSON texts. A call's
session is `mlflow.trace.session` in the trace's metadata, else the trace; its actor is `mlflow.trace.user` there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.records import Record, first_record, records_in, text_of
from twinraven.muninn.formats.span_facts import arguments_of, request_and_response, unwrapped_output
from twinraven.muninn.formats.spans import ModelSpan, SpanLog, ToolSpan, derived_id
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, TraceCounts, items_of, members_of

_MODELS = ("CHAT_MODEL", "LLM")


def recognises(value: Any) -> bool:
    """Return whether this is a trace of MLflow."""
    found = first_record(value, "traces")
    if found is None or not isinstance(found.get("data"), dict) or "info" not in found:
        return False
    return "spans" in found["data"]


class MlflowParser:
    """Reads the spans of a trace."""

    keeps_ids = True

    def __init__(self, tenant_id: str) -> None:
        self._log = SpanLog(tenant_id, "mlflow")
        self.seen = TraceCounts("spans", "is of type TOOL, or a model's with tool calls in its messages")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        for trace in records_in(line, "traces"):
            info = members_of(trace.get("info"), "info")
            trace_id = text_of(info, "trace_id", "request_id")
            if trace_id is None:
                raise InvalidInput("info.trace_id is missing", field="info.trace_id")
            metadata = info.get("trace_metadata", info.get("request_metadata"))
            told = cast("Record", metadata) if isinstance(metadata, dict) else {}
            session, user = text_of(told, "mlflow.trace.session"), text_of(told, "mlflow.trace.user")
            if user is not None:
                self._log.state_user(trace_id, user)
            for span in items_of(members_of(trace.get("data"), "data").get("spans"), "data.spans"):
                try:
                    held = self._span(members_of(span, "a span"), trace_id, session, number)
                except TwinRavenError as error:
                    yield LineError(number, error.message)
                else:
                    if held is not None:
                        yield from self._log.hold(held)
        yield from self._log.weigh(len(line))

    def finish(self) -> Iterator[Heard]:
        yield from self._log.finish()

    def _span(self, span: Record, trace: str, session: str | None, number: int) -> ToolSpan | ModelSpan | None:
        stated = members_of(span.get("attributes") or {}, "attributes")
        attributes = {name: _decoded(value) for name, value in stated.items() if name.startswith("mlflow.span")}
        kind = str(attributes.get("mlflow.spanType", "UNKNOWN")).upper()
        if kind != "TOOL":
            self.seen.count(f"of type {kind}")
        if kind != "TOOL" and kind not in _MODELS:
            return None
        own = text_of(span, "span_id") or text_of(members_of(span.get("context") or {}, "context"), "span_id")
        began = _micros(span, "start_time_unix_nano", "start_time")
        if own is None or began is None:
            raise InvalidInput("a span must have a span_id and a start_time_unix_nano", field="span_id")
        ended = _micros(span, "end_time_unix_nano", "end_time")
        parent = text_of(span, "parent_span_id", "parent_id")
        key, outer = (trace, own), (trace, parent) if parent else None
        given, came = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
        if kind in _MODELS:
            messages = partial(request_and_response, given, came)
            return ModelSpan(key, outer, session, began, ended or began, number, messages)
        output, call_id, raised = unwrapped_output(came)
        status = span.get("status")
        code = cast("Record", status).get("code") if isinstance(status, dict) else span.get("status_code")
        call = ForeignCall(
            identity=f"mlflow:{trace}:{own}",
            session_id=session or trace,
            tool_id=str(span.get("name") or ""),
            params=arguments_of(given),
            timestamp=began,
            time_known=ended is not None and ended >= began,
            output=output,
            latency_ms=max(0, ended - began) // 1000 if ended is not None else 0,
            raised=raised or code in ("STATUS_CODE_ERROR", "ERROR", 2),
            event_id=derived_id("mlflow", key),
        )
        return ToolSpan(key, outer, call, session, number, call_id)


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except TwinRavenError:
        return value


def _micros(span: Record, *names: str) -> int | None:
    for name in names:
        stated = span.get(name)
        if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) < 21:
            stated = int(stated)
        if type(stated) is int and 0 < stated // 1000 < 2**53:
            return stated // 1000
    return None
