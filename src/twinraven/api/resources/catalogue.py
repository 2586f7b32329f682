"""Serves the tool catalogue as one list, and the CRUD routes of data-defined tools."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from twinraven.api.definitions import PLACEMENT, TOOL, TOOL_CHANGE
from twinraven.api.owned_items import change, creation, deletion, reading
from twinraven.api.schemas import FLAG, listing_of, ref
from twinraven.catalog import ToolChange, ToolEntry, ToolPlacement, ToolSpec
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation
from twinraven.serving import JsonSchema, Request, Response, Route, RouteTable, expected_version, slice_of

_ENTRY: Final[JsonSchema] = {
    "allOf": [
        ref("ToolEntry"),
        {
            "type": "object",
            "properties": {
                "callable": {**FLAG, "description": "whether the caller can call it, if it is healthy"},
                "reason": {"type": ["string", "null"], "description": "why not"},
            },
            "required": ["callable", "reason"],
        },
    ]
}
ROUTES: Final = RouteTable()
_PLACE: Final = "/v1/tools/{key}/definition"


@ROUTES.handles(
    Route(
        "GET",
        "/v1/tools",
        "listTools",
        "Everything the caller sees, and whether it can be called",
        listing_of(_ENTRY),
        is_paged=True,
    )
)
async def list_tools(request: Request) -> Response:
    listed = request.raven.catalog.visible(request.tenant_id, request.who.user_id)
    return Response(
        page=slice_of(listed, request.query, key=lambda entry: entry.tool_id, show=partial(_shown_entry, request))
    )


@ROUTES.handles(
    creation(
        "/v1/tools",
        "createTool",
        "Define a tool on a service",
        "Tool",
        TOOL,
        NotFound,
        Conflict,
        PolicyViolation,
        location=_PLACE,
    )
)
async def create_tool(request: Request) -> Response:
    tool = await request.raven.defined.tools.create(
        request.who, ToolSpec.from_json(request.body), correlation_id=request.correlation_id
    )
    return Response(tool.as_json(), status=201, tag=str(tool.state_version))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/tools/{tool_id}",
        "showTool",
        "One tool",
        _ENTRY,
        errors=(NotFound,),
    )
)
async def show_tool(request: Request) -> Response:
    entry = request.raven.catalog.resolve(request.tenant_id, request.path["tool_id"], request.who.user_id)
    return Response(_shown_entry(request, entry))


def _shown_entry(request: Request, entry: ToolEntry) -> dict[str, Any]:
    """Return an entry, whether the caller can call it, and why not."""
    why = request.raven.catalog.why_not(request.tenant_id, request.who.user_id, entry)
    return {**entry.as_json(), "callable": why is None, "reason": why}


@ROUTES.handles(
    reading("/v1/tools/{tool_id}/definition", "showDefinition", "How a data-defined tool is defined", "Tool")
)
async def show_definition(request: Request) -> Response:
    tool = await request.raven.defined.tools.tool(request.who, request.path["tool_id"])
    return Response(tool.as_json(), tag=str(tool.state_version))


@ROUTES.handles(
    change("/v1/tools/{tool_id}/definition", "changeTool", "Change a data-defined tool", "Tool", TOOL_CHANGE)
)
async def change_tool(request: Request) -> Response:
    tool = await request.raven.defined.tools.update(
        request.who,
        request.path["tool_id"],
        ToolChange.from_json(request.body),
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Response(tool.as_json(), tag=str(tool.state_version))


@ROUTES.handles(
    deletion("/v1/tools/{tool_id}/definition", "deleteTool", "Delete a data-defined tool that no step calls")
)
async def delete_tool(request: Request) -> Response:
    await request.raven.defined.tools.delete(
        request.who,
        request.path["tool_id"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Response(status=204)


@ROUTES.handles(
    creation(
        "/v1/tool-templates/{template_id}/tools",
        "makeTool",
        "Make a tool from a template",
        "Tool",
        PLACEMENT,
        NotFound,
        Conflict,
        location=_PLACE,
    )
)
async def make_tool(request: Request) -> Response:
    tool = await request.raven.defined.templates.make_tool(
        request.who,
        request.path["template_id"],
        ToolPlacement.from_json(request.body),
        correlation_id=request.correlation_id,
    )
    return Response(tool.as_json(), status=201, tag=str(tool.state_version))
