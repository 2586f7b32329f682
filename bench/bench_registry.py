"""Whether a registry of ten thousand tools is as quick as one of a hundred, for each tool touched, and what it costs a
call that its use is counted.

Both sizes are ours: the ratio is the cost per tool at the larger size to that at the smaller. Counting reads the log
that is written anyway, so a call is compared with itself, once with and once without a look at the counts afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness import Contender, Harness, Row
from bench.samples import fresh_sqlite
from twinraven.calls import CallContext, Calls, Claims
from twinraven.catalog import Catalog, FunctionTools, next_version, tool
from twinraven.connectors import PythonConnector
from twinraven.flow import FlowConnector, StepDefinition
from twinraven.huginn import SqlChainStore
from twinraven.muninn import Collector
from twinraven.registry import (
    LearnedTools,
    RegisteredTool,
    Registry,
    RegistryChange,
    RegistrySettings,
    SynthesizedTool,
    ToolRecord,
    ToolStatus,
    ToolVersion,
    chain_key,
    definition_text,
)
from twinraven.registry.sql import save
from twinraven.registry.usage import begin
from twinraven.storage import ChangeFeed, Database, Transaction

FEW, MANY = 100, 10_000
LOOK_UPS = 2_000
CALLS = 1_500
TENANT = "default"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@tool(effect="read")
async def search(query: str) -> dict[str, Any]:
    """Find documents."""
    return {"url": query}


@tool(effect="read")
async def read(url: str) -> dict[str, Any]:
    """Read one."""
    return {"text": url}


class Shop:
    """A registry with so many tools in service."""

    def __init__(self, database: Database, folder: Path, size: int) -> None:
        self.database = database
        self.size = size
        self.functions = FunctionTools([search, read])
        self.names = [f"tool_{number:05}" for number in range(size)]
        asyncio.run(database.write(TENANT, self._fill))
        self.learned = self.open()
        self.registry = Registry(
            database,
            storage_dir=folder,
            settings=RegistrySettings(),
            find_tool=self.learned.find_any,
            chains=SqlChainStore(database),
            witness=_unseen,
        )

    def open(self) -> LearnedTools:
        """The tools as a new process finds them."""
        return LearnedTools(self.database, [self.functions], ChangeFeed(self.database, poll_s=3600))

    def _fill(self, tx: Transaction) -> None:
        begin(tx, TENANT)
        revision = next_version(tx, TENANT)
        for name in self.names:
            save(tx, None, _registered(name, revision))

    def contender(self, work: Work, *, per_tool: bool) -> Contender:
        """Processor seconds of something, or of each tool it touches."""
        shares = self.size if per_tool else 1
        return lambda: _spent(work(self)) / shares

    async def list_all(self) -> None:
        assert len(await self.registry.tools(TENANT)) == self.size

    async def start(self) -> None:
        learned = self.open()
        assert len(learned.entries(TENANT)) == self.size
        learned.close()

    async def look_up_rows(self) -> None:
        for number in range(LOOK_UPS // 10):
            await self.registry.tool(TENANT, self.names[number * 37 % self.size])

    async def look_up_entries(self) -> None:
        for number in range(LOOK_UPS):
            assert self.learned.find(TENANT, self.names[number * 37 % self.size]) is not None


Work = Callable[[Shop], Coroutine[Any, Any, None]]
WORKS: tuple[tuple[str, Work, bool], ...] = (
    ("list, per tool", Shop.list_all, True),
    ("start of a process, per tool", Shop.start, True),
    ("look-up of a record", Shop.look_up_rows, False),
    ("look-up of an entry", Shop.look_up_entries, False),
)


def _spent(work: Coroutine[Any, Any, None]) -> float:
    begun = time.process_time()
    asyncio.run(work)
    return time.process_time() - begun


def _unseen(tx: Transaction, change: RegistryChange) -> None:
    """The audit log of a benchmark."""
    del tx, change


def _registered(name: str, revision: int) -> RegisteredTool:
    definition = SynthesizedTool(
        tool_id=name,
        description="Searches and reads.",
        parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        steps=(
            StepDefinition(0, "search", {"query": "$.parameters.q"}),
            StepDefinition(1, "read", {"url": "$.steps[0].output.url"}),
        ),
        source_chain_id="chain",
        created_at=_NOW,
    )
    version = ToolVersion(
        tool_id=name,
        version=1,
        status=ToolStatus.PROMOTED,
        text=definition_text(definition),
        validation={"passed": True, "equivalence_score": {"mean_similarity": 1.0}},
        created_at=_NOW,
        promoted_at=_NOW,
    )
    record = ToolRecord(
        tenant_id=TENANT,
        tool_id=name,
        current_version=1,
        definition_path=f"{name}/v1.json",
        registered_at=_NOW,
        chain_key=chain_key(definition),
        status=ToolStatus.PROMOTED,
        in_service_since=_NOW,
        revision=revision,
    )
    return RegisteredTool(record, (version,))


def measure(harness: Harness) -> list[Row]:
    with ExitStack() as stack:
        shops: dict[int, Shop] = {}
        for size in (FEW, MANY):
            database, folder = stack.enter_context(fresh_sqlite())
            shops[size] = Shop(database, folder, size)
            stack.callback(shops[size].learned.close)
        few, many = shops[FEW], shops[MANY]
        against = f"a registry of {FEW} tools"
        rows = [
            harness.compare(
                f"{name}, {MANY} tools",
                many.contender(work, per_tool=per_tool),
                few.contender(work, per_tool=per_tool),
                against=against,
                aim=2.0,
            )
            for name, work, per_tool in WORKS
        ]
        return [*rows, _counted(harness, few)]


def _counted(harness: Harness, shop: Shop) -> Row:
    collector = Collector(shop.database)
    catalog = Catalog(shop.functions, shop.learned)
    calls = Calls(catalog, collector, Claims(shop.database), [PythonConnector(shop.functions)])
    calls.add_connector(FlowConnector(calls, catalog, shop.learned))

    async def call_many(*, counted: bool) -> None:
        for number in range(CALLS):
            context = CallContext("bench", durable=False)
            await calls.call(shop.names[number % shop.size], {"q": "x"}, context)
        await asyncio.to_thread(collector.flush)
        if counted:
            await shop.registry.fold_usage(TENANT)
            await shop.registry.tool(TENANT, shop.names[0])

    row = harness.compare(
        "calls of learned tools, counted",
        lambda: _spent(call_many(counted=True)),
        lambda: _spent(call_many(counted=False)),
        against="the same calls, not counted",
        aim=1.05,
    )
    collector.close()
    return row
