"""The exported JSON Schemas fit what TwinRaven really writes, every entity and every field of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest

from tests.acceptance.cli import Shell
from tests.homes import opened_home
from tests.integration.test_thinking import notes_of
from tests.planning import planning, steps
from tests.registry_kit import TENANT
from tests.registry_kit import House as Workshop
from tests.unit.catalog.town import Town
from tests.working import Shop, reach, shop_home, working
from twinraven.calls import ApprovalRequest, Approvals, CallContext, Envelope, SkillInvocationRequest, ToolCall
from twinraven.engine import RUN_STATES, RunRequest
from twinraven.flow import ErrorStrategy, RetryPolicy
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import ApprovalPending, PolicyViolation
from twinraven.huginn import CandidateChain, EquivalenceScore, LearningRound, ValidationResult
from twinraven.knowledge import CompressionRequest, Entities, Knowledge, NewEpisode
from twinraven.metrics import SeriesQuery
from twinraven.muninn import EventFilter, RetentionNote, SqlEventStore
from twinraven.plans import MemoryPlace, PlanRun
from twinraven.processes import Process
from twinraven.registry import Adoption, SynthesizedTool
from twinraven.storage import Database
from twinraven.tenancy import LOCAL

EXAMPLE = Path(__file__).parents[1] / "unit" / "registry" / "search_read_summarize.json"
Document = tuple[str, dict[str, Any]]


@pytest.fixture
def schemas(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """What the command writes, by entity."""
    shell = Shell(tmp_path)
    said = shell.json("schemas", "export", "out/schemas")
    files = sorted((tmp_path / "out" / "schemas").iterdir())
    assert sorted(said["files"]) == [path.name for path in files]
    return {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in files}


async def remembered(workshop: Workshop) -> AsyncIterator[Document]:
    """Calls, and what they leave."""
    for name, params in (("search", {"query": "x"}), ("search", {"query": 7})):
        request = SkillInvocationRequest(
            name, params, idempotency_key=f"{params}", side_effect="read", extra={"later": 1}
        )
        response = await workshop.calls.invoke(request, CallContext("s", turn=1, outside_input="please"))
        yield "SkillInvocationRequest", request.as_json()
        yield "SkillInvocationResponse", response.as_json()
        yield "ToolCall", ToolCall.of(request, response, step_id="1").as_json()
        yield "Envelope", Envelope.of_request(request).as_json()
        yield "Envelope", Envelope.of_response(request, response).as_json()
    workshop.collector.flush()
    store = SqlEventStore(workshop.database)
    for event in await store.events(TENANT, EventFilter()):
        yield "MuninnEvent", event.as_json()
    yield "Session", (await store.session(TENANT, "s")).as_json()
    yield "Error", PolicyViolation("no", rule="rules[1]").as_json()
    now = utc_now()
    yield "RetentionNote", RetentionNote(TENANT, "n", now, now, 1, 2, 0, 1, now, now, "hash").as_json()


async def learned(workshop: Workshop) -> AsyncIterator[Document]:
    """Tools in testing, in service and in quarantine, and the chains and verdicts behind them."""
    await workshop.promote()
    await workshop.register(description="Another.")
    await workshop.registry.quarantine(TENANT, "search_read", reason="odd answers", by="ada")
    tool = await workshop.registry.tool(TENANT, "search_read")
    yield "ToolRecord", tool.record.as_json()
    for fitted, mean in ((0, None), (5, 2.5)):
        yield "Adoption", Adoption(utc_now(), 9, fitted, 0, 0.0, 1.0, fitted, 0, 1, mean, mean).as_json()
    for version in tool.versions:
        yield "ToolVersion", version.as_json()
        yield "SynthesizedTool", version.definition.as_json()
    example = SynthesizedTool.from_json(json.loads(EXAMPLE.read_text()))
    strategy = ErrorStrategy({0: RetryPolicy(2, "exponential", 10)}, {1: (replace(example.steps[0], for_each="$.x"),)})
    full = replace(example, error_strategy=strategy, timeout_ms=5, output={"a": "$.x"}, evidence={"n": 1}, replaces="y")
    for definition in (example, full):
        yield "SynthesizedTool", definition.as_json()
        yield "ErrorStrategy", definition.error_strategy.as_json()
        for step in (*definition.steps, *strategy.fallback_steps[1]):
            yield "StepDefinition", step.as_json()
    yield "RetryPolicy", strategy.retry_policy[0].as_json()
    for entry in workshop.catalog.entries(TENANT):
        yield "ToolEntry", entry.as_json()
    score = EquivalenceScore(0.99, 0.9, "exact_match", 0.95)
    yield "EquivalenceScore", score.as_json()
    yield (
        "ValidationResult",
        ValidationResult(uuid4(), "x", 1, 40, score, True, None, False, ("slow",), utc_now()).as_json(),
    )
    chain = CandidateChain.from_json(CHAIN).as_json()
    yield "CandidateChain", chain
    yield "ChainLink", chain["links"][0]
    yield "LearningRound", LearningRound(uuid4(), "running", utc_now(), "ada", None, "mining").as_json()
    over = LearningRound(uuid4(), "done", utc_now(), "ada", utc_now(), "weighing", {"proposals": []}, None)
    yield "LearningRound", over.as_json()


CHAIN: dict[str, Any] = {
    "chain_id": str(uuid4()),
    "tools": ["search", "read"],
    "support": 0.4,
    "confidence": 0.8,
    "avg_latency_ms": 12,
    "failure_rate": 0.0,
    "sample_event_ids": [str(uuid4())],
    "discovered_at": "2026-11-15T12:00:00.000000Z",
    "mining_config": {"algorithm": "contiguous"},
    "sessions": 4,
    "occurrences": 5,
    "latency_known": True,
    "links": [{"from_tool": "search", "to_tool": "read", "transition_probability": 0.8, "avg_gap_ms": None}],
    "value": 1.5,
    "why": "saves two turns",
}


async def owned(town: Town) -> AsyncIterator[Document]:
    """Tenants and people, their keys and secrets, what they defined, and the evidence of it."""
    tenancy = town.house.tenancy
    tenant = await tenancy.create_tenant("acme")
    user = await tenancy.add_user(tenant.tenant_id, "ada")
    issued = await tenancy.issue_key(tenant.tenant_id, user.user_id, label="laptop")
    yield "Tenant", tenant.as_json()
    yield "User", user.as_json()
    yield "ApiKey", issued.key.as_json()
    yield "Secret", (await town.house.keep()).as_json()
    service = await town.serve()
    yield "Service", service.as_json()
    yield "Tool", (await town.equip(service)).as_json()
    yield "Template", (await town.draw()).as_json()
    for record in await town.house.audit.entries("default"):
        yield "AuditRecord", record.as_json()


async def asked(database: Database) -> AsyncIterator[Document]:
    """A call that waits for somebody's word."""
    approvals = Approvals(database)
    wish = ApprovalRequest(
        tenant_id="default",
        tool_id="refund",
        key="refund-1",
        is_spare_key=False,
        body=b"{}",
        arguments=b"{}",
        covers=("refund",),
        definition={"refund": "f" * 64},
        effect="write",
        sensitivity="high",
        rule="rules[1]",
        reason="refunds need a person",
        caller="local",
        session_id="s1",
        correlation_id="c1",
    )
    with pytest.raises(ApprovalPending):
        await approvals.seek(wish)
    for approval in await approvals.list("default"):
        yield "Approval", approval.as_json()


