"""Composites on the real call path, with a real database under it: checked, gated, claimed and recorded throughout."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from twinraven.calls import (
    CallContext,
    Calls,
    Claims,
    PolicyDecision,
    SkillInvocationRequest,
    SkillInvocationResponse,
)
from twinraven.catalog import Catalog, FunctionTools, ToolEntry, tool
from twinraven.connectors import PythonConnector
from twinraven.flow import FlowConnector, entry_of, validate_definition
from twinraven.foundation.errors import NotFound, ToolUnavailable
from twinraven.muninn import Collector, MuninnEvent, SqlEventStore
from twinraven.registry import SynthesizedTool
from twinraven.storage import Database, Transaction

_SEED = Path(__file__).parents[1] / "unit" / "flow" / "search_read_summarize.json"


@dataclass
class World:
    """What the tools of these tests read and change."""

    written: list[str] = field(default_factory=list[str])
    fail_times: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list[str])


def functions(world: World) -> list[Callable[..., Any]]:
    @tool(effect="read")
    def search(query: str) -> dict[str, str]:
        return {"top_result_url": f"https://example.org/{query}"}

    @tool(effect="read")
    async def read(url: str) -> dict[str, str]:
        if world.fail_times:
            world.fail_times -= 1
            raise ToolUnavailable("the page is away")
        return {"text": f"all about {url}"}

    @tool(effect="read")
    def summarize(content: str, max_length: int) -> str:
        return content[:max_length]

    @tool(effect="write")
    async def save(text: str) -> str:
        world.written.append(text)
        return f"saved {text}"

    @tool(effect="read")
    async def hang() -> str:
        world.started.set()
        try:
            await asyncio.sleep(60)
        finally:
            world.ended.append("hang")
        return "never"

    @tool(effect="write")
    async def hang_writing() -> str:
        return await hang()

    return [search, read, summarize, save, hang, hang_writing]


class Learned:
    """Definitions held in memory, as a source of definitions and of catalogue entries."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._definitions: dict[str, SynthesizedTool] = {}
        self._entries: dict[str, ToolEntry] = {}

    def add(self, definition: SynthesizedTool) -> None:
        self._definitions[definition.tool_id] = definition
        self._entries[definition.tool_id] = entry_of(definition, self._find_any)

    def definition(self, tenant_id: str, tool_id: str) -> SynthesizedTool:
        del tenant_id
        return self._definitions[tool_id]

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self._entries.get(tool_id)

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return list(self._entries.values())

    def _find_any(self, tool_id: str) -> ToolEntry | None:
        try:
            return self._catalog.find("default", tool_id)
        except NotFound:
            return None


class Gate:
    """Notes what it was asked and denies what it was told to."""

    judges_reads = False

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.denied: set[str] = set()

    async def decide(self, entry: ToolEntry, request: SkillInvocationRequest, context: CallContext) -> PolicyDecision:
        del request, context
        self.asked.append(entry.tool_id)
        return PolicyDecision("deny" if entry.tool_id in self.denied else "allow", f"{entry.tool_id} was judged")


