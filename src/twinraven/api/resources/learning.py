"""Rounds of learning in the background of the server."""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.api.contract import Answer, Request, Route
from twinraven.api.forms import FLAG, UUID_TEXT, form, ref
from twinraven.foundation.errors import Conflict, NotFound


async def start_learning(request: Request) -> Answer:
    with_model = request.body.get("with_model", True)
    begun = await request.raven.rounds.start(request.tenant_id, by=request.who.user_id, with_model=with_model)
    return Answer(begun.as_json(), 202, headers={"Location": f"/v1/learning/{begun.round_id}"})


async def show_round(request: Request) -> Answer:
    found = await request.raven.rounds.round(request.tenant_id, request.path["round_id"].lower())
    return Answer(found.as_json())


ROUTES: Sequence[Route] = (
    Route(
        "POST",
        "/v1/learning",
        "startLearning",
        "Begin a round of learning in the background, one at a time",
        start_learning,
        ref("LearningRound"),
        status=202,
        body=form({}, optional={"with_model": FLAG}),
        errors=(Conflict,),
        admin=True,
        note="What it proves waits in the registry for a decision. Ask for the round until its state is not `running`.",
    ),
    Route(
        "GET",
        "/v1/learning/{round_id}",
        "showLearning",
        "How far a round is, and what came of it",
        show_round,
        ref("LearningRound"),
        parameters={"round_id": UUID_TEXT},
        errors=(NotFound,),
        admin=True,
    ),
)
