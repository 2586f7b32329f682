"""`langsmith`: runs as LangSmith exports them, one a line or in an array, also nested as `child_runs`.

Runs of type `tool` are calls, runs of type `llm` turns of a model with its messages. LangSmith's own `session_id` names
the project, so a call's session is the thread in the run's metadata, else the trace; its actor is the `user_id` there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.records import Record, first_record, micros_of, records_in, text_of
from twinraven.muninn.formats.span_facts import arguments_of, request_and_response, unwrapped_output
from twinraven.muninn.formats.spans import ModelSpan, SpanLog, ToolSpan, derived_id
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, TraceCounts, items_of, members_of

_MODELS = ("llm", "chat_model")
_THREADS = ("session_id", "thread_id", "conversation_id")
_USERS = ("user_id", "userId")


def recognises(value: Any) -> bool:
    """Return whether this is a run."""
    found = first_record(value, "runs")
    return found is not None and "run_type" in found and "inputs" in found


class LangSmithParser:
    """Reads runs as spans."""

    keeps_ids = True

    def __init__(self, tenant_id: str) -> None:
        self._log = SpanLog(tenant_id, "langsmith")
        self.seen = TraceCounts("runs", "is of type tool, or a model's with tool calls in its messages")

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        for record in records_in(line, "runs"):
            yield from self._read(record, None, number)
        yield from self._log.weigh(len(line))

    def finish(self) -> Iterator[Heard]:
        yield from self._log.finish()

    def _read(self, record: Record, trace: str | None, number: int) -> Iterator[Heard]:
        trace = text_of(record, "trace_id") or trace or text_of(record, "id")
        try:
            span = self._span(record, trace, number)
        except TwinRavenError as error:
            yield LineError(number, error.message)
        else:
            if span is not None:
                yield from self._log.hold(span)
        for child in items_of(record.get("child_runs"), "child_runs"):
            yield from self._read(members_of(child, "a child run"), trace, number)

    def _span(self, record: Record, trace: str | None, number: int) -> ToolSpan | ModelSpan | None:
        kind, own = record.get("run_type"), text_of(record, "id", "run_id")
        if own is None or trace is None:
            raise InvalidInput("a run must have an id", field="id")
        thread, user = _metadata(record, *_THREADS), _metadata(record, *_USERS)
        if thread is not None:
            self._log.state_session(trace, thread)
        if user is not None:
            self._log.state_user(trace, user)
        if kind != "tool":
            self.seen.count(f"of type {kind}")
        if kind != "tool" and kind not in _MODELS:
            return None
        began, ended = micros_of(record, "start_time"), micros_of(record, "end_time")
        if began is None:
            raise InvalidInput(f"run {own}: start_time is missing", field="start_time")
        parent = text_of(record, "parent_run_id")
        key, outer = (trace, own), (trace, parent) if parent else None
        if kind in _MODELS:
            messages = partial(request_and_response, record.get("inputs"), record.get("outputs"))
            return ModelSpan(key, outer, thread, began, ended or began, number, messages)
        output, call_id, raised = unwrapped_output(record.get("outputs"))
        failed = record.get("error")
        if output is None and failed:
            output = {"error": str(failed)}
        call = ForeignCall(
            identity=f"langsmith:{own}",
            session_id=thread or trace,
            tool_id=str(record.get("name") or ""),
            params=arguments_of(record.get("inputs")),
            timestamp=began,
            time_known=ended is not None and ended >= began,
            output=output,
            latency_ms=max(0, ended - began) // 1000 if ended is not None else 0,
            raised=raised or bool(failed),
            event_id=derived_id("langsmith", key),
        )
        return ToolSpan(key, outer, call, thread, number, call_id, is_complete=set(call.params) != {"input"})


def _metadata(record: Record, *names: str) -> str | None:
    extra = record.get("extra")
    metadata = cast("Record", extra).get("metadata") if isinstance(extra, dict) else record.get("metadata")
    return text_of(cast("Record", metadata), *names) if isinstance(metadata, dict) else None