class Home:
    """Everything between a caller and the database."""

    def __init__(self, database: Database) -> None:
        self.world = World()
        self.gate = Gate()
        self.events = SqlEventStore(database)
        self.collector = Collector(database)
        tools = FunctionTools(functions(self.world))
        self.catalog = Catalog(tools)
        self.learned = Learned(self.catalog)
        self.catalog.add(self.learned)
        self.python = PythonConnector(tools)
        self.calls = Calls(self.catalog, self.collector, Claims(database), [self.python], gate=self.gate)
        self.calls.add_connector(FlowConnector(self.calls, self.catalog, self.learned))

    def learn(self, *steps: dict[str, Any], tool_id: str = "composite", **fields: Any) -> None:
        body: dict[str, Any] = {
            "tool_id": tool_id,
            "description": "What a test composes.",
            "parameters": {"type": "object"},
            "steps": [{"step_index": number, "input_mapping": {}, **step} for number, step in enumerate(steps)],
            "source_chain_id": "0b0e7a3c-7a9c-4f0e-8a66-6d4ad0a1f0aa",
            "created_at": "2026-01-15T10:30:00Z",
            **fields,
        }
        self.learned.add(SynthesizedTool.from_json(body))

    async def invoke(
        self, tool_id: str, params: dict[str, Any] | None = None, *, key: str | None = None, **context: Any
    ) -> SkillInvocationResponse:
        request = SkillInvocationRequest(
            tool_name=tool_id, payload=params or {}, idempotency_key=key, correlation_id="corr", task_id="task"
        )
        return await self.calls.invoke(request, CallContext("session", **context))

    async def recorded(self) -> list[MuninnEvent]:
        return sorted((await self.events.session("default", "session")).events, key=lambda event: event.arrival)

    def close(self) -> None:
        self.collector.close()
        self.python.close()


@pytest.fixture
def home(sqlite_database: Database) -> Generator[Home]:
    opened = Home(sqlite_database)
    yield opened
    opened.close()


def saving(text: Any, **fields: Any) -> dict[str, Any]:
    return {"tool_id": "save", "input_mapping": {"text": text}, **fields}


@pytest.mark.req("RG-02")
async def test_the_formats_own_example_runs_on_the_call_path(home: Home) -> None:
    """The example, verbatim, is validated, called like any tool, and gives what its three tools gave."""
    definition = SynthesizedTool.from_json(json.loads(_SEED.read_text(encoding="utf-8")))
    validate_definition(definition, lambda tool_id: home.catalog.find("default", tool_id))
    home.learned.add(definition)
    response = await home.invoke("search_read_summarize", {"query": "ravens", "max_length": 9})
    assert response.error is None
    assert response.output["result"] == "all about"
    assert [part["tool_id"] for part in response.output["earlier"]] == ["search", "read"]
    refused = await home.invoke("search_read_summarize", {})
    assert refused.error is not None
    assert refused.error["code"] == "VALIDATION_FAILED"


@pytest.mark.req("TR-23")
async def test_inner_calls_are_recorded_as_children(home: Home) -> None:
    """Each inner call is an event whose parent is the composite's, in the same session, turn, task and correlation."""
    home.learned.add(SynthesizedTool.from_json(json.loads(_SEED.read_text(encoding="utf-8"))))
    response = await home.invoke("search_read_summarize", {"query": "ravens"}, turn=3)
    *inner, outer = await home.recorded()
    assert [event.tool_id for event in inner] == ["search", "read", "summarize"]
    assert outer.tool_id == "search_read_summarize"
    assert outer.event_id == response.event_id
    assert outer.parent_event_id is None
    for event in inner:
        assert event.parent_event_id == outer.event_id
        assert (event.turn, event.task_id, event.correlation_id) == (3, "task", "corr")
        assert event.timestamp >= outer.timestamp
    assert inner[2].input_params == {"content": "all about https://example.org/ravens", "max_length": 500}


@pytest.mark.req("TR-09")
async def test_retries_and_fallbacks_are_tagged(home: Home) -> None:
    """The record tells a retried call from a first one, and a stand-in from what it stands in for."""
    home.world.fail_times = 2
    home.learn(
        {"tool_id": "read", "input_mapping": {"url": "u"}},
        error_strategy={
            "retry_policy": {"0": {"max_retries": 1, "backoff_strategy": "fixed", "backoff_ms": 0}},
            "fallback_steps": {"0": [{"step_index": 0, "tool_id": "search", "input_mapping": {"query": "u"}}]},
        },
    )
    response = await home.invoke("composite")
    assert response.error is None
    events = await home.recorded()
    assert [(event.tool_id, event.tags, event.error_code) for event in events[:3]] == [
        ("read", [], "TOOL_UNAVAILABLE"),
        ("read", ["retry"], "TOOL_UNAVAILABLE"),
        ("search", ["fallback-path"], None),
    ]


