"""Defines the body schemas of services, tools and templates.

They name fields in snake case. The routes that take them understand `connectionSchema` as `connection_schema`, too.
"""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.schemas import FLAG, OBJECT, TEXT
from twinraven.catalog import Effect, OperationType, Sensitivity, ServiceType, TemplateKind, WireProtocol
from twinraven.serving import JsonSchema

_NAME: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_DESCRIPTION: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
_KEY: Final[JsonSchema] = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"}
_OPERATION: Final[JsonSchema] = {
    "type": "object",
    "properties": {"type": {"enum": [each.value for each in OperationType]}},
    "required": ["type"],
}
_TIMEOUT: Final[JsonSchema] = {"type": "integer", "minimum": 1, "maximum": 86_400_000}


def _or_null(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "null"}]}


_SERVICE: Final[dict[str, Any]] = {
    "type": {"enum": [each.value for each in ServiceType]},
    "protocol": {"enum": [each.value for each in WireProtocol]},
    "connection_schema": {**OBJECT, "description": "a JSON Schema of what a tool must state to connect"},
    "requires_secret": FLAG,
}
_TOOL: Final[dict[str, Any]] = {
    "operation": {**_OPERATION, "description": "what is asked of the service, by its `type`"},
    "input_schema": OBJECT,
    "output_schema": _or_null(OBJECT),
    "effect": {"enum": [*(each.value for each in Effect), None]},
    "sensitivity": {"enum": [each.value for each in Sensitivity]},
    "timeout_ms": _or_null(_TIMEOUT),
}
_SHARING: Final[dict[str, Any]] = {"enabled": FLAG, "shared": FLAG}
_PLACED: Final[dict[str, Any]] = {
    "name": _NAME,
    "description": _DESCRIPTION,
    "connection_params": {**OBJECT, "description": "what the service's connection_schema asks for"},
    **_SHARING,
}


def _fields(properties: dict[str, Any], *required: str) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_PLACEMENT_FIELDS: Final[dict[str, Any]] = {
    "key": {**_KEY, "description": "what callers call it by"},
    "service": {**_NAME, "description": "the id or the name of the service"},
    "secret": {**_or_null(_NAME), "description": "the id or the name of a secret of one's own"},
    "secret_scope": {**_or_null(_NAME), "description": "what the secret is used for"},
    **_PLACED,
}

SERVICE: Final = _fields({"name": _NAME, **_SERVICE, **_SHARING}, "name", "type", "protocol", "connection_schema")
SERVICE_CHANGE: Final = _fields({"name": _NAME, "connection_schema": OBJECT, **_SHARING})
TOOL: Final = _fields({**_PLACEMENT_FIELDS, **_TOOL}, "key", "service")
TOOL_CHANGE: Final = _fields({**_PLACED, "secret": _or_null(_NAME), "secret_scope": _or_null(_NAME), **_TOOL})
PLACEMENT: Final = _fields(_PLACEMENT_FIELDS, "key", "service")
TEMPLATES: Final[dict[TemplateKind, JsonSchema]] = {
    "service": _fields(
        {"name": _NAME, "description": _DESCRIPTION, "shared": FLAG, **_SERVICE},
        "name",
        "type",
        "protocol",
        "connection_schema",
    ),
    "tool": _fields({"name": _NAME, "description": _DESCRIPTION, "shared": FLAG, **_TOOL}, "name", "operation"),
}
TEMPLATE_CHANGE: Final = _fields(
    {"name": _NAME, "description": _or_null(_DESCRIPTION), "shared": FLAG, "archived": FLAG}
)