async def worked(folder: Path) -> AsyncIterator[Document]:
    """A saved process, a durable run, and the worker that advanced it."""
    steps = [
        {"id": "look", "tool": "look", "inputs": {"item": "tea"}, "output": {"variable": "seen", "required": True}}
    ]
    process = Process.from_json({"id": "buy", "description": "Look at it", "initialContext": [], "steps": steps})
    with shop_home(folder, Shop()) as raven:
        yield "ProcessVersion", (await raven.processes.save(process, by=LOCAL)).as_json()
        run = await raven.runs.start(RunRequest({"item": "tea"}, tool_id="look"), by=LOCAL)
        async with working(raven):
            yield "RunDetail", (await reach(raven, run.run_id, "succeeded")).as_json()
            for worker in await raven.runs.workers():
                yield "Worker", worker.as_json()
        for each in await raven.runs.list("default"):
            yield "Run", each.as_json()


async def recalled(database: Database) -> AsyncIterator[Document]:
    """What was said, whom it was about, and two names of one thing."""
    knowledge, entities = Knowledge(database), Entities(database)
    await knowledge.remember("default", NewEpisode("g", "n1", "I moved to Lisbon.", speaker="Ann"))
    for episode in await knowledge.episodes("default", group_id="g"):
        yield "Episode", episode.as_json()
    for hit in await knowledge.search("default", "Who moved to Lisbon?", group_id="g"):
        yield "Hit", hit.as_json()
    for entity in await entities.entities("default"):
        details = await entities.details("default", entity.entity_id)
        yield "KnownEntity", entity.as_json()
        yield "EntityDetails", details.as_json()
        for fact in details.relations:
            yield "TemporalFact", fact.as_json()
    one = await entities.create("default", "Acme Corp", "makes tools")
    other = await entities.create("default", "ACME Corporation", "makes tools")
    for proposal in await entities.find_proposals("default"):
        yield "MergeProposal", proposal.as_json()
    yield "EntityMerge", (await entities.merge("default", one.entity_id, other.entity_id)).as_json()