async def test_a_composite_under_one_key_has_its_effects_once(home: Home, sqlite_database: Database) -> None:
    """Inner writes are claimed as outer:step:item; asking again with the key answers and changes nothing."""
    home.learn(saving("first"), saving("$.item", for_each="$.parameters.texts"))
    once = await home.invoke("composite", {"texts": ["a", "b"]}, key="k1")
    again = await home.invoke("composite", {"texts": ["a", "b"]}, key="k1")
    assert again.replayed
    assert again.output == once.output
    assert home.world.written == ["first", "a", "b"]

    def keys(tx: Transaction) -> list[str]:
        return [row["idempotency_key"] for row in tx.fetch_all("SELECT idempotency_key FROM idempotency_claims")]

    assert sorted(await sqlite_database.read("default", keys)) == ["k1", "k1:0", "k1:1:0", "k1:1:1"]


async def test_a_composite_that_failed_half_way_goes_on_where_it_stopped(home: Home) -> None:
    """After a failure that may be retried, the same key runs the composite again without repeating its first write."""
    home.learn(saving("first"), {"tool_id": "read", "input_mapping": {"url": "u"}}, saving("$.steps[1].output.text"))
    home.world.fail_times = 1
    failed = await home.invoke("composite", key="k2")
    assert failed.error is not None
    assert failed.error["code"] == "TOOL_UNAVAILABLE"
    assert failed.error["retryable"]
    assert failed.error["details"]["changed"] == [0]
    assert (await home.invoke("composite", key="k2")).error is None
    assert home.world.written == ["first", "all about u"]


async def test_a_long_key_still_tells_the_steps_apart(home: Home) -> None:
    """A key of the greatest length works, although the inner keys are longer."""
    home.learn(saving("a"), saving("b"))
    assert (await home.invoke("composite", key="k" * 512)).error is None
    assert home.world.written == ["a", "b"]


async def test_policy_judges_the_composite_before_its_first_step(home: Home) -> None:
    """A composite is judged first, with what is inside it; denied, it calls nothing; its writes are judged again."""
    home.learn({"tool_id": "search", "input_mapping": {"query": "q"}}, saving("x"))
    home.gate.denied = {"composite"}
    denied = await home.invoke("composite", key="k3")
    assert denied.error is not None
    assert denied.error["code"] == "POLICY_VIOLATION"
    assert [event.tool_id for event in await home.recorded()] == ["composite"]
    home.gate.denied = {"save"}
    home.gate.asked.clear()
    inner = await home.invoke("composite", key="k4")
    assert home.gate.asked == ["composite", "save", "save"]
    assert inner.error is not None
    assert inner.error["code"] == "POLICY_VIOLATION"
    assert inner.error["details"]["step_index"] == 1
    assert home.world.written == []


async def test_reads_are_durable_with_the_composite(home: Home) -> None:
    """When a durable composite has answered, its inner events are on disk, without anybody flushing."""
    home.learn(*[{"tool_id": "search", "input_mapping": {"query": "q"}}] * 5)
    await home.invoke("composite")
    assert len(await home.recorded()) == 6


async def test_a_late_read_is_recorded_as_late(home: Home) -> None:
    """A step that outlives its time is an event with TOOL_TIMEOUT, and the tool was stopped."""
    home.learn({"tool_id": "hang", "timeout_ms": 30})
    response = await home.invoke("composite")
    assert response.error is not None
    assert response.error["code"] == "TOOL_TIMEOUT"
    assert home.world.ended == ["hang"]
    assert [event.error_code for event in await home.recorded()] == ["TOOL_TIMEOUT", "TOOL_TIMEOUT"]


