"""Replays the answer of a route under its Idempotency-Key: sent again, a request answers what it answered first.

The key is claimed before the work and settled after it, in the table that calls use. A failure frees the key. What is
kept of an answer is its public form; a value that is shown only once is not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, cast

from twinraven.calls import Claim, Claims, EarlierAnswer
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import CallInProgress, EffectUnknown, IdempotencyConflict, TwinRavenError
from twinraven.serving.contract import Handler, Request, Response, Route
from twinraven.serving.encoding import encode_json

REPLAYED: Final = {"Idempotent-Replayed": "true"}
_TIMEOUT_MS: Final = 120_000
_SCOPE: Final = "\x1fapi"
"""No key of a call can begin so, since it is a name and names hold no control characters: the two never meet."""


async def run_once(route: Route, request: Request, handler: Handler) -> Response:
    """Let the handler run, unless the route has run under this key before."""
    claims = request.raven.claims
    taken = await _claim(claims, route, request)
    if isinstance(taken, EarlierAnswer):
        return _replayed(taken)
    answer = await _run(claims, taken, handler(request))
    kept = {
        "status": answer.status,
        "text": await _text(request, answer),
        "tag": answer.tag,
        "headers": dict(answer.headers or {}),
    }
    await claims.settle(taken, "success", {"output": kept})
    return answer


def claim_key(user_id: str, key: str) -> str:
    """Return the name of a user's Idempotency-Key in the claims table, which calls use too."""
    return f"{_SCOPE}:{user_id}:{key}"


async def _claim(claims: Claims, route: Route, request: Request) -> Claim | EarlierAnswer:
    key = request.idempotency_key or ""
    try:
        return await claims.claim(
            request.tenant_id,
            claim_key(request.who.user_id, key),
            tool_id=f"{route.method} {route.path}",
            body=canonical_json([dict(request.path), dict(request.query), request.body]),
            timeout_ms=_TIMEOUT_MS,
        )
    except IdempotencyConflict:
        raise IdempotencyConflict(
            f"Idempotency-Key {key!r} was used for another request; use a new key for a new request",
            idempotency_key=key,
        ) from None
    except CallInProgress:
        raise CallInProgress(
            f"a request under Idempotency-Key {key!r} is still running; ask again later", idempotency_key=key
        ) from None


async def _run(claims: Claims, claim: Claim, handling: Awaitable[Response]) -> Response:
    try:
        return await handling
    except TwinRavenError as error:
        # Where nobody knows whether it was stored, the key stays taken: sending again could make it twice.
        if error.details.get("commit") != "unknown":
            await claims.release(claim)
        raise


def _replayed(earlier: EarlierAnswer) -> Response:
    if earlier.state != "success":
        raise EffectUnknown(
            "whether the first request under this key took effect is unknown; look before you repeat it"
        )
    kept = earlier.response["output"]
    headers = {**kept["headers"], **REPLAYED}
    # What was kept before answers were kept to the byte has a body and no text.
    body = kept["text"].encode() if kept.get("text") is not None else kept.get("body")
    return Response(body, status=kept["status"], tag=kept["tag"], headers=headers)


async def _text(request: Request, answer: Response) -> str | None:
    """Return an answer as it may be kept.

    Cleaned as the JSON it is, because inside a text a number could not be replaced.
    """
    if answer.body is None:
        return None
    encoded = encode_json(_public(answer.body))
    redact = request.raven.redactor.redact_known
    return (await asyncio.to_thread(redact, request.tenant_id, encoded)).decode()


def _public(body: Any) -> Any:
    """Return the answer without what is shown only once."""
    if not isinstance(body, dict) or "shown_once" not in body:
        return cast("Any", body)
    return {**cast("dict[str, Any]", body), "shown_once": None}
