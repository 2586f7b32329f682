"""Small words for the schemas that routes are described with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from twinraven.api.contract import NAME_SCHEMA, JsonSchema, Request
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import TwinRaven

_TAG: Final = re.compile(r"([1-9][0-9]{0,17})(\.[0-9a-f]{16})?", re.ASCII)

TEXT: Final[JsonSchema] = NAME_SCHEMA
LONG_TEXT: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
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
    return listing_of(ref(entity))


def listing_of(item: JsonSchema) -> JsonSchema:
    """A page of what is described so."""
    return form({"items": {"type": "array", "items": item}, "next_cursor": {"type": ["string", "null"]}})


def form(properties: Mapping[str, Any], *, optional: Mapping[str, Any] | None = None) -> JsonSchema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }


def moment(text: str, *, field: str) -> datetime:
    """A time that can be kept; RFC 3339 allows some, such as leap seconds, that no clock here shows."""
    try:
        return parse_iso(text, field=field)
    except OverflowError:
        raise InvalidInput(f"{field} lies beyond every calendar: {text!r}", field=field) from None


async def refuse_secrets(request: Request, **texts: str | None) -> None:
    """Refuse names and notes, which are shown and kept as they are, where they hold the value of a secret."""
    for field, text in texts.items():
        if text and await holds_secret(request.raven, request.tenant_id, text):
            raise InvalidInput(f"{field} holds the value of a secret; choose another", field=field)


async def holds_secret(raven: TwinRaven, tenant_id: str, *texts: str) -> bool:
    """Whether one of these texts holds the value of a secret of the tenant."""
    raw = canonical_json(texts)
    return await asyncio.to_thread(raven.redactor.redact_known, tenant_id, raw) is not raw


def expected_version(request: Request) -> int | None:
    """The version that If-Match names; a tag that we never gave is that of a version that never was."""
    if request.if_match is None:
        return None
    found = _TAG.fullmatch(request.if_match)
    return 0 if found is None else int(found[1])