async def reflected(folder: Path) -> AsyncIterator[Document]:
    """What stands for a dialogue, notes about a user, what stands around an entity, and what is measured."""
    with opened_home(folder, knowledge={"introspection_compression_threshold": 1}) as raven:
        said = await raven.knowledge.remember(
            "default", NewEpisode("g", "n1", "We met Clara in Lisbon.", speaker="Ann")
        )
        begun = await raven.summaries.compress(CompressionRequest("g", (said.episode_id,)), by=LOCAL)
        yield "Compression", begun.as_json()
        async with working(raven):
            await reach(raven, f"compress-{begun.compression_id}", "succeeded")
            notes = await notes_of(raven, 1)
        yield "Introspection", notes[0].as_json()
        for reflection in await raven.introspections.reflections("default", LOCAL.user_id):
            yield "Reflection", reflection.as_json()
        for summary in await raven.summaries.summaries("default"):
            yield "Summary", summary.as_json()
        for active in await raven.entities.active("default", "g"):
            yield "ActiveEntity", active.as_json()
            around = await raven.entities.neighbourhood("default", active.entity.entity_id)
            yield "EntityNeighbourhood", around.as_json()
        await raven.metrics.collect("default")
        now = datetime.now(UTC)
        wish = SeriesQuery(now - timedelta(days=1), now + timedelta(hours=1), 86_400)
        for metric in await raven.metrics.definitions("default"):
            yield "MetricDefinition", metric.as_json()
            for value in await raven.metrics.values("default", metric.metric_id, wish):
                yield "MetricValue", value.as_json()
            for point in await raven.metrics.series("default", metric.metric_id, wish):
                yield "MetricPoint", point.as_json()


async def planned(folder: Path) -> AsyncIterator[Document]:
    """A plan that was repaired, with everything it is made of."""
    given = steps({"tool": "look", "arguments": {"Item": "lamp"}}, {"tool": "broken", "arguments": {"item": "lamp"}})
    async with planning(folder, "Hm.") as home:
        home.shop.failures = 1
        found = await home.run(plan=given)
        entry = await home.raven.plan_memory.write(MemoryPlace("default"), "a", [1], metadata={"by": "me"})
    assert found.state.plan is not None
    for shown in plans_in_every_status(found):
        yield "PlanRun", shown.as_json()
    yield "OrchestrationState", found.state.as_json()
    yield "Plan", found.state.plan.as_json()
    yield "PlanStep", found.state.plan.steps[0].as_json()
    yield "MemoryEntry", entry.as_json()
    for logged in found.state.log:
        yield "LogEntry", logged.as_json()
    for action in found.state.supervisor_actions:
        yield "SupervisorAction", action.as_json()
        yield "SupervisorAction", replace(action, attempt_number=2).as_json()
    for call in found.state.tool_history:
        yield "ToolCall", call.as_json()


def plans_in_every_status(found: PlanRun) -> Iterator[PlanRun]:
    """A plan as it is shown while and after it runs, made and not made yet."""
    for state, code, plan in product(RUN_STATES, (None, "PLAN_TTL_EXPIRED"), (found.state.plan, None)):
        run = replace(found.run, state=state, error_code=code)
        yield replace(found, run=run, state=replace(found.state, plan=plan))


async def conversed(folder: Path) -> AsyncIterator[Document]:
    """A conversation with one turn."""
    with opened_home(folder) as raven:
        begun = await raven.conversations.create(by=LOCAL, title="Orders")
        turn = await raven.conversations.say(begun.conversation_id, "Where is it?", by=LOCAL)
        yield "Conversation", (await raven.conversations.get(begun.conversation_id, by=LOCAL)).as_json()
        yield "ConversationTurn", turn.as_json()
        yield "Alternative", turn.active.as_json()


