"""Derives the JSON Schemas of the entities, for programs that read TwinRaven's JSON.

They are derived from the classes themselves, so that they cannot fall behind; the table below says where the JSON form
departs from the fields. A schema describes every field and forbids no others, because contracts grow by addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_OBJECT: dict[str, Any] = {"type": "object"}
_OBJECT_OR_NULL: dict[str, Any] = {"type": ["object", "null"]}
_OBJECTS: dict[str, Any] = {"type": "array", "items": _OBJECT}
_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_MEASURED: dict[str, Any] = {"type": ["number", "boolean", "string"]}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
_SHARE = {"minimum": 0, "maximum": 1}
_ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "description": "stable; docs/errors.md lists them"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "details": {"type": "object"},
    },
    "required": ["code", "message", "retryable", "details"],
}
_ERROR_OR_NULL: dict[str, Any] = {"anyOf": [_ERROR, {"type": "null"}]}
_AUDIT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "started_at": {"type": "string", "format": "date-time"},
        "finished_at": {"type": "string", "format": "date-time"},
        "cost_estimate": {
            "type": "object",
            "properties": {"tokens": {"type": "integer"}, "currency": _TEXT_OR_NULL, "amount": _TEXT_OR_NULL},
            "required": ["tokens", "currency", "amount"],
        },
    },
    "required": ["started_at", "finished_at", "cost_estimate"],
}


_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_PLAN_STATUSES = ("planning", "executing", "waiting", "completed", "failed", "expired", "cancelled", "set_aside")
_USAGE: dict[str, Any] = {
    "type": "object",
    "properties": {"input_tokens": {"type": "integer"}, "output_tokens": {"type": "integer"}},
    "required": ["input_tokens", "output_tokens"],
}


class Entity(NamedTuple):
    """A class, and where its JSON form departs from its fields."""

    context: str
    renamed: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()
    stated: Mapping[str, Any] = {}
    """Schemas of what is no field, or has another form than its field."""
    spread: str | None = None
    """A field whose own fields stand beside the others."""
    sometimes: tuple[str, ...] = ()
    """What is written only where it says something."""
    limits: Mapping[str, Mapping[str, Any]] = {}
    """What the types do not say of a field."""


_ORIGIN: dict[str, Any] = {
    "tenant_id": {"type": "string"},
    "campaign_id": {"type": "string"},
    "goal_id": {"type": "string"},
    "task_id": _TEXT_OR_NULL,
    "request": _OBJECT,
}
"""Where what leaves the house comes from."""
_UNTOLD = ("lineage", "request_hash")
_OWNED = {"owner_id": "owner"}
_TOOL_PARTS = ("operation", "input_schema", "output_schema", "effect", "sensitivity", "timeout_ms")
_SERVICE_PARTS = ("type", "protocol", "connection_schema", "requires_secret")

ENTITIES: Mapping[str, Entity] = {
    "MuninnEvent": Entity("muninn", limits={"latency_ms": {"minimum": 0}}),
    "Session": Entity("muninn", left_out=("events",)),
    "RetentionNote": Entity(
        "muninn", left_out=("tenant_id", "signed"), stated={"key_id": _TEXT_OR_NULL, "signature": _TEXT_OR_NULL}
    ),
    "CandidateChain": Entity(
        "huginn",
        limits={"tools": {"minItems": 2}, "support": _SHARE, "confidence": _SHARE, "failure_rate": _SHARE},
    ),
    "ChainLink": Entity("huginn.mining", limits={"transition_probability": _SHARE}),
    "LearningRound": Entity("huginn"),
    "ValidationResult": Entity("huginn"),
    "EquivalenceScore": Entity("huginn"),
    "SynthesizedTool": Entity(
        "registry",
        sometimes=("timeout_ms", "output", "evidence", "replaces"),
        limits={"steps": {"minItems": 2}, "version": {"minimum": 1}},
    ),
    "StepDefinition": Entity("flow", sometimes=("for_each", "max_items", "id", "after", "on_failure")),
    "ErrorStrategy": Entity("flow"),
    "RetryPolicy": Entity("flow"),
    "Adoption": Entity(
        "registry",
        stated={
            "share": {"type": ["number", "null"], **_SHARE},
            "turns_saved": {"type": ["number", "null"]},
        },
        left_out=("days",),
        limits={"share_low": _SHARE, "share_high": _SHARE},
    ),
    "Episode": Entity("knowledge"),
    "Hit": Entity("knowledge", stated={"why": _OBJECT}, sometimes=("neighbours",)),
    "KnownEntity": Entity("knowledge", stated={"confidence": _OBJECT, "enrichment": _OBJECT_OR_NULL}),
    "TemporalFact": Entity("knowledge", limits={"confidence": _SHARE}),
    "EntityDetails": Entity(
        "knowledge", spread="entity", stated={"confidence": _OBJECT, "enrichment": _OBJECT_OR_NULL}
    ),
    "EntityNeighbourhood": Entity("knowledge", limits={"centrality": _SHARE}),
    "ActiveEntity": Entity(
        "knowledge",
        spread="entity",
        left_out=("facts", "added_at"),
        stated={"confidence": _OBJECT, "enrichment": _OBJECT_OR_NULL},
        limits={"relevance": _SHARE},
    ),
    "Summary": Entity("knowledge"),
    "Compression": Entity("knowledge"),
    "Introspection": Entity("knowledge"),
    "Reflection": Entity("knowledge"),
    "MetricDefinition": Entity("metrics"),
    "MetricValue": Entity("metrics", stated={"value": _MEASURED, "dimensions": _OBJECT}),
    "MetricPoint": Entity("metrics", stated={"value": _MEASURED}),
    "EntityMerge": Entity("knowledge"),
    "MergeProposal": Entity("knowledge", stated={"evidence": _OBJECT}, limits={"similarity": _SHARE}),
    "ToolRecord": Entity("registry", left_out=("tenant_id", "chain_key")),
    "ToolVersion": Entity("registry", left_out=("tool_id", "text"), stated={"sha256": {"type": "string"}}),
    "ToolEntry": Entity("catalog", left_out=("private_to", "runs_for", "parts", "definition", "target")),
    "Service": Entity("catalog", renamed={"service_id": "id", **_OWNED}, left_out=("tenant_id",), spread="structure"),
    "Tool": Entity(
        "catalog",
        renamed={"tool_id": "id", "service_id": "service", "secret_id": "secret", **_OWNED},
        left_out=("tenant_id",),
        spread="structure",
        stated={"operation": _OBJECT},
    ),
    "Template": Entity(
        "catalog",
        renamed={"template_id": "id", **_OWNED},
        left_out=("tenant_id",),
        spread="structure",
        stated={"kind": {"enum": ["service", "tool"]}, "operation": _OBJECT},
        sometimes=(*_TOOL_PARTS, *_SERVICE_PARTS),
    ),
    "Envelope": Entity("calls", left_out=("extra", "stated"), stated={"error": _ERROR}, sometimes=("error",)),
    "SkillInvocationRequest": Entity("calls", left_out=("extra",)),
    "SkillInvocationResponse": Entity(
        "calls", left_out=("output", "raw"), stated={"payload": _OBJECT, "error": _ERROR_OR_NULL, "audit": _AUDIT}
    ),
    "ToolCall": Entity("calls", stated={"timestamp": {"type": "string", "format": "date-time"}}),
    "Approval": Entity("calls", stated={"arguments": _OBJECT}),
    "KeyHistory": Entity("calls"),
    "KeyRepeat": Entity("calls"),
    "Reservation": Entity("inbox", stated={"name": {"type": "string"}}),
    "InboxItem": Entity(
        "inbox",
        left_out=("addressees",),
        stated={"evidence": _OBJECT, "item_id": {"type": "string"}, "bound_to": {"type": "string"}},
    ),
    "MediaAsset": Entity("governance", stated={"metadata": _OBJECT}),
    "PublishEvent": Entity("governance", spread="outgoing", left_out=_UNTOLD, stated=_ORIGIN),
    "OutgoingMessage": Entity("governance", spread="outgoing", left_out=_UNTOLD, stated=_ORIGIN),
    "MoneyTransaction": Entity(
        "governance", left_out=("request", "request_hash"), stated={"amount": {"type": "string"}}
    ),
    "WalletBalance": Entity(
        "effects",
        spread="wallet",
        left_out=("free",),
        stated={"balance": {"type": "string"}, "held": {"type": "string"}},
    ),
    "LedgerTransfer": Entity("ledger"),
    "LedgerReport": Entity("ledger", stated={"ok": {"type": "boolean"}, "sums": _OBJECT}),
    "Run": Entity("engine", limits={"epoch": {"minimum": 0}}),
    "RunDetail": Entity("engine", spread="run", stated={"error": _ERROR_OR_NULL}),
    "ProcessVersion": Entity("processes", spread="process", limits={"version": {"minimum": 1}}),
    "Conversation": Entity(
        "conversations",
        renamed={"conversation_id": "id"},
        left_out=("tenant_id", "default_since"),
        stated={"default_process": _OBJECT_OR_NULL, "forked_from": _OBJECT_OR_NULL},
    ),
    "Alternative": Entity(
        "conversations",
        renamed={"alternative_id": "id"},
        left_out=("speaker", "answers_active", "process_id", "process_version"),
        stated={
            "state": {"enum": ["generating", "done", "failed"]},
            "cache_status": {"enum": ["valid", "stale", "generating"]},
            "executed_by": _OBJECT_OR_NULL,
            "error": _ERROR_OR_NULL,
        },
        limits={"sequence": {"minimum": 1}, "tokens": {"minimum": 0}},
    ),
    "ConversationTurn": Entity(
        "conversations",
        renamed={"turn_id": "id", "created_at": "timestamp"},
        left_out=("number", "parent_turn", "via_alternative"),
        stated={"child_of": _OBJECT_OR_NULL, "alternatives": {"type": "array", "items": _OBJECT, "minItems": 1}},
        limits={"sequence": {"minimum": 1}},
    ),
    "WorkingMemory": Entity(
        "conversations",
        left_out=("material",),
        stated={
            "conversation_id": {"type": "string"},
            "current_turn_id": _TEXT_OR_NULL,
            "current_alternative_id": _TEXT_OR_NULL,
            **dict.fromkeys(("immediate_path", "active_entities", "items", "left_out"), _OBJECTS),
            **dict.fromkeys(("summaries", "introspection_context"), _TEXTS),
            "total_tokens": {"type": "integer", "minimum": 0},
            "fits": {"type": "boolean"},
            "last_updated": {"type": "string", "format": "date-time"},
        },
    ),
    "Plan": Entity("plans", limits={"goal": {"minLength": 1}, "steps": {"minItems": 1}}),
    "PlanStep": Entity("plans", limits={"step_id": {"minLength": 1}, "description": {"minLength": 1}}),
    "OrchestrationState": Entity(
        "plans", left_out=("results", "log", "grants"), limits={"ttl_remaining": {"minimum": 0}}
    ),
    "SupervisorAction": Entity(
        "plans",
        stated={"timestamp": _TIME, "error": _ERROR_OR_NULL},
        limits={"attempt_number": {"minimum": 1, "maximum": 2}},
    ),
    "LogEntry": Entity(
        "plans",
        stated={"timestamp": _TIME, "errors": {"type": "array", "items": _ERROR}},
        limits={"step_number": {"minimum": 1}, "ttl_remaining": {"minimum": 0}},
    ),
    "MemoryEntry": Entity("plans", limits={"key": {"minLength": 1}, "version": {"minimum": 1}}),
    "PlanRun": Entity(
        "plans",
        left_out=("wish", "output"),
        stated={
            "run_id": {"type": "string"},
            "status": {"enum": list(_PLAN_STATUSES)},
            "request": _TEXT_OR_NULL,
            "ttl": {"type": "integer", "minimum": 1},
            "results": _OBJECT,
            "cycles": {"type": "integer", "minimum": 0},
            "usage": _USAGE,
            "error": _ERROR_OR_NULL,
        },
    ),
    "Worker": Entity(
        "engine",
        renamed={
            "worker_id": "id",
            "current_job_id": "currentJobId",
            "last_heartbeat": "lastHeartbeat",
            "processed_count": "processedCount",
            "error_count": "errorCount",
            "created_at": "createdAt",
        },
    ),
    "Campaign": Entity("governance", limits={"state_version": {"minimum": 1}}),
    "Goal": Entity("governance"),
    "Budget": Entity("governance", stated={"total": {"type": "string"}}),
    "Task": Entity("governance"),
    "TaskDetail": Entity("governance", spread="task"),
    "PolicyCheck": Entity("governance", left_out=("extra",)),
    "SpecVersion": Entity("governance"),
    "WorkerRun": Entity("governance", limits={"attempt_number": {"minimum": 1}}),
    "WorkerResult": Entity(
        "governance",
        renamed={"evidence": "acceptance_evidence", "invocations": "tool_invocations"},
        left_out=("cost",),
        spread="lineage",
        stated={"error": _ERROR_OR_NULL},
        limits={"confidence_score": _SHARE},
    ),
    "JudgeDecision": Entity(
        "governance",
        left_out=("human_review_required", "human_reviewer_id"),
        spread="lineage",
        stated={"human_review": _OBJECT},
    ),
    "AuditRecord": Entity("audit", renamed={"data": "data_json"}),
    "Secret": Entity(
        "vault",
        renamed={"secret_id": "id", **_OWNED},
        left_out=("tenant_id",),
        stated={"used_by": {"type": "array", "items": {"type": "string"}}},
        sometimes=("used_by",),
    ),
    "Tenant": Entity("tenancy"),
    "User": Entity("tenancy", stated={"state_version": {"type": "integer"}}),
    "ApiKey": Entity("tenancy"),
    "SignIn": Entity("tenancy"),
}


def entity_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each entity's name and its schema, `Error` last: it is a form that all errors share and no class."""
    for name in ENTITIES:
        yield name, {"$schema": DIALECT, "$id": f"urn:twinraven:{name}", **schema_of(name)}
    for name, schema in import_module("twinraven.governance").EXPORTED.items():
        yield name, {"$schema": DIALECT, "$id": f"urn:twinraven:{name}", "title": name, **schema}
    yield "Error", {"$schema": DIALECT, "$id": "urn:twinraven:Error", "title": "Error", **_ERROR}


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of one entity, with those of the entities inside it."""
    from pydantic import TypeAdapter

    entity = ENTITIES[name]
    kind = getattr(import_module(f"twinraven.{entity.context}"), name)
    derived = TypeAdapter(kind).json_schema(mode="serialization")
    parts: dict[str, Any] = derived.pop("$defs", {})
    properties = _properties(entity, derived, parts)
    inner = {part: _inner(part, body) for part, body in parts.items() if _refers_to(part, properties, parts)}
    return {
        "title": name,
        "description": " ".join((kind.__doc__ or name).split("\n\n")[0].split()),
        "type": "object",
        "properties": properties,
        "required": [field for field in properties if field not in entity.sometimes],
        **({"$defs": inner} if inner else {}),
    }


def _properties(entity: Entity, derived: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, body in derived["properties"].items():
        if field == entity.spread:
            for part in _referred(body):
                inside = parts[part]["properties"].items()
                found |= {inner: _plain(schema) for inner, schema in inside if inner not in entity.left_out}
        elif field not in entity.left_out:
            found[entity.renamed.get(field, field)] = _plain(body)
    found.update(entity.stated)
    return {field: {**body, **entity.limits.get(field, {})} for field, body in found.items()}


def _inner(part: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an inner entity, in the form it has by itself."""
    if part not in ENTITIES:
        return _plain(body)
    return {word: value for word, value in schema_of(part).items() if word != "$defs"}


def _refers_to(part: str, properties: Any, parts: dict[str, Any]) -> bool:
    """Return whether a definition is used, by the entity itself or by one inside it."""
    seen: set[str] = set()
    pending = list(_referred(properties))
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(_referred(parts[name]))
    return part in seen


def _referred(body: Any) -> Iterator[str]:
    if isinstance(body, dict):
        for word, value in cast("dict[str, Any]", body).items():
            if word == "$ref":
                yield str(value).removeprefix("#/$defs/")
            else:
                yield from _referred(value)
    elif isinstance(body, list):
        for item in cast("list[Any]", body):
            yield from _referred(item)


def _plain(body: Any) -> Any:
    """Return a schema without the titles that repeat names, and without defaults: what is written is always there."""
    if isinstance(body, list):
        return [_plain(item) for item in cast("list[Any]", body)]
    if not isinstance(body, dict):
        return body
    members = cast("dict[str, Any]", body)
    return {
        word: {name: _plain(below) for name, below in value.items()} if word == "properties" else _plain(value)
        for word, value in members.items()
        if word not in ("title", "default")
    }
