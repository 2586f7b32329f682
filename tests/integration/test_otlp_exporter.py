"""The real OTLP exporter of OpenTelemetry, pointed at a home's REST API."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from tests.served import served
from twinraven.muninn import EventFilter

EXPORTER: Any = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
HTTP: Any = import_module("opentelemetry.exporter.otlp.proto.http")
SDK: Any = import_module("opentelemetry.sdk.trace")
EXPORT: Any = import_module("opentelemetry.sdk.trace.export")


def work(url: str, compression: Any) -> None:
    """An agent's run: a tool inside a tool, one that fails, exported one by one as they end."""
    exporter = EXPORTER.OTLPSpanExporter(endpoint=f"{url}/v1/traces", compression=compression)
    provider = SDK.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(EXPORT.SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("agent"):
        with tracer.start_as_current_span("execute_tool outer") as outer:
            outer.set_attributes(facts("outer", {"n": 1, "deep": {"x": [1.5, None]}}))
            with tracer.start_as_current_span("execute_tool inner") as inner:
                inner.set_attributes(facts("inner", {}))
        with suppress(ValueError), tracer.start_as_current_span("execute_tool failing") as failing:
            failing.set_attributes(facts("failing", {}))
            raise ValueError("no")
    provider.shutdown()


def facts(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": json.dumps({"of": tool}),
        "gen_ai.conversation.id": "talk",
    }


@pytest.mark.parametrize("compression", ["NoCompression", "Gzip"])
async def test_an_exporter_that_is_pointed_here_records_events(tmp_path: Path, compression: str) -> None:
    """Each tool span is one event, inner calls know the call around them, and a failure is one."""
    with opened_home(tmp_path, []) as raven:
        async with served(raven) as url:
            await asyncio.to_thread(work, url, getattr(HTTP.Compression, compression))
        outer, inner, failing = await raven.events.events("default", EventFilter())
    assert [each.tool_id for each in (outer, inner, failing)] == ["outer", "inner", "failing"]
    assert outer.input_params == {"n": 1, "deep": {"x": [1.5, None]}}
    assert (inner.parent_event_id, outer.parent_event_id) == (outer.event_id, None)
    assert (failing.raised, failing.session_id) == (True, "talk")
