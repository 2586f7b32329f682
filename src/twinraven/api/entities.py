"""JSON Schemas of the entities, for programs that read what TwinRaven writes.

They are derived from the classes themselves, so that they cannot fall behind; the table below says where the JSON form
departs from the fields. A schema describes every field and forbids no others, because contracts grow by addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_OBJECT: dict[str, Any] = {"type": "object"}
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
        "flow",
        sometimes=("timeout_ms", "output", "evidence", "replaces"),
        limits={"steps": {"minItems": 2}, "version": {"minimum": 1}},
    ),
    "StepDefinition": Entity("flow", sometimes=("for_each", "max_items")),
    "ErrorStrategy": Entity("flow"),
    "RetryPolicy": Entity("flow"),
    "Adoption": Entity(
        "registry",
        stated={
            "share": {"type": ["number", "null"], **_SHARE},
            "turns_saved": {"type": ["number", "null"]},
        },
        limits={"share_low": _SHARE, "share_high": _SHARE},
    ),
    "ToolRecord": Entity("registry", left_out=("tenant_id", "chain_key")),
    "ToolVersion": Entity("registry", left_out=("tool_id", "text"), stated={"sha256": {"type": "string"}}),
    "ToolEntry": Entity("catalog", left_out=("private_to", "definition")),
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
    "Envelope": Entity("calls", left_out=("extra",), stated={"error": _ERROR}, sometimes=("error",)),
    "SkillInvocationRequest": Entity("calls", left_out=("extra",)),
    "SkillInvocationResponse": Entity(
        "calls", left_out=("output",), stated={"payload": _OBJECT, "error": _ERROR_OR_NULL, "audit": _AUDIT}
    ),
    "ToolCall": Entity("calls", stated={"timestamp": {"type": "string", "format": "date-time"}}),
    "Approval": Entity("calls", stated={"arguments": _OBJECT}),
    "AuditRecord": Entity("audit", renamed={"data": "data_json"}),
    "Secret": Entity("vault", renamed={"secret_id": "id", **_OWNED}, left_out=("tenant_id",)),
    "Tenant": Entity("tenancy"),
    "User": Entity("tenancy", stated={"state_version": {"type": "integer"}}),
    "ApiKey": Entity("tenancy"),
}


def entity_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each entity's name and its schema, `Error` last: it is a form that all errors share and no class."""
    for name in ENTITIES:
        yield name, {"$schema": DIALECT, "$id": f"urn:twinraven:{name}", **schema_of(name)}
    yield "Error", {"$schema": DIALECT, "$id": "urn:twinraven:Error", "title": "Error", **_ERROR}


def schema_of(name: str) -> dict[str, Any]:
    """The schema of one entity, with those of the entities inside it."""
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
                found |= {inner: _plain(schema) for inner, schema in parts[part]["properties"].items()}
        elif field not in entity.left_out:
            found[entity.renamed.get(field, field)] = _plain(body)
    found.update(entity.stated)
    return {field: {**body, **entity.limits.get(field, {})} for field, body in found.items()}


def _inner(part: str, body: dict[str, Any]) -> dict[str, Any]:
    """An entity inside another has the form it has by itself."""
    if part not in ENTITIES:
        return _plain(body)
    return {word: value for word, value in schema_of(part).items() if word != "$defs"}


def _refers_to(part: str, properties: Any, parts: dict[str, Any]) -> bool:
    """Whether a definition is used, by the entity itself or by one inside it."""
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
    """A schema without the titles that repeat names, and without defaults: what is written is always there."""
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
