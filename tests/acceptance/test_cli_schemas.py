"""The exported JSON Schemas fit what TwinRaven really writes, every entity and every field of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest

from tests.acceptance.cli import Shell
from tests.registry_kit import TENANT
from tests.registry_kit import House as Workshop
from tests.unit.catalog.town import Town
from twinraven.calls import Approvals, ApprovalWish, CallContext, Envelope, SkillInvocationRequest, ToolCall
from twinraven.flow import ErrorStrategy, RetryPolicy, SynthesizedTool
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import ApprovalPending, PolicyViolation
from twinraven.huginn import CandidateChain, EquivalenceScore, LearningRound, ValidationResult
from twinraven.muninn import EventFilter, RetentionNote, SqlEventStore
from twinraven.registry import Adoption
from twinraven.storage import Database

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
    wish = ApprovalWish(
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


@pytest.mark.req("AE-13")
async def test_real_documents_fit_their_exported_schemas(
    schemas: dict[str, dict[str, Any]], sqlite_database: Database, tmp_path: Path
) -> None:
    """Every entity is exported, and whatever is written of it is valid, complete and described."""
    workshop = Workshop(sqlite_database, tmp_path / "tools")
    town = Town(sqlite_database, tmp_path / "keys")
    seen: set[str] = set()
    for source in (remembered(workshop), learned(workshop), owned(town), asked(sqlite_database)):
        async for name, document in source:
            seen.add(name)
            fault = next(iter(validator(schemas[name]).iter_errors(json.loads(json.dumps(document)))), None)
            assert fault is None, f"{name}: {fault}"
            described: dict[str, Any] = schemas[name]["properties"]
            assert set(document) - {"later"} <= set(described), name
    assert seen == set(schemas)
    workshop.close()
    town.house.redactor.close()


@pytest.mark.req("AE-13")
def test_exported_schemas_refuse_what_is_none(schemas: dict[str, dict[str, Any]]) -> None:
    """They are schemas of the dialect they name, and say no to an empty object and to fields of another kind."""
    for name, schema in schemas.items():
        jsonschema_rs.meta.validate(schema)
        assert schema["$schema"].endswith("2020-12/schema")
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
