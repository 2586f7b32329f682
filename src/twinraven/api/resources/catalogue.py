"""What can be called: the whole catalogue as one list, and the tools in it that are data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from twinraven.api.contract import Answer, JsonSchema, Request, Route
from twinraven.api.definitions import PLACEMENT, TOOL, TOOL_CHANGE
from twinraven.api.forms import FLAG, expected_version, listing_of, ref
from twinraven.api.pages import slice_of
from twinraven.catalog import ToolChange, ToolEntry, ToolPlacement, ToolSpec
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState

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


async def list_tools(request: Request) -> Answer:
    raven, tenant_id, caller = request.raven, request.tenant_id, request.who.user_id
    found = raven.defined.source.visible(tenant_id, caller)
    for entry in raven.catalog.entries(tenant_id):
        if raven.learned.may_use(tenant_id, caller, entry.tool_id):
            found[entry.tool_id] = entry
    listed = [found[tool_id] for tool_id in sorted(found)]
    return Answer(
        page=slice_of(listed, request.query, key=lambda entry: entry.tool_id, show=partial(_shown_entry, request))
    )


async def show_tool(request: Request) -> Answer:
    raven, tool_id, caller = request.raven, request.path["tool_id"], request.who.user_id
    may_use = partial(raven.learned.may_use, request.tenant_id, caller)
    try:
        entry = raven.catalog.find(request.tenant_id, tool_id, caller=caller)
    except NotFound:
        raise raven.catalog.missing(request.tenant_id, tool_id, caller=caller, may_use=may_use) from None
    is_seen = raven.defined.source.visible(request.tenant_id, caller).get(tool_id) is entry
    if not is_seen and not may_use(tool_id):
        raise raven.catalog.missing(request.tenant_id, tool_id, caller=caller, may_use=may_use)
    return Answer(_shown_entry(request, entry))


def _shown_entry(request: Request, entry: ToolEntry) -> dict[str, Any]:
    """An entry, whether the caller can call it, and why not."""
    why = request.raven.defined.source.why_not(request.tenant_id, request.who.user_id, entry.tool_id)
    return {**entry.as_json(), "callable": why is None, "reason": why}


async def create_tool(request: Request) -> Answer:
    tool = await request.raven.defined.tools.create(
        request.who, ToolSpec.from_json(request.body), correlation_id=request.correlation_id
    )
    return Answer(tool.as_json(), status=201, tag=str(tool.state_version))


async def show_definition(request: Request) -> Answer:
    tool = await request.raven.defined.tools.tool(request.who, request.path["tool_id"])
    return Answer(tool.as_json(), tag=str(tool.state_version))


async def change_tool(request: Request) -> Answer:
    tool = await request.raven.defined.tools.update(
        request.who,
        request.path["tool_id"],
        ToolChange.from_json(request.body),
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Answer(tool.as_json(), tag=str(tool.state_version))


async def delete_tool(request: Request) -> Answer:
    await request.raven.defined.tools.delete(
        request.who,
        request.path["tool_id"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Answer(status=204)


async def make_tool(request: Request) -> Answer:
    tool = await request.raven.defined.templates.make_tool(
        request.who,
        request.path["template_id"],
        ToolPlacement.from_json(request.body),
        correlation_id=request.correlation_id,
    )
    return Answer(tool.as_json(), status=201, tag=str(tool.state_version))


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/tools",
        "listTools",
        "Everything the caller sees, and whether it can be called",
        list_tools,
        listing_of(_ENTRY),
        is_paged=True,
    ),
    Route(
        "POST",
        "/v1/tools",
        "createTool",
        "Define a tool on a service",
        create_tool,
        ref("Tool"),
        status=201,
        body=TOOL,
        errors=(NotFound, Conflict, PolicyViolation),
        is_tagged=True,
        takes_key=True,
    ),
    Route("GET", "/v1/tools/{tool_id}", "showTool", "One tool", show_tool, _ENTRY, errors=(NotFound,)),
    Route(
        "GET",
        "/v1/tools/{tool_id}/definition",
        "showDefinition",
        "How a data-defined tool is defined",
        show_definition,
        ref("Tool"),
        errors=(NotFound,),
        is_tagged=True,
    ),
    Route(
        "PATCH",
        "/v1/tools/{tool_id}/definition",
        "changeTool",
        "Change a data-defined tool",
        change_tool,
        ref("Tool"),
        body=TOOL_CHANGE,
        errors=(NotFound, Conflict, StaleState, PolicyViolation),
        is_tagged=True,
        matching="must",
    ),
    Route(
        "DELETE",
        "/v1/tools/{tool_id}/definition",
        "deleteTool",
        "Delete a data-defined tool that no step calls",
        delete_tool,
        None,
        status=204,
        errors=(NotFound, Conflict, StaleState, PolicyViolation),
        matching="must",
    ),
    Route(
        "POST",
        "/v1/tool-templates/{template_id}/tools",
        "makeTool",
        "Make a tool from a template",
        make_tool,
        ref("Tool"),
        status=201,
        body=PLACEMENT,
        errors=(NotFound, Conflict),
        is_tagged=True,
        takes_key=True,
    ),
)
