"""Serves the neighbourhood of entities: fact history, merges, extractors and the knowledge graph."""

from __future__ import annotations

from typing import Final

from twinraven.api.group_viewers import check_group, hidden_from, viewer_of
from twinraven.api.schemas import TEXT, TIME, form, listing, ref
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import NotFound, StorageUnavailable
from twinraven.knowledge import EntityMerge
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()
_NAME: Final = {**TEXT, "maxLength": 300}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}


@ROUTES.handles(
    Route(
        "GET",
        "/v1/entities/{entity_id}/facts",
        "listFacts",
        "The facts and relations of an entity in the order of their time, also those that have ended",
        form({"items": {"type": "array", "items": ref("TemporalFact")}}),
        query=(
            QueryParameter("relation", TEXT, "only this relation"),
            QueryParameter("at", TIME, "only what was true at this time"),
        ),
        errors=(NotFound,),
    )
)
async def list_facts(request: Request) -> Response:
    entity_id = request.path["entity_id"]
    await request.raven.group_access.check_entities(request.tenant_id, viewer_of(request), [entity_id])
    at = request.query.get("at")
    found = await request.raven.entities.facts(
        request.tenant_id,
        entity_id,
        relation=request.query.get("relation"),
        at=None if at is None else parse_iso(at, field="at"),
    )
    return Response({"items": [each.as_json() for each in found]})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/entity-merges",
        "listMerges",
        "Merges of entities, the newest first, also those that were undone",
        listing("EntityMerge"),
        query=(QueryParameter("entity_id", TEXT, "only those of this entity"),),
        is_paged=True,
    )
)
async def list_merges(request: Request) -> Response:
    limit = int(request.query["limit"])
    found = await request.raven.entities.merges(
        request.tenant_id,
        entity_id=request.query.get("entity_id"),
        limit=limit + 1,
        after=request.query["cursor"][0] if "cursor" in request.query else None,
        hidden=hidden_from(request),
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.merge_id], show=EntityMerge.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/knowledge/extractions",
        "extractAnew",
        "Let spaCy or the model read a group from its beginning; a worker does it",
        form({"group_id": TEXT, "extractors": _TEXTS}),
        status=202,
        body=form({"group_id": _NAME}, optional={"by": {"enum": ["spacy", "model"]}}),
        errors=(NotFound,),
        note="Rules have read every turn already. Reading again adds what was not found before and removes nothing.",
    )
)
async def extract_anew(request: Request) -> Response:
    group_id = request.body["group_id"]
    await check_group(request, group_id)
    chosen = await request.raven.extraction.read_anew(request.tenant_id, group_id, by=request.body.get("by"))
    return Response({"group_id": group_id, "extractors": list(chosen)}, status=202)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/knowledge/graph",
        "showGraph",
        "What the knowledge graph beside the tables holds of a group",
        form({"episode_ids": _TEXTS, "entities": _OBJECTS, "facts": _OBJECTS}),
        query=(QueryParameter("group_id", TEXT, "the group", required=True),),
        errors=(NotFound, StorageUnavailable),
        note="Without `knowledge.graph_url` in the settings there is none, and the answer says so.",
    )
)
async def show_graph(request: Request) -> Response:
    group_id = request.query["group_id"]
    otherwise = NotFound(f"there is no group {group_id!r}", field="group_id")
    await check_group(request, group_id, otherwise=otherwise)
    return Response((await request.raven.knowledge.graph_content(request.tenant_id, group_id)).as_json())
