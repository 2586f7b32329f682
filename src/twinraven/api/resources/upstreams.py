"""Serves tools of upstream MCP servers: accepted and changed definitions, and their classification."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import FLAG, TEXT, form
from twinraven.catalog import Effect, Sensitivity
from twinraven.connectors import PinnedTool
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.serving import JsonSchema, QueryParameter, Request, Response, Route, RouteTable

_TOOL: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "tool_id": {"type": "string"},
        "accepted": {"type": "object"},
        "offered": {"type": ["object", "null"]},
    },
    "required": ["tool_id", "accepted", "offered"],
}
_TOOLS: Final[JsonSchema] = form({"items": {"type": "array", "items": _TOOL}})
_NAMES: Final[JsonSchema] = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 200}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/upstreams",
        "listUpstreams",
        "Tools of upstream servers, with the words that were accepted and those they have now",
        _TOOLS,
        query=(QueryParameter("changed", {**FLAG, "default": True}, "only those whose words are not accepted yet"),),
        admin=True,
    )
)
async def list_upstreams(request: Request) -> Response:
    found = await request.raven.upstream_tools.listed(request.tenant_id)
    only = request.query["changed"]
    return Response({"items": [_shown(tool) for tool in found if tool.changed is not None or not only]})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/upstreams/accept",
        "acceptUpstreams",
        "Accept the words that upstream tools have now",
        _TOOLS,
        body=form({"tools": _NAMES}),
        errors=(NotFound, InvalidInput),
        admin=True,
    )
)
async def accept(request: Request) -> Response:
    done = await request.raven.upstream_tools.accept(request.tenant_id, request.body["tools"], by=request.who.user_id)
    return Response({"items": [_shown(tool) for tool in done]})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/upstreams/classify",
        "classifyUpstreams",
        "Say what upstream tools do to the world",
        _TOOLS,
        body=form(
            {"tools": _NAMES, "effect": {"enum": ["read", "write"]}},
            optional={"sensitivity": {"enum": ["low", "medium", "high"]}},
        ),
        errors=(NotFound, InvalidInput),
        admin=True,
    )
)
async def classify(request: Request) -> Response:
    body = request.body
    stated = body.get("sensitivity")
    done = await request.raven.upstream_tools.classify(
        request.tenant_id,
        body["tools"],
        Effect(body["effect"]),
        sensitivity=None if stated is None else Sensitivity(stated),
        by=request.who.user_id,
    )
    return Response({"items": [_shown(tool) for tool in done]})


def _shown(tool: PinnedTool) -> JsonObject:
    return {**tool.as_json(), "accepted": tool.definition, "offered": tool.changed}
