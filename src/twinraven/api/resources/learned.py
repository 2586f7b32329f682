"""Serves learned tools and their lifecycle transitions; each transition names the revision it is based on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from twinraven.api.schemas import FLAG, LONG_TEXT, OBJECT, WHOLE, form, listing_of, ref
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import Conflict, InvalidDefinition, InvalidInput, NotFound, StaleState, TwinRavenError
from twinraven.registry import Adoption, RegisteredTool, RetirementReason, ToolRecord, ToolVersion, review_version
from twinraven.serving import (
    JsonSchema,
    QueryParameter,
    Request,
    Response,
    Route,
    RouteTable,
    expected_version,
    refuse_secrets,
    slice_of,
)

_DECISIONS: Final = ("promote", "reject")
"""What an approver may do as well."""
_NUMBER: Final[JsonSchema] = {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}
_REASON: Final = form({"reason": LONG_TEXT})
_STEP_ERRORS: Final[tuple[type[TwinRavenError], ...]] = (NotFound, Conflict, StaleState)
_SLUG: Final[JsonSchema] = {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,127}$"}
_ADOPTION: Final[JsonSchema] = {"anyOf": [ref("Adoption"), {"type": "null"}]}
_WITH_ADOPTION: Final[JsonSchema] = {
    "allOf": [ref("ToolRecord"), {"type": "object", "properties": {"adoption": _ADOPTION}}]
}
_WITH_VERSIONS: Final[JsonSchema] = {
    "allOf": [
        ref("ToolRecord"),
        {
            "type": "object",
            "properties": {"adoption": _ADOPTION, "versions": {"type": "array", "items": ref("ToolVersion")}},
        },
    ]
}
_WORDS: Final[JsonSchema] = {"type": "string"}
_NAMES: Final[JsonSchema] = {"type": "array", "items": _WORDS}
_MAYBE: Final[JsonSchema] = {"type": ["object", "null"]}
_COUNT: Final[JsonSchema] = {"type": ["integer", "null"], "minimum": 0}
_ARGUMENT: Final[JsonSchema] = form(
    {
        "name": _WORDS,
        "source": {**_WORDS, "description": "where it comes from, in words"},
        "for": {**_COUNT, "description": "samples that agree; null for what the caller is asked for"},
        "against": _COUNT,
        "also": {**_NAMES, "description": "other sources that would explain samples, and how many"},
        "parameters": {**_NAMES, "description": "the caller's parameters that it is made from"},
        "sessions": {**_COUNT, "description": "sessions that agree; null for what the caller is asked for"},
        "principals": {**_COUNT, "description": "whose sessions these are; null where the record names nobody"},
    }
)
_REVIEW: Final[JsonSchema] = form(
    {
        "tool_id": _WORDS,
        "version": WHOLE,
        "status": _WORDS,
        "description": _WORDS,
        "parameters": OBJECT,
        "replaces": {"type": ["string", "null"]},
        "chain": _MAYBE,
        "effect": _WORDS,
        "effect_origin": _WORDS,
        "sensitivity": _WORDS,
        "steps": {
            "type": "array",
            "items": form(
                {
                    **dict.fromkeys(("tool_id", "effect", "effect_origin", "sensitivity"), _WORDS),
                    "for_each": {"type": ["string", "null"]},
                    "arguments": {"type": "array", "items": _ARGUMENT},
                }
            ),
        },
        "missing": {**_NAMES, "description": "tools it calls that this home does not have"},
        "validation": _MAYBE,
        "backing": {
            "type": ["string", "null"],
            "description": "whose sessions stand behind the verdict and behind the weakest choice, in words",
        },
        "savings": _MAYBE,
        "advice": {"description": "what a model advised, if one was asked"},
        "compared_with": {"type": ["integer", "null"]},
        "diff": _NAMES,
    }
)
ROUTES: Final = RouteTable()


def _step(word: str, name: str, summary: str, body: JsonSchema | None) -> Route:
    """Build the route of one lifecycle transition; in an emergency no revision needs to be looked up first."""
    return Route(
        "POST",
        f"/v1/learned-tools/{{tool_id}}/{word}",
        name,
        summary,
        ref("ToolRecord"),
        body=body,
        errors=(*_STEP_ERRORS, InvalidInput, InvalidDefinition),
        admin=word not in _DECISIONS,
        decides=word in _DECISIONS,
        is_tagged=True,
        matching="may" if word == "quarantine" else "must",
    )


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learned-tools",
        "listLearnedTools",
        "Every learned tool, its state and its use",
        listing_of(_WITH_ADOPTION),
        query=(QueryParameter("adoption", {**FLAG, "default": False}, "measure from the log how each was received"),),
        is_paged=True,
    )
)
async def list_learned(request: Request) -> Response:
    raven, tenant_id = request.raven, request.tenant_id
    found = await raven.registry.tools(tenant_id)
    if not request.query["adoption"]:
        return Response(page=slice_of(found, request.query, key=lambda each: each.tool_id, show=ToolRecord.as_json))
    measured = await raven.maintenance.adoption(tenant_id, wait=False)

    def show(record: ToolRecord) -> JsonObject:
        return {**record.as_json(), "adoption": _adoption_json(measured.get(record.tool_id))}

    return Response(page=slice_of(found, request.query, key=lambda each: each.tool_id, show=show))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}",
        "showLearnedTool",
        "One learned tool and its versions",
        _WITH_VERSIONS,
        query=(QueryParameter("adoption", {**FLAG, "default": True}, "measure from the log how it was received"),),
        errors=(NotFound,),
        is_tagged=True,
    )
)
async def show_learned(request: Request) -> Response:
    tool = await _tool(request)
    tool_id = tool.record.tool_id
    body = {**tool.record.as_json(), "versions": [version.as_json() for version in tool.versions]}
    # A step that answers with the tool has no such parameter, and need not wait for a measure.
    if request.query.get("adoption"):
        measured = await request.raven.maintenance.adoption(request.tenant_id, wait=False)
        body["adoption"] = _adoption_json(measured.get(tool_id))
    return Response(body, tag=str(tool.record.revision))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}/versions/{version}",
        "showLearnedVersion",
        "The definition of one version",
        ref("SynthesizedTool"),
        parameters={"version": _NUMBER},
        errors=(NotFound,),
    )
)
async def show_version(request: Request) -> Response:
    version = await _version(request)
    return Response(version.definition.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}/versions/{version}/review",
        "reviewVersion",
        "All that a decision about a version needs",
        _REVIEW,
        parameters={"version": _NUMBER},
        errors=(NotFound,),
    )
)
async def review(request: Request) -> Response:
    """Return all that a decision needs, as `twinraven approve` shows it."""
    raven = request.raven
    version = await _version(request)
    tool = await _tool(request)
    chain = await raven.registry.chain(request.tenant_id, version.definition.source_chain_id)
    await raven.learned.refresh(request.tenant_id)
    found = review_version(tool, version.version, chain, lambda name: raven.learned.find_any(request.tenant_id, name))
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}/versions/{version}/occasions",
        "listOccasions",
        "The calls at which replay of a version did otherwise than the record",
        form(
            {
                "uses": {"type": "integer"},
                "hits": {"type": "integer"},
                "items": {"type": "array", "items": ref("MuninnEvent")},
            }
        ),
        parameters={"version": _NUMBER},
        errors=(NotFound,),
        note="Each is the call with which a use begins; at most 20 are kept, and none of versions validated long ago.",
    )
)
async def list_occasions(request: Request) -> Response:
    version = await _version(request)
    verdict: JsonObject = version.validation or {}
    found: list[JsonObject] = []
    for event_id in verdict.get("differing", ()):
        # Retention may have taken the call since.
        with suppress(NotFound):
            found.append((await request.raven.events.event(request.tenant_id, UUID(event_id))).as_json())
    return Response({"uses": verdict.get("uses", 0), "hits": verdict.get("hits", 0), "items": found})


@ROUTES.handles(
    _step(
        "promote",
        "promoteTool",
        "Put a version that passed into service",
        form({}, optional={"version": WHOLE, "as": _SLUG}),
    )
)
async def promote(request: Request) -> Response:
    body: dict[str, Any] = request.body
    record = await request.raven.registry.promote(
        request.tenant_id,
        request.path["tool_id"],
        version=body.get("version"),
        new_id=body.get("as"),
        by=request.who.user_id,
        expected_revision=expected_version(request),
    )
    return _done(record)


@ROUTES.handles(
    _step(
        "reject",
        "rejectTool",
        "Say no to a version that waits",
        form({"reason": LONG_TEXT}, optional={"version": WHOLE}),
    )
)
async def reject(request: Request) -> Response:
    body: dict[str, Any] = request.body
    await refuse_secrets(request, reason=body["reason"])
    await request.raven.registry.reject(
        request.tenant_id,
        request.path["tool_id"],
        reason=body["reason"],
        by=request.who.user_id,
        version=body.get("version"),
        expected_revision=expected_version(request),
    )
    return await show_learned(request)


@ROUTES.handles(
    _step("rollback", "rollBackTool", "Put an earlier version back into service", form({"to_version": WHOLE}))
)
async def roll_back(request: Request) -> Response:
    record = await request.raven.registry.rollback(
        request.tenant_id,
        request.path["tool_id"],
        to_version=request.body["to_version"],
        by=request.who.user_id,
        expected_revision=expected_version(request),
    )
    return _done(record)


@ROUTES.handles(_step("retire", "retireTool", "End a tool for good", form({}, optional={"note": LONG_TEXT})))
async def retire(request: Request) -> Response:
    await refuse_secrets(request, note=request.body.get("note"))
    record = await request.raven.registry.retire(
        request.tenant_id,
        request.path["tool_id"],
        RetirementReason.MANUAL,
        by=request.who.user_id,
        note=request.body.get("note"),
        expected_revision=expected_version(request),
    )
    return _done(record)


@ROUTES.handles(_step("quarantine", "quarantineTool", "Take a tool out of service at once", _REASON))
async def quarantine(request: Request) -> Response:
    await refuse_secrets(request, reason=request.body["reason"])
    record = await request.raven.registry.quarantine(
        request.tenant_id,
        request.path["tool_id"],
        reason=request.body["reason"],
        by=request.who.user_id,
        expected_revision=expected_version(request),
    )
    return _done(record)


@ROUTES.handles(_step("release", "releaseTool", "End a quarantine", None))
async def release(request: Request) -> Response:
    record = await request.raven.registry.release(
        request.tenant_id,
        request.path["tool_id"],
        by=request.who.user_id,
        expected_revision=expected_version(request),
    )
    return _done(record)


async def _tool(request: Request) -> RegisteredTool:
    return await request.raven.registry.tool(request.tenant_id, request.path["tool_id"])


async def _version(request: Request) -> ToolVersion:
    tool_id, number = request.path["tool_id"], int(request.path["version"])
    found = (await _tool(request)).version(number)
    if found is None:
        raise NotFound(f"{tool_id!r} has no version {number}", tool_id=tool_id, version=number)
    return found


def _adoption_json(found: Adoption | None) -> JsonObject | None:
    return None if found is None else found.as_json()


def _done(record: ToolRecord) -> Response:
    return Response(record.as_json(), tag=str(record.revision))
