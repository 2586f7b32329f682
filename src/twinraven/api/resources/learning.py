"""Serves learning rounds, which run in the background of the server."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import FLAG, UUID_TEXT, form, ref
from twinraven.foundation.errors import Conflict, NotFound
from twinraven.serving import LIMIT_SCHEMA, QueryParameter, Request, Response, Route, RouteTable

ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "POST",
        "/v1/learning",
        "startLearning",
        "Begin a round of learning in the background, one at a time",
        ref("LearningRound"),
        status=202,
        body=form({}, optional={"with_model": FLAG, "list_writes": FLAG}),
        errors=(Conflict,),
        admin=True,
        note="What it proves waits in the registry for a decision. Ask for the round until its state is not `running`.",
    )
)
async def start_learning(request: Request) -> Response:
    begun = await request.raven.rounds.start(
        request.tenant_id,
        by=request.who.user_id,
        with_model=request.body.get("with_model", True),
        list_writes=request.body.get("list_writes", False),
    )
    return Response(begun.as_json(), 202, headers={"Location": f"/v1/learning/{begun.round_id}"})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learning",
        "listLearning",
        "The newest rounds of learning, and what came of each",
        form({"items": {"type": "array", "items": ref("LearningRound")}}),
        query=(QueryParameter("limit", LIMIT_SCHEMA, "at most so many"),),
        admin=True,
    )
)
async def list_rounds(request: Request) -> Response:
    found = await request.raven.rounds.rounds(request.tenant_id, limit=int(request.query["limit"]))
    return Response({"items": [each.as_json() for each in found]})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learning/{round_id}",
        "showLearning",
        "How far a round is, and what came of it",
        ref("LearningRound"),
        parameters={"round_id": UUID_TEXT},
        errors=(NotFound,),
        admin=True,
    )
)
async def show_round(request: Request) -> Response:
    found = await request.raven.rounds.round(request.tenant_id, request.path["round_id"].lower())
    return Response(found.as_json())
