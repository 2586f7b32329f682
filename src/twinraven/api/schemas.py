"""Defines the JSON Schema fragments that route rows are described with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twinraven.serving import NAME_SCHEMA, JsonSchema

TEXT: Final[JsonSchema] = NAME_SCHEMA
LONG_TEXT: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
OBJECT: Final[JsonSchema] = {"type": "object"}
NUMBER_OR_NULL: Final[JsonSchema] = {"type": ["number", "null"]}
FLAG: Final[JsonSchema] = {"type": "boolean"}
WHOLE: Final[JsonSchema] = {"type": "integer", "minimum": 1, "maximum": 2_147_483_647}
TIME: Final[JsonSchema] = {"type": "string", "format": "date-time"}
UUID_TEXT: Final[JsonSchema] = {"type": "string", "format": "uuid"}
OUTCOME: Final[JsonSchema] = {"enum": ["success", "failure", "partial"]}


def ref(entity: str) -> JsonSchema:
    """Return one of the entities, by its name."""
    return {"$ref": f"#/components/schemas/{entity}"}


def listing(entity: str) -> JsonSchema:
    """Return a page of them."""
    return listing_of(ref(entity))


def listing_of(item: JsonSchema) -> JsonSchema:
    """Return a page of what is described so."""
    return form({"items": {"type": "array", "items": item}, "next_cursor": {"type": ["string", "null"]}})


def form(properties: Mapping[str, Any], *, optional: Mapping[str, Any] | None = None) -> JsonSchema:
    """Return an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }
