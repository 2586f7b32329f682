"""A small house around the registry for its tests: three tools, a chain they form, and a verdict that passed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from twinraven.calls import CallContext, Calls, Claims
from twinraven.catalog import Catalog, FunctionTools, tool
from twinraven.connectors import PythonConnector
from twinraven.flow import FlowConnector, StepDefinition
from twinraven.foundation.clock import now_micros
from twinraven.huginn import SqlChainStore
from twinraven.muninn import Collector
from twinraven.registry import (
    AuditRegistryChange,
    LearnedTools,
    Maintenance,
    Registry,
    RegistryChange,
    RegistrySettings,
    SupportProbe,
    SynthesizedTool,
    ToolFolders,
    Verification,
)
from twinraven.storage import ChangeFeed, Database, Transaction

TENANT = "default"
BEGAN = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)
DAY = 86_400_000_000


@tool(effect="read")
def search(query: str) -> dict[str, Any]:
    """Find documents."""
    return {"top_result_url": f"doc:{query}"}


@tool(effect="read", sensitivity="medium")
def read(url: str) -> dict[str, Any]:
    """Read one document."""
    return {"text": f"text of {url}"}


@tool(effect="read")
def summarize(content: str, max_length: int = 500) -> str:
    """Make a text shorter."""
    return content[:max_length]


@tool()
def get_weather(place: str) -> str:
    """A tool whose effect nobody declared."""
    return f"rain in {place}"


def make_definition(
    tool_id: str = "search_read",
    *,
    steps: tuple[str, ...] = ("search", "read"),
    version: int = 1,
    chain_id: str = "",
    description: str = "Searches and reads.",
    replaces: str | None = None,
) -> SynthesizedTool:
    """A definition whose later steps take what the first one found."""
    first = StepDefinition(0, steps[0], _first_mapping(steps[0]))
    later = [StepDefinition(number, name, _later_mapping(name)) for number, name in enumerate(steps) if number]
    return SynthesizedTool(
        tool_id=tool_id,
        description=description,
        parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        steps=(first, *later),
        source_chain_id=chain_id,
        created_at=BEGAN,
        version=version,
        replaces=replaces,
    )


def _first_mapping(tool_id: str) -> dict[str, Any]:
    names = {"search": "query", "read": "url", "summarize": "content", "get_weather": "place"}
    return {names.get(tool_id, "q"): "$.parameters.q"}


def _later_mapping(tool_id: str) -> dict[str, Any]:
    sources = {
        "read": {"url": "$.steps[0].output.top_result_url"},
        "summarize": {"content": "$.parameters.q"},
        "search": {"query": "$.parameters.q"},
        "get_weather": {"place": "$.parameters.q"},
    }
    return sources.get(tool_id, {"q": "$.parameters.q"})


def make_verdict(*, passed: bool = True, score: float = 0.99) -> dict[str, Any]:
    return {
        "result_id": str(uuid4()),
        "sessions_replayed": 40,
        "equivalence_score": {
            "mean_similarity": score,
            "min_similarity": score,
            "method": "exact_match",
            "threshold": 0.95,
        },
        "error_parity": True,
        "latency_ratio": 0.7,
        "passed": passed,
        "failure_reasons": [] if passed else ["the answers differ"],
    }


async def add_chain(
    database: Database, *tools: str, tenant_id: str = TENANT, support: float = 0.4, confidence: float = 0.8
) -> str:
    """Store a chain as mining would, and give its id."""
    import json

    chain_id = str(uuid4())
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "chain_id": chain_id,
        "tools": json.dumps(tools or ("search", "read")),
        "support": support,
        "confidence": confidence,
        "avg_latency_ms": 12,
        "failure_rate": 0.0,
        "sample_event_ids": "[]",
        "discovered_at": 0,
        "mining_config": '{"algorithm": "contiguous"}',
        "detail": "{}",
    }

    def work(tx: Transaction) -> None:
        tx.insert_rows("candidate_chains", tuple(values), [tuple(values.values())])

    await database.write(tenant_id, work)
    return chain_id


@dataclass
class Clock:
    """Time that moves when a test says so, and a microsecond by itself."""

    now: int = 1_768_000_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


class RealClock(Clock):
    """Time as it is, for processes that meet."""

    def __call__(self) -> int:
        return now_micros()


@dataclass
class House:
    """A registry with everything it stands on."""

    database: Database
    folder: Path
    settings: RegistrySettings = field(default_factory=RegistrySettings)
    clock: Clock = field(default_factory=Clock)
    probe: SupportProbe | None = None
    poll_s: float = 0.05
    told: list[RegistryChange] = field(default_factory=list[RegistryChange])
    witness: AuditRegistryChange | None = None

    def __post_init__(self) -> None:
        self.functions = FunctionTools([search, read, summarize, get_weather])
        self.changes = ChangeFeed(self.database, poll_s=self.poll_s)
        self.learned = LearnedTools(self.database, [self.functions], self.changes)
        self.catalog = Catalog(self.functions, self.learned)
        self.registry = Registry(
            self.database,
            storage_dir=self.folder,
            settings=self.settings,
            find_tool=self.learned.find_any,
            chains=SqlChainStore(self.database),
            witness=self.witness or self._hear,
            announce=self.learned.refresh,
            micros=self.clock,
        )
        self.maintenance = Maintenance(self.registry, self.database, self.settings, probe=self.probe, micros=self.clock)
        self.verification = Verification(
            self.database, ToolFolders(self.folder), witness=self.witness or self._hear, announce=self.learned.refresh
        )
        self.collector = Collector(self.database)
        self.calls = Calls(
            self.catalog, self.collector, Claims(self.database), [PythonConnector(self.functions)], micros=self.clock
        )
        self.calls.add_connector(FlowConnector(self.calls, self.catalog, self.learned))

    def _hear(self, tx: Transaction, change: RegistryChange) -> None:
        del tx
        self.told.append(change)

    def with_settings(self, **changes: Any) -> House:
        """Another house on the same ground, under other settings."""
        return replace(self, settings=replace(self.settings, **changes), told=[])

    async def draft(
        self, tool_id: str = "search_read", *, tenant_id: str = TENANT, evidence: str | None = None, **fields: Any
    ) -> SynthesizedTool:
        """A numbered draft of a new synthesis."""
        steps: tuple[str, ...] = fields.get("steps", ("search", "read"))
        chain_id = await add_chain(self.database, *steps, tenant_id=tenant_id)
        definition = make_definition(tool_id, chain_id=chain_id, **fields)
        made = await self.registry.draft(tenant_id, definition, evidence_hash=evidence or str(uuid4()))
        return made.definition

    async def register(self, tool_id: str = "search_read", *, tenant_id: str = TENANT, **fields: Any) -> int:
        """A new version, tested; gives its number."""
        definition = await self.draft(tool_id, tenant_id=tenant_id, **fields)
        await self.registry.register(tenant_id, definition, make_verdict())
        return definition.version

    async def promote(self, tool_id: str = "search_read", *, tenant_id: str = TENANT, **fields: Any) -> int:
        """A new version, in service; gives its number."""
        version = await self.register(tool_id, tenant_id=tenant_id, **fields)
        await self.registry.promote(tenant_id, tool_id, by="ann")
        return version

    async def call(self, tool_id: str, params: dict[str, Any], *, session: str = "s", tenant_id: str = TENANT) -> Any:
        return await self.calls.call(tool_id, params, CallContext(session), tenant_id=tenant_id)

    def close(self) -> None:
        self.learned.close()
        self.changes.close()
        self.collector.close()
