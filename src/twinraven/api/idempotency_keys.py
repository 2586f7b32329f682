"""Reads an idempotency key from the body of a request or from its Idempotency-Key header, which mean the same."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.schemas import TEXT
from twinraven.foundation.errors import InvalidInput
from twinraven.serving import JsonSchema, Request

KEY: Final = "idempotency_key"
MAX_KEY: Final = 200
BODY_KEY: Final[JsonSchema] = {
    **TEXT,
    "maxLength": MAX_KEY,
    "description": "makes sending it twice the same as sending it once, for ever; may be the Idempotency-Key header",
}


def with_key(request: Request, stated: dict[str, Any]) -> dict[str, Any]:
    """Return the body with the key of the header where it states none; two that differ are refused."""
    key = request.idempotency_key
    if key is not None and stated.get(KEY, key) != key:
        raise InvalidInput(f"{KEY} and the Idempotency-Key header differ", field=KEY)
    return stated if key is None else {**stated, KEY: key}


def keyed_body(request: Request) -> dict[str, Any]:
    """Return the body of a request that must have a key, in it or in the header."""
    body = with_key(request, dict(request.body))
    if KEY not in body or len(body[KEY]) > MAX_KEY:
        raise InvalidInput(
            f"{KEY} must have 1 to {MAX_KEY} characters, in the body or as the Idempotency-Key header", field=KEY
        )
    return body
