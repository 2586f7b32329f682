"""Serves summaries of dialogues and the compressions that make them; administrators write, repair and delete them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twinraven.api.group_viewers import check_group, hidden_from
from twinraven.api.schemas import FLAG, TEXT, form, listing, ref
from twinraven.foundation.errors import Conflict, NotFound
from twinraven.knowledge import CompressionRequest, Summary
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()
_NAME: Final = {**TEXT, "maxLength": 300}
_CONTENT: Final = {"type": "string", "minLength": 1, "maxLength": 100_000, "pattern": "^[^\\u0000]*$"}
_EPISODES: Final = {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 2_000, "uniqueItems": True}
_COVERAGE: Final = {"covers_up_to_turn": _NAME, "covers_up_to_alternative": _NAME}


@ROUTES.handles(
    Route(
        "POST",
        "/v1/compressions",
        "compressEpisodes",
        "Let the process that compresses sum episodes up; a worker does it",
        ref("Compression"),
        status=202,
        body=form({"group_id": _NAME, "episode_ids": _EPISODES}, optional=_COVERAGE),
        errors=(NotFound,),
        takes_key=True,
    )
)
async def compress(request: Request) -> Response:
    await check_group(request, request.body["group_id"])
    begun = await request.raven.summaries.compress(_wish(request.body), by=request.who)
    return Response(begun.as_json(), status=202)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/compressions/{compression_id}",
        "showCompression",
        "How far a compression is",
        ref("Compression"),
        errors=(NotFound,),
    )
)
async def show_compression(request: Request) -> Response:
    compression_id = request.path["compression_id"]
    found = await request.raven.summaries.compression(request.tenant_id, compression_id)
    missing = NotFound(f"no compression {compression_id!r}", field="compression_id")
    await check_group(request, found.group_id, otherwise=missing)
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/summaries",
        "listSummaries",
        "Summaries in the order in which they were made",
        listing("Summary"),
        query=(
            QueryParameter("group_id", TEXT, "only of this dialogue"),
            QueryParameter("with_deleted", FLAG, "also those that were deleted"),
        ),
        is_paged=True,
    )
)
async def list_summaries(request: Request) -> Response:
    limit = int(request.query["limit"])
    found = await request.raven.summaries.summaries(
        request.tenant_id,
        group_id=request.query.get("group_id"),
        with_deleted=bool(request.query.get("with_deleted", False)),
        limit=limit + 1,
        after=request.query["cursor"][0] if "cursor" in request.query else None,
        hidden=hidden_from(request),
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.summary_id], show=Summary.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/summaries",
        "writeSummary",
        "Write a summary by hand, where coverage is missing",
        ref("Summary"),
        status=201,
        body=form({"group_id": _NAME, "episode_ids": _EPISODES, "content": _CONTENT}, optional=_COVERAGE),
        errors=(NotFound,),
        takes_key=True,
        admin=True,
    )
)
async def write_summary(request: Request) -> Response:
    made = await request.raven.summaries.write(_wish(request.body), request.body["content"], by=request.who)
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/summaries/{summary_id}",
        "showSummary",
        "One summary with its sources and contents, also a deleted one",
        ref("Summary"),
        errors=(NotFound,),
    )
)
async def show_summary(request: Request) -> Response:
    summary_id = request.path["summary_id"]
    found = await request.raven.summaries.summary(request.tenant_id, summary_id)
    missing = NotFound(f"no summary {summary_id!r}", field="summary_id")
    await check_group(request, found.group_id, otherwise=missing)
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/summaries/{summary_id}/repair",
        "repairSummary",
        "Bind a corrected content; the one before stays",
        ref("Summary"),
        body=form({"content": _CONTENT}),
        errors=(NotFound,),
        admin=True,
    )
)
async def repair_summary(request: Request) -> Response:
    found = await request.raven.summaries.repair(request.path["summary_id"], request.body["content"], by=request.who)
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/summaries/{summary_id}/coverage",
        "stateCoverage",
        "State how far a summary covers, where that is missing",
        ref("Summary"),
        body=form({"covers_up_to_turn": _NAME}, optional={"covers_up_to_alternative": _NAME}),
        errors=(NotFound, Conflict),
        admin=True,
        screened=True,
    )
)
async def state_coverage(request: Request) -> Response:
    found = await request.raven.summaries.backfill(
        request.path["summary_id"],
        request.body["covers_up_to_turn"],
        request.body.get("covers_up_to_alternative"),
        by=request.who,
    )
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/summaries/{summary_id}/delete",
        "deleteSummary",
        "Take a summary out of its dialogue; on request its sources are summed up again",
        form({"compression": {"anyOf": [ref("Compression"), {"type": "null"}]}}),
        body=form({}, optional={"recompress": FLAG}),
        errors=(NotFound, Conflict),
        admin=True,
        note="The summary stays to be read.",
    )
)
async def delete_summary(request: Request) -> Response:
    begun = await request.raven.summaries.delete(
        request.path["summary_id"], by=request.who, recompress=request.body.get("recompress", False)
    )
    return Response({"compression": None if begun is None else begun.as_json()})


def _wish(body: Mapping[str, Any]) -> CompressionRequest:
    return CompressionRequest(
        body["group_id"],
        tuple(body["episode_ids"]),
        body.get("covers_up_to_turn"),
        body.get("covers_up_to_alternative"),
    )
