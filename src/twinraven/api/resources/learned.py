"""Learned tools and the steps of their lives. Each step is taken on a revision that the caller has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from twinraven.api.contract import Answer, JsonSchema, Parameter, Request, Route
from twinraven.api.forms import FLAG, LONG_TEXT, WHOLE, expected_version, form, listing_of, ref, refuse_secrets
from twinraven.api.pages import slice_of
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import Conflict, InvalidDefinition, InvalidInput, NotFound, StaleState, TwinRavenError
from twinraven.registry import Adoption, RegisteredTool, RetirementReason, ToolRecord, ToolVersion, review_version

_NUMBER: Final[JsonSchema] = {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}
_REASON: Final = form({"reason": LONG_TEXT})
_STEP_ERRORS: Final[tuple[type[TwinRavenError], ...]] = (NotFound, Conflict, StaleState)
_SLUG: Final[JsonSchema] = {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,127}$"}


async def list_learned(request: Request) -> Answer:
    raven, tenant_id = request.raven, request.tenant_id
    found = await raven.registry.tools(tenant_id)
    if not request.query["adoption"]:
        return Answer(page=slice_of(found, request.query, key=lambda each: each.tool_id, show=ToolRecord.as_json))
    measured = await raven.maintenance.adoption(tenant_id)

    def show(record: ToolRecord) -> JsonObject:
        return {**record.as_json(), "adoption": _adoption_json(measured.get(record.tool_id))}

    return Answer(page=slice_of(found, request.query, key=lambda each: each.tool_id, show=show))


async def show_learned(request: Request) -> Answer:
    tool = await _tool(request)
    tool_id = tool.record.tool_id
    body = {**tool.record.as_json(), "versions": [version.as_json() for version in tool.versions]}
    # A step that answers with the tool has no such parameter, and need not wait for a measure.
    if request.query.get("adoption"):
        measured = await request.raven.maintenance.adoption(request.tenant_id, tool_id=tool_id)
        body["adoption"] = _adoption_json(measured.get(tool_id))
    return Answer(body, tag=str(tool.record.revision))


async def show_version(request: Request) -> Answer:
    version = await _version(request)
    return Answer(version.definition.as_json())


async def review(request: Request) -> Answer:
    """All that a decision needs, as `twinraven approve` shows it."""
    raven = request.raven
    version = await _version(request)
    tool = await _tool(request)
    chain = await raven.registry.chain(request.tenant_id, version.definition.source_chain_id)
    await raven.learned.refresh(request.tenant_id)
    found = review_version(tool, version.version, chain, lambda name: raven.learned.find_any(request.tenant_id, name))
    return Answer(found.as_json())


async def promote(request: Request) -> Answer:
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


async def reject(request: Request) -> Answer:
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


async def roll_back(request: Request) -> Answer:
    record = await request.raven.registry.rollback(
        request.tenant_id,
        request.path["tool_id"],
        to_version=request.body["to_version"],
        by=request.who.user_id,
        expected_revision=expected_version(request),
    )
    return _done(record)


async def retire(request: Request) -> Answer:
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


async def quarantine(request: Request) -> Answer:
    await refuse_secrets(request, reason=request.body["reason"])
    record = await request.raven.registry.quarantine(
        request.tenant_id,
        request.path["tool_id"],
        reason=request.body["reason"],
        by=request.who.user_id,
        expected_revision=expected_version(request),
    )
    return _done(record)


async def release(request: Request) -> Answer:
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


def _done(record: ToolRecord) -> Answer:
    return Answer(record.as_json(), tag=str(record.revision))


def _step(word: str, name: str, summary: str, handler: Any, body: JsonSchema | None) -> Route:
    """One step in a tool's life; in an emergency nobody should have to look up a revision first."""
    return Route(
        "POST",
        f"/v1/learned-tools/{{tool_id}}/{word}",
        name,
        summary,
        handler,
        ref("ToolRecord"),
        body=body,
        errors=(*_STEP_ERRORS, InvalidInput, InvalidDefinition),
        admin=True,
        is_tagged=True,
        matching="may" if word == "quarantine" else "must",
    )


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

ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/learned-tools",
        "listLearnedTools",
        "Every learned tool, its state and its use",
        list_learned,
        listing_of(_WITH_ADOPTION),
        query=(Parameter("adoption", {**FLAG, "default": False}, "measure from the log how each was received"),),
        is_paged=True,
    ),
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}",
        "showLearnedTool",
        "One learned tool and its versions",
        show_learned,
        _WITH_VERSIONS,
        query=(Parameter("adoption", {**FLAG, "default": True}, "measure from the log how it was received"),),
        errors=(NotFound,),
        is_tagged=True,
    ),
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}/versions/{version}",
        "showLearnedVersion",
        "The definition of one version",
        show_version,
        ref("SynthesizedTool"),
        parameters={"version": _NUMBER},
        errors=(NotFound,),
    ),
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}/versions/{version}/review",
        "reviewVersion",
        "All that a decision about a version needs",
        review,
        {"type": "object"},
        parameters={"version": _NUMBER},
        errors=(NotFound,),
    ),
    _step(
        "promote",
        "promoteTool",
        "Put a version that passed into service",
        promote,
        form({}, optional={"version": WHOLE, "as": _SLUG}),
    ),
    _step(
        "reject",
        "rejectTool",
        "Say no to a version that waits",
        reject,
        form({"reason": LONG_TEXT}, optional={"version": WHOLE}),
    ),
    _step(
        "rollback", "rollBackTool", "Put an earlier version back into service", roll_back, form({"to_version": WHOLE})
    ),
    _step("retire", "retireTool", "End a tool for good", retire, form({}, optional={"note": LONG_TEXT})),
    _step("quarantine", "quarantineTool", "Take a tool out of service at once", quarantine, _REASON),
    _step("release", "releaseTool", "End a quarantine", release, None),
)
