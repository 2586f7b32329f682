"""What the whole call path costs on a tool that does nothing: resolved, validated, recorded, not awaited.

Compared with one OpenTelemetry span that carries the same facts, since that is what observing a call costs where
nothing is validated, made durable or learned from. And the path of a whole home, with secrets to look for in every
text, rules to heed and an audit chain, compared with the bare path: what safety costs a read.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import Harness, Row
from bench.samples import PARAMS, fresh_sqlite, next_output
from bench.spans import Spans
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, Calls, Claims, SkillInvocationRequest
from twinraven.catalog import Catalog, FunctionTools, tool
from twinraven.connectors import PythonConnector
from twinraven.muninn import Collector
from twinraven.tenancy import LOCAL_USER

CALLS = 1500


SECRETS = 50
SETTINGS = """
policy:
  rules:
    - {tool: "refund_*", then: ask}
    - {effect: write, caller: intern, then: deny}
    - {tool: "*_details", caller: intern, then: deny}
"""


def measure(harness: Harness) -> list[Row]:
    return [_against_span(harness), _with_everything_on(harness)]


def _against_span(harness: Harness) -> Row:
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
    return row


def _with_everything_on(harness: Harness) -> Row:
    outputs: list[dict[str, Any]] = []

    @tool(effect="read")
    async def get_order_details(order_id: str, include: list[str], language: str = "en") -> dict[str, Any]:
        """One order with its items and payments."""
        del order_id, include, language
        return outputs.pop()

    with _whole_home([get_order_details]) as raven:
        collector = Collector(raven.database)
        bare = Calls(raven.catalog, collector, Claims(raven.database), [PythonConnector(raven.functions)])
        context = CallContext("bench", durable=False, caller="agent")

        def contender(calls: Calls, memory: Collector) -> Callable[[], float]:
            async def call_many() -> None:
                for _ in range(CALLS // 3):
                    await calls.invoke(SkillInvocationRequest("get_order_details", PARAMS), context)

            def spend() -> float:
                outputs[:] = [next_output() for _ in range(CALLS)]
                # All threads count: secrets are looked for on the writer's.
                begun = time.process_time()
                asyncio.run(call_many())
                memory.flush()
                return time.process_time() - begun

            # The least of three: the difference is small, and whoever else uses the machine only adds.
            return lambda: min(spend() for _ in range(3))

        row = harness.compare(
            "read with vault, policy and audit on",
            ours=contender(raven.calls, raven.collector),
            theirs=contender(bare, collector),
            against="the same call without them",
            aim=1.3,
        )
        collector.close()
    return row


@contextmanager
def _whole_home(functions: list[Callable[..., Any]]) -> Generator[TwinRaven]:
    """A home with rules and secrets, which disappears afterwards."""
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        home = Path(folder) / ".twinraven"
        home.mkdir()
        (home.parent / "twinraven.yaml").write_text(SETTINGS)
        with open_home(home, functions=functions) as raven:
            asyncio.run(_keep_secrets(raven))
            yield raven


async def _keep_secrets(raven: TwinRaven) -> None:
    for number in range(SECRETS):
        value = f"sk-{number}-{os.urandom(18).hex()}"
        await raven.vault.create("default", LOCAL_USER, name=f"key {number}", type="api_key", value=value)