async def test_a_late_write_is_unknown_inside_and_outside(home: Home) -> None:
    """A write cut off by its time is EFFECT_UNKNOWN for the step and for the composite, and is not sent again."""
    home.learn({"tool_id": "hang_writing", "timeout_ms": 400})
    response = await home.invoke("composite", key="k5")
    assert response.error is not None
    assert response.error["code"] == "EFFECT_UNKNOWN"
    again = await home.invoke("composite", key="k5")
    assert again.error is not None
    assert again.error["code"] == "EFFECT_UNKNOWN"
    assert home.world.ended == ["hang"]


async def test_a_cancelled_composite_leaves_nothing_running_and_is_recorded(home: Home) -> None:
    """Cancelling the caller stops the inner call; both leave an event."""
    home.learn({"tool_id": "search", "input_mapping": {"query": "q"}}, {"tool_id": "hang"})
    call = asyncio.create_task(home.invoke("composite"))
    await asyncio.wait_for(home.world.started.wait(), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert home.world.ended == ["hang"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [(event.tool_id, event.raised) for event in await home.recorded()] == [
        ("search", False),
        ("hang", True),
        ("composite", True),
    ]


async def test_composites_can_be_steps_of_composites(home: Home) -> None:
    """A learned tool inside another works, keeps keys apart at every level, and links its events level by level."""
    home.learn(saving("x"), saving("y"), tool_id="inner")
    home.learn({"tool_id": "inner"}, {"tool_id": "inner"}, tool_id="outer")
    assert (await home.invoke("outer", key="k6")).error is None
    assert home.world.written == ["x", "y", "x", "y"]
    by_id = {event.event_id: event for event in await home.recorded()}
    links = Counter(
        (event.tool_id, by_id[event.parent_event_id].tool_id) for event in by_id.values() if event.parent_event_id
    )
    assert links == {("save", "inner"): 4, ("inner", "outer"): 2}


async def test_a_circle_of_composites_is_refused_when_it_closes(home: Home) -> None:
    """Two composites that call each other end in an error that shows the circle, not in a hang."""
    home.learn({"tool_id": "search", "input_mapping": {"query": "q"}}, tool_id="two")
    home.learn({"tool_id": "two"}, tool_id="one")
    home.learn({"tool_id": "one"}, tool_id="two")
    response = await home.invoke("one")
    assert response.error is not None
    assert response.error["code"] == "DEFINITION_INVALID"
    assert "one → two → one" in response.error["message"]


async def test_many_callers_share_one_connector(home: Home) -> None:
    """Composites called at once do not mix their parents, parameters or outputs."""
    home.learned.add(SynthesizedTool.from_json(json.loads(_SEED.read_text(encoding="utf-8"))))
    words = [f"word{number}" for number in range(25)]
    responses = await asyncio.gather(*(home.invoke("search_read_summarize", {"query": word}) for word in words))
    assert [response.output["result"] for response in responses] == [
        f"all about https://example.org/{word}" for word in words
    ]
    by_id = {event.event_id: event for event in await home.recorded()}
    searches = [event for event in by_id.values() if event.tool_id == "search"]
    assert len(searches) == 25
    for event in searches:
        assert event.parent_event_id is not None
        assert by_id[event.parent_event_id].input_params["query"] == event.input_params["query"]


async def test_a_composite_without_some_of_its_steps_is_partial(home: Home) -> None:
    """A call that goes on without a step's answer says so in its status, also when it is answered from the record."""
    reading = {"tool_id": "read", "input_mapping": {"url": "https://example.org"}}
    home.learn(reading, saving("note"), error_strategy={"default_behavior": "skip"})
    assert (await home.invoke("composite", key="whole")).status == "success"
    home.world.fail_times = 99
    first = await home.invoke("composite", key="part")
    again = await home.invoke("composite", key="part")
    assert (first.status, first.error, again.status, again.replayed) == ("partial", None, "partial", True)
    assert first.output["incomplete"][0]["tool_id"] == "read"
