"""Small words for the schemas that routes are described with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twinraven.api.contract import JsonSchema, Request
from twinraven.foundation.errors import StaleState

TEXT: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 512}
LONG_TEXT: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 10_000}
OBJECT: Final[JsonSchema] = {"type": "object"}
FLAG: Final[JsonSchema] = {"type": "boolean"}
WHOLE: Final[JsonSchema] = {"type": "integer", "minimum": 1, "maximum": 2_147_483_647}
TIME: Final[JsonSchema] = {"type": "string", "format": "date-time"}
UUID_TEXT: Final[JsonSchema] = {"type": "string", "format": "uuid"}
OUTCOME: Final[JsonSchema] = {"enum": ["success", "failure", "partial"]}


def ref(entity: str) -> JsonSchema:
    """One of the entities, by its name."""
    return {"$ref": f"#/components/schemas/{entity}"}


def listing(entity: str) -> JsonSchema:
    """A page of them."""
    return form({"items": {"type": "array", "items": ref(entity)}, "next_cursor": {"type": ["string", "null"]}})


def form(properties: Mapping[str, Any], *, optional: Mapping[str, Any] | None = None) -> JsonSchema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }


def expected_version(request: Request) -> int | None:
    """The version that If-Match names; a tag that we never gave is the tag of nothing that is there."""
    if request.if_match is None:
        return None
    if not request.if_match.isascii() or not request.if_match.isdigit() or len(request.if_match) > 18:
        raise StaleState(f"{request.if_match!r} is not the entity tag of any version", field="If-Match")
    return int(request.if_match)
