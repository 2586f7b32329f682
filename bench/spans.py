"""The peer of an observed call: a span of OpenTelemetry's SDK, as an instrumented agent would make it.

The exporter takes the spans and does nothing with them, not even serialise them, which is the least any exporter does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from types import TracebackType

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.samples import PARAMS, TOOL, next_output


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


class Spans:
    """Makes spans and says how long the caller was kept."""

    def __init__(self) -> None:
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
        self._tracer = self._provider.get_tracer("bench")

    def __enter__(self) -> Spans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provider.shutdown()

    def measure(self, count: int) -> float:
        """Seconds for as many spans; what is left in the queue is exported after the clock has stopped."""
        outputs = [next_output() for _ in range(count)]
        begun = time.perf_counter()
        for output in outputs:
            with self._tracer.start_as_current_span(f"execute_tool {TOOL}") as span:
                span.set_attribute("gen_ai.tool.name", TOOL)
                span.set_attribute("gen_ai.conversation.id", "bench")
                span.set_attribute("gen_ai.tool.call.arguments", json.dumps(PARAMS))
                span.set_attribute("gen_ai.tool.call.result", json.dumps(output))
        spent = time.perf_counter() - begun
        self._provider.force_flush()
        return spent
