"""Serves the history of an idempotency key."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import ref
from twinraven.calls import read_key_history
from twinraven.foundation.errors import NotFound
from twinraven.serving import Request, Response, Route, RouteTable

ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/idempotency-keys/{key}",
        "showKeyHistory",
        "What was called under an idempotency key, how it stands, who repeated it, and who was asked",
        ref("KeyHistory"),
        errors=(NotFound,),
        note="Of requests for approval and of callers a member sees their own; an administrator sees everybody's.",
    )
)
async def show_key(request: Request) -> Response:
    whose = None if request.who.role == "admin" else request.who.user_id
    found = await read_key_history(request.raven.database, request.tenant_id, request.path["key"], requested_by=whose)
    return Response(found.as_json())
