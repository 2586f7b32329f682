"""Serves traces: everything before and after any record, as JSON or as SVG."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import FLAG, OBJECT, TEXT, form
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.serving import Request, Response, Route, RouteTable
from twinraven.tracing import draw_trace

_TRACE: Final = form(
    {
        "tenant_id": TEXT,
        "start": TEXT,
        "nodes": {"type": "array", "items": OBJECT},
        "links": {"type": "array", "items": OBJECT},
        "is_cut": {**FLAG, "description": "whether there is more than is shown"},
    }
)
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/trace/{id}",
        "showTrace",
        "Everything before and after a post, message, payment, task, decision, run, call, event or audit entry",
        _TRACE,
        errors=(NotFound, InvalidInput),
        decides=True,
        note="Any id will do, a provider's too, an idempotency key, or kind:id.",
    )
)
async def show_trace(request: Request) -> Response:
    return Response((await request.raven.tracer.trace(request.tenant_id, request.path["id"])).as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/trace/{id}/svg",
        "drawTrace",
        "The same, drawn",
        {"type": "string"},
        errors=(NotFound, InvalidInput),
        decides=True,
        media="image/svg+xml",
    )
)
async def draw(request: Request) -> Response:
    trace = await request.raven.tracer.trace(request.tenant_id, request.path["id"])
    return Response(draw_trace(trace).encode(), media="image/svg+xml")
