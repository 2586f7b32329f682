"""Serves episodes, full-text search over them, and the entities that they mention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twinraven.api.group_viewers import check_group, hidden_from, viewer_of
from twinraven.api.schemas import FLAG, TEXT, TIME, form, listing, ref
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import Conflict, NotFound
from twinraven.knowledge import CATEGORIES, DEFAULT_GROUP, Episode, EpisodeFilter, KnownEntity, NewEpisode
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()
_CONTENT: Final = {"type": "string", "minLength": 1, "maxLength": 2_000_000, "pattern": "^[^\\u0000]*$"}
_SUMMARY: Final = {"type": "string", "minLength": 1, "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
_QUERY: Final = {"type": "string", "minLength": 1, "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
_NAME: Final = {**TEXT, "maxLength": 300}
_FILTERS: Final = (
    QueryParameter("group_id", TEXT, "only of this group"),
    QueryParameter("speaker", TEXT, "only what this speaker said"),
    QueryParameter("source", TEXT, "only of this source"),
    QueryParameter("since", TIME, "only from this time on"),
    QueryParameter("until", TIME, "only before this time"),
)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/episodes",
        "listEpisodes",
        "Episodes in the order of their groups",
        listing("Episode"),
        query=_FILTERS,
        is_paged=True,
        note="Of a long episode the list holds the first part of its content; the episode itself has all of it.",
    )
)
async def list_episodes(request: Request) -> Response:
    limit = int(request.query["limit"])
    found = await request.raven.knowledge.episodes(
        request.tenant_id,
        group_id=request.query.get("group_id"),
        wanted=_filter(request.query),
        limit=limit + 1,
        after=_after(request),
        hidden=hidden_from(request),
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.episode_id], show=Episode.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/episodes",
        "addEpisode",
        "Remember an episode",
        ref("Episode"),
        status=201,
        body=form(
            {"group_id": _NAME, "name": _NAME, "content": _CONTENT},
            optional={"source": _NAME, "speaker": _NAME, "valid_at": TIME, "source_description": _NAME},
        ),
        errors=(Conflict, NotFound),
        takes_key=True,
        note="An episode never changes: the same again changes nothing, other content under its name is a conflict.",
    )
)
async def add_episode(request: Request) -> Response:
    await check_group(request, request.body["group_id"])
    stored = await request.raven.knowledge.remember(request.tenant_id, NewEpisode.of_json(request.body))
    return Response(stored.as_json(), status=201)


@ROUTES.handles(
    Route("GET", "/v1/episodes/{episode_id}", "showEpisode", "One episode, whole", ref("Episode"), errors=(NotFound,))
)
async def show_episode(request: Request) -> Response:
    found = await request.raven.knowledge.episode(
        request.tenant_id, request.path["episode_id"], hidden=hidden_from(request)
    )
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/knowledge/search",
        "searchKnowledge",
        "The episodes that answer a question best, each with its reasons",
        form({"items": {"type": "array", "items": ref("Hit")}}),
        body=form(
            {"query": _QUERY},
            optional={
                **dict.fromkeys(("group_id", "speaker", "source"), TEXT),
                "since": TIME,
                "until": TIME,
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
                "neighbours": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
            },
        ),
        note="`neighbours` asks for so many episodes before and after each hit. Without `group_id` all groups count.",
    )
)
async def search_knowledge(request: Request) -> Response:
    body = request.body
    found = await request.raven.knowledge.search(
        request.tenant_id,
        body["query"],
        group_id=body.get("group_id"),
        limit=int(body.get("limit", 10)),
        wanted=_filter(body),
        neighbours=int(body.get("neighbours", 0)),
        hidden=hidden_from(request),
    )
    return Response({"items": [hit.as_json() for hit in found]})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/entities",
        "listEntities",
        "Entities, without those merged away",
        listing("KnownEntity"),
        query=(
            QueryParameter("group_id", TEXT, "only of this group"),
            QueryParameter("category", {"enum": list(CATEGORIES)}, "only of this category"),
            QueryParameter("name", TEXT, "only those whose name holds this text"),
        ),
        is_paged=True,
    )
)
async def list_entities(request: Request) -> Response:
    limit = int(request.query["limit"])
    found = await request.raven.entities.entities(
        request.tenant_id,
        group_id=request.query.get("group_id"),
        category=request.query.get("category"),
        text=request.query.get("name"),
        limit=limit + 1,
        after=_after(request),
        hidden=hidden_from(request),
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.entity_id], show=KnownEntity.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entities",
        "createEntity",
        "Make an entity of one's own, in force at once",
        ref("KnownEntity"),
        status=201,
        body=form(
            {"name": _NAME, "summary": _SUMMARY}, optional={"category": {"enum": list(CATEGORIES)}, "group_id": _NAME}
        ),
        errors=(NotFound,),
        takes_key=True,
    )
)
async def create_entity(request: Request) -> Response:
    body = request.body
    await check_group(request, body.get("group_id", DEFAULT_GROUP))
    made = await request.raven.entities.create(
        request.tenant_id,
        body["name"],
        body["summary"],
        category=body.get("category"),
        group_id=body.get("group_id", DEFAULT_GROUP),
        created_by=request.who.user_id,
    )
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/entities/{entity_id}",
        "showEntity",
        "One entity with its sources, facts and relations",
        ref("EntityDetails"),
        errors=(NotFound,),
        note="An entity that was merged away leads to the one that was kept.",
    )
)
async def show_entity(request: Request) -> Response:
    entity_id = await _entity_id(request)
    found = await request.raven.entities.details(request.tenant_id, entity_id, hidden=hidden_from(request))
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/entities/{entity_id}/neighbourhood",
        "showNeighbourhood",
        "Who shares an entity's turns, how it is related, and how central it is",
        ref("EntityNeighbourhood"),
        errors=(NotFound,),
    )
)
async def show_neighbourhood(request: Request) -> Response:
    found = await request.raven.entities.neighbourhood(request.tenant_id, await _entity_id(request))
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entities/{entity_id}/enrich",
        "enrichEntity",
        "Add what the episodes say of an entity now; nothing is removed",
        ref("EntityDetails"),
        errors=(NotFound,),
        note="Enrichment runs by itself when enough episodes mention an entity.",
    )
)
async def enrich_entity(request: Request) -> Response:
    return Response((await request.raven.entities.enrich(request.tenant_id, await _entity_id(request))).as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entities/{entity_id}/place",
        "placeEntity",
        "Put an entity into a conversation or take it out, and say what of it is included",
        form({"items": {"type": "array", "items": ref("ActiveEntity")}}),
        body=form(
            {"group_id": _NAME},
            optional=dict.fromkeys(("is_active", "include_summary", "include_facets", "include_relationships"), FLAG),
        ),
        errors=(NotFound,),
        note="The answer lists the entities of the conversation by relevance.",
        screened=True,
    )
)
async def place_entity(request: Request) -> Response:
    flags = dict(request.body)
    entity_id = await _entity_id(request)
    await check_group(request, flags["group_id"])
    found = await request.raven.entities.place(request.tenant_id, flags.pop("group_id"), entity_id, **flags)
    return Response({"items": [each.as_json() for each in found]})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/active-entities",
        "listActiveEntities",
        "The entities of a conversation by how relevant they are to its active path, each with the reason",
        form({"items": {"type": "array", "items": ref("ActiveEntity")}}),
        query=(QueryParameter("group_id", TEXT, "the conversation", required=True),),
    )
)
async def list_active_entities(request: Request) -> Response:
    group_id = request.query["group_id"]
    try:
        await check_group(request, group_id)
    except NotFound:
        return Response({"items": []})
    found = await request.raven.entities.active(request.tenant_id, group_id)
    return Response({"items": [each.as_json() for each in found]})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entities/{entity_id}/facts",
        "stateFact",
        "State a fact; an earlier one that it contradicts ends and stays as history",
        ref("EntityDetails"),
        body=form(
            {"relation": _NAME, "value": _SUMMARY}, optional={"valid_at": TIME, "object_id": _NAME, "is_single": FLAG}
        ),
        errors=(NotFound,),
        note="The same fact again changes nothing.",
    )
)
async def state_fact(request: Request) -> Response:
    body = request.body
    stated = await request.raven.entities.state(
        request.tenant_id,
        await _entity_id(request, *(body[name] for name in ("object_id",) if name in body)),
        body["relation"],
        body["value"],
        valid_at=parse_iso(body["valid_at"], field="valid_at") if "valid_at" in body else None,
        object_id=body.get("object_id"),
        is_single=body.get("is_single", True),
    )
    return Response(stated.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entities/{entity_id}/merge",
        "mergeEntities",
        "Make one of two entities; a user's own name and id win",
        ref("EntityMerge"),
        body=form({"other_id": _NAME}),
        errors=(NotFound, Conflict),
    )
)
async def merge_entities(request: Request) -> Response:
    merged = await request.raven.entities.merge(
        request.tenant_id,
        await _entity_id(request, request.body["other_id"]),
        request.body["other_id"],
        by=request.who.user_id,
    )
    return Response(merged.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entity-merges/{merge_id}/undo",
        "undoMerge",
        "Put back what a merge moved",
        ref("EntityMerge"),
        errors=(NotFound, Conflict),
    )
)
async def undo_merge(request: Request) -> Response:
    return Response(
        (
            await request.raven.entities.undo(request.tenant_id, request.path["merge_id"], hidden=hidden_from(request))
        ).as_json()
    )


@ROUTES.handles(
    Route(
        "POST",
        "/v1/entity-proposals",
        "proposeMerges",
        "Look for entities that may be one, and list what is open, with the evidence",
        form({"items": {"type": "array", "items": ref("MergeProposal")}}),
        body=form({}, optional={"group_id": _NAME, "merge_certain": FLAG}),
    )
)
async def propose_merges(request: Request) -> Response:
    found = await request.raven.entities.find_proposals(
        request.tenant_id,
        group_id=request.body.get("group_id"),
        merges_certain=request.body.get("merge_certain", False),
        hidden=hidden_from(request),
    )
    return Response({"items": [each.as_json() for each in found]})


async def _entity_id(request: Request, *others: str) -> str:
    """Return the entity that the path names, where none is of another user's dialogue."""
    entity_id = request.path["entity_id"]
    await request.raven.group_access.check_entities(request.tenant_id, viewer_of(request), [entity_id, *others])
    return entity_id


def _after(request: Request) -> str | None:
    return request.query["cursor"][0] if "cursor" in request.query else None


def _filter(given: Mapping[str, Any]) -> EpisodeFilter:
    times: dict[str, Any] = {name: parse_iso(given[name], field=name) for name in ("since", "until") if name in given}
    return EpisodeFilter(given.get("speaker"), given.get("source"), **times)