ANSWERED = frozenset(
    [
        "Budget",
        "Campaign",
        "Goal",
        "InboxItem",
        "JudgeDecision",
        "KeyHistory",
        "KeyRepeat",
        "LedgerReport",
        "LedgerTransfer",
        "MediaAsset",
        "MoneyTransaction",
        "OutgoingMessage",
        "PolicyCheck",
        "PublishEvent",
        "Reservation",
        "SignIn",
        "SpecVersion",
        "Task",
        "TaskDetail",
        "WalletBalance",
        "WorkerResult",
        "WorkerRun",
        "WorkingMemory",
    ]
)
"""Held against the same schemas as answers of the API, by test_api_document."""
RECEIVED = frozenset({"PlannerTaskEnvelope", "WorkerResultEnvelope", "JudgeDecisionEnvelope"})
"""Messages of others, which these schemas check when they come."""


SOMETIMES: dict[str, set[str]] = {
    "Envelope": {"error"},
    "SynthesizedTool": {"timeout_ms", "evidence", "output", "replaces"},
    "StepDefinition": {"for_each"},
    "Template": {"requires_secret", "protocol", "type", "connection_schema"},
}
"""What is written only where it says something."""
WRONG: list[Document] = [
    ("Plan", {"goal": ""}),
    ("Plan", {"steps": []}),
    ("PlanStep", {"step_id": ""}),
    ("PlanStep", {"description": ""}),
    ("PlanStep", {"status": "done"}),
    ("OrchestrationState", {"ttl_remaining": -1}),
    ("SupervisorAction", {"attempt_number": 3}),
    ("SupervisorAction", {"action_type": "wish"}),
    ("LogEntry", {"step_number": 0}),
    ("LogEntry", {"ttl_remaining": -1}),
    ("LogEntry", {"timestamp": "yesterday"}),
    ("MemoryEntry", {"key": ""}),
    ("MemoryEntry", {"scope": "house"}),
    ("ToolCall", {"timestamp": "yesterday"}),
    ("MuninnEvent", {"latency_ms": -1}),
    ("Alternative", {"state": "gone"}),
]
"""What is no such entity."""


@pytest.mark.req("AE-13")
async def test_real_documents_fit_their_exported_schemas(
    schemas: dict[str, dict[str, Any]], sqlite_database: Database, tmp_path: Path
) -> None:
    """Every entity is exported, and whatever is written of it is valid, complete and described."""
    workshop = Workshop(sqlite_database, tmp_path / "tools")
    town = Town(sqlite_database, tmp_path / "keys")
    seen: dict[str, dict[str, Any]] = {}
    statuses: set[str] = set()
    for source in (
        remembered(workshop),
        learned(workshop),
        owned(town),
        asked(sqlite_database),
        worked(tmp_path / "shop"),
        recalled(sqlite_database),
        reflected(tmp_path / "reflected"),
        planned(tmp_path / "plans"),
        conversed(tmp_path / "talks"),
    ):
        async for name, document in source:
            seen[name] = document
            if name == "PlanRun":
                statuses.add(document["status"])
            fault = next(iter(validator(schemas[name]).iter_errors(json.loads(json.dumps(document)))), None)
            assert fault is None, f"{name}: {fault}"
            described: dict[str, Any] = schemas[name]["properties"]
            assert set(document) - {"later"} <= set(described), name
    assert seen.keys() | ANSWERED | RECEIVED == set(schemas)
    for name, document in seen.items():
        checked, sometimes = validator(schemas[name]), SOMETIMES.get(name, set[str]())
        for field in set(document) - sometimes - {"later"}:
            less = {other: value for other, value in document.items() if other != field}
            assert not checked.is_valid(less), f"{name} without {field}"
    for name, change in WRONG:
        assert not validator(schemas[name]).is_valid({**seen[name], **change}), f"{name} with {change}"
    assert statuses == set(schemas["PlanRun"]["properties"]["status"]["enum"])
    workshop.close()


@pytest.mark.req("AE-13")
def test_exported_schemas_refuse_what_is_none(schemas: dict[str, dict[str, Any]]) -> None:
    """They are schemas of the dialect they name, and say no to an empty object and to fields of another kind."""
    for name, schema in schemas.items():
        jsonschema_rs.meta.validate(schema)
        assert schema["$schema"].endswith("2020-12/schema")
        assert (schema["$id"], schema["title"]) == (f"urn:twinraven:{name}", name)
        assert not validator(schema).is_valid({}), name
    chain = CandidateChain.from_json(CHAIN).as_json()
    for change in ({"support": 1.5}, {"tools": ["one"]}, {"chain_id": 7}, {"discovered_at": "yesterday"}):
        assert not validator(schemas["CandidateChain"]).is_valid({**chain, **change})


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file in the way is an error with its name, not a traceback."""
    (tmp_path / "taken").write_text("")
    ended = Shell(tmp_path).run("schemas", "export", "taken")
    assert ended.code == 2
    assert "cannot create" in ended.err
