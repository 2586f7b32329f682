"""What the executor adds to the calls it makes: a composite of no-op tools against the same tools called one by one.

Both go through the same call path and leave events; the composite leaves one more, its own. Where nobody waits for the
disk the figure is all the work there is, the writer's included; where the caller waits, it is the caller's time: a
composite waits once, the other after each call. Storing an event is cheapest while the log is empty, as it is once in
the life of a home, so what is recorded is measured there and with an hour's calls of a busy one in the log.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from bench.harness import Harness, Row, cpu_timed, timed
from bench.samples import PARAMS, fresh_sqlite
from twinraven.calls import CallContext, Calls, Claims, SkillInvocationRequest
from twinraven.catalog import Catalog, FunctionTools, ToolEntry, tool
from twinraven.connectors import PythonConnector
from twinraven.flow import FlowConnector, entry_of
from twinraven.muninn import Collector
from twinraven.registry import SynthesizedTool
from twinraven.storage import Database

STEPS = 5
RUNS = 300
LOGGED = 60_000
DURABLE_RUNS = 25
TOOL = "get_order_details"
COMPOSITE = "get_order_details_five_times"


def measure(harness: Harness) -> list[Row]:
    with fresh_sqlite() as (database, _):
        desk = _Desk(database)
        empty = _recorded(harness, desk, "recorded, the log empty at first")
        desk.call_many(TOOL, LOGGED, durable=False)
        rows = [
            empty,
            _recorded(harness, desk, f"recorded, {LOGGED:,} calls in the log"),
            harness.compare(
                "executor overhead per step, made durable",
                ours=timed(lambda: desk.call_many(COMPOSITE, DURABLE_RUNS, durable=True)),
                theirs=timed(lambda: desk.call_many(TOOL, DURABLE_RUNS * STEPS, durable=True)),
                against="the same tools one by one",
                aim=1.0,
            ),
        ]
        desk.close()
    return rows


def _recorded(harness: Harness, desk: _Desk, what: str) -> Row:
    return harness.compare(
        f"executor overhead per step, {what}",
        ours=cpu_timed(lambda: desk.call_many(COMPOSITE, RUNS, durable=False)),
        theirs=cpu_timed(lambda: desk.call_many(TOOL, RUNS * STEPS, durable=False)),
        against="the same tools one by one",
        aim=1.5,
    )


class _Desk:
    """One call path that has the tool, and the composite that calls it five times."""

    def __init__(self, database: Database) -> None:
        self._collector = Collector(database)
        self._serials = itertools.count()
        functions = FunctionTools([self.get_order_details])
        catalog = Catalog(functions)
        learned = _Learned(_definition(), catalog)
        catalog.add(learned)
        self._calls = Calls(catalog, self._collector, Claims(database), [PythonConnector(functions)])
        self._calls.add_connector(FlowConnector(self._calls, catalog, learned))

    @tool(effect="read")
    async def get_order_details(self, order_id: str, include: list[str], language: str = "en") -> dict[str, Any]:
        """Nothing but a number that it never gave before."""
        del include, language
        return {"order_id": order_id, "serial": next(self._serials)}

    def call_many(self, tool_id: str, calls: int, *, durable: bool) -> None:
        """So many calls one after another, until all of them are stored."""
        asyncio.run(self._call_many(tool_id, calls, CallContext("bench", durable=durable)))
        self._collector.flush()

    def close(self) -> None:
        self._collector.close()

    async def _call_many(self, tool_id: str, calls: int, context: CallContext) -> None:
        for number in range(calls):
            if number % STEPS == 0:
                # Tools that do nothing never yield, and a loop without a turn of its own keeps every old timer.
                await asyncio.sleep(0)
            response = await self._calls.invoke(SkillInvocationRequest(tool_id, PARAMS), context)
            assert response.error is None, response.error


class _Learned:
    """A registry of one."""

    def __init__(self, definition: SynthesizedTool, catalog: Catalog) -> None:
        self._definition = definition
        self._entry = entry_of(definition, lambda tool_id: catalog.find("default", tool_id))

    def definition(self, tenant_id: str, tool_id: str) -> SynthesizedTool:
        del tenant_id, tool_id
        return self._definition

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self._entry if tool_id == COMPOSITE else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return [self._entry]


def _definition() -> SynthesizedTool:
    """Each step takes its order from the output before, as a learned chain does."""
    first = {name: f"$.parameters.{name}" for name in PARAMS}
    later = [{**first, "order_id": f"$.internal_wiring.{index}.order_id"} for index in range(STEPS - 1)]
    return SynthesizedTool.from_json(
        {
            "tool_id": COMPOSITE,
            "description": "The same order, five times.",
            "parameters": {"type": "object", "properties": {name: {} for name in PARAMS}, "required": list(PARAMS)},
            "internal_wiring": {
                str(index): {"order_id": f"$.steps[{index}].output.order_id"} for index in range(STEPS - 1)
            },
            "steps": [
                {"step_index": index, "tool_id": TOOL, "input_mapping": mapping, "timeout_ms": 5000}
                for index, mapping in enumerate([first, *later])
            ],
            "source_chain_id": "bench",
            "created_at": "2026-01-15T10:30:00Z",
        }
    )
