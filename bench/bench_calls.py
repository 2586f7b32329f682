"""What the whole call path costs on a tool that does nothing: resolved, validated, recorded, not awaited.

Compared with one OpenTelemetry span that carries the same facts, since that is what observing a call costs where
nothing is validated, made durable or learned from.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.harness import Harness, Row
from bench.samples import PARAMS, fresh_sqlite, next_output
from bench.spans import Spans
from twinraven.calls import CallContext, Calls, Claims, SkillInvocationRequest
from twinraven.catalog import Catalog, FunctionTools, tool
from twinraven.connectors import PythonConnector
from twinraven.muninn import Collector

CALLS = 1500


def measure(harness: Harness) -> list[Row]:
    with fresh_sqlite() as (database, _), Spans() as spans:
        collector = Collector(database)
        outputs: list[dict[str, Any]] = []

        @tool(effect="read")
        async def get_order_details(order_id: str, include: list[str], language: str = "en") -> dict[str, Any]:
            """One order with its items and payments."""
            del order_id, include, language
            return outputs.pop()

        functions = FunctionTools([get_order_details])
        calls = Calls(Catalog(functions), collector, Claims(database), [PythonConnector(functions)])
        context = CallContext("bench", durable=False)

        async def call_many() -> float:
            outputs[:] = [next_output() for _ in range(CALLS)]
            begun = time.perf_counter()
            for _ in range(CALLS):
                await calls.invoke(SkillInvocationRequest("get_order_details", PARAMS), context)
            return time.perf_counter() - begun

        def ours() -> float:
            spent = asyncio.run(call_many())
            collector.flush()
            return spent

        row = harness.compare(
            "call path, async no-op tool",
            ours=ours,
            theirs=lambda: spans.measure(CALLS),
            against="OpenTelemetry SDK span, batch processor",
            aim=3.0,
        )
        collector.close()
    return [row]
