"""Serves campaigns, goals and budgets; updates are optimistic and name the version they are based on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from twinraven.api.schemas import LONG_TEXT, OBJECT, TEXT, form, listing, listing_of, ref
from twinraven.api.state_versions import STATE_VERSION, seen_version
from twinraven.foundation.errors import (
    Conflict,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
)
from twinraven.governance import Budget, Campaign, Goal, Task
from twinraven.models import ModelNotConfigured
from twinraven.serving import JsonSchema, QueryParameter, Request, Response, Route, RouteTable, page_of

_NAME: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_AMOUNT: Final[JsonSchema] = {
    "type": "string",
    "pattern": "^(0|[1-9][0-9]{0,14})(\\.[0-9]{1,18})?$",
    "description": 'decimal text such as "120.00"',
}
_CURRENCY: Final[JsonSchema] = {"type": "string", "pattern": "^[A-Z]{3}$"}
_CHANGES: Final = (NotFound, StaleState, IllegalTransition, PolicyViolation)
_OF_CAMPAIGN: Final = QueryParameter("campaign_id", TEXT, "only of this campaign")
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route("GET", "/v1/campaigns", "listCampaigns", "Campaigns, the oldest first", listing("Campaign"), is_paged=True)
)
async def list_campaigns(request: Request) -> Response:
    query = request.query
    with after_of(request) as after:
        found = await request.raven.campaigns.list(request.tenant_id, limit=int(query["limit"]) + 1, after=after)
    return Response(page=page_of(found, int(query["limit"]), place=_campaign_place, show=Campaign.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/campaigns",
        "createCampaign",
        "Begin a campaign",
        ref("Campaign"),
        status=201,
        body=form({"name": _NAME}, optional={"persona_id": _NAME}),
        is_tagged=True,
        takes_key=True,
        location="/v1/campaigns/{campaign_id}",
        screened=True,
    )
)
async def create_campaign(request: Request) -> Response:
    body: dict[str, Any] = request.body
    made = await request.raven.campaigns.create(body["name"], by=request.who, persona_id=body.get("persona_id"))
    return Response(made.as_json(), status=201, tag=str(made.state_version))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/campaigns/{campaign_id}",
        "showCampaign",
        "One campaign",
        ref("Campaign"),
        errors=(NotFound,),
        is_tagged=True,
    )
)
async def show_campaign(request: Request) -> Response:
    found = await request.raven.campaigns.get(request.tenant_id, request.path["campaign_id"])
    return Response(found.as_json(), tag=str(found.state_version))


@ROUTES.handles(
    Route(
        "PATCH",
        "/v1/campaigns/{campaign_id}",
        "changeCampaign",
        "Rename, pause, resume, complete or cancel a campaign",
        ref("Campaign"),
        body=form(
            {},
            optional={
                "name": _NAME,
                "persona_id": _NAME,
                "status": {"enum": ["active", "paused", "complete", "cancelled"]},
                **STATE_VERSION,
            },
        ),
        errors=_CHANGES,
        is_tagged=True,
        matching="may",
        screened=True,
    )
)
async def change_campaign(request: Request) -> Response:
    body: dict[str, Any] = dict(request.body)
    version = seen_version(request, body)
    changed = await request.raven.campaigns.change(
        request.path["campaign_id"], by=request.who, state_version=version, **body
    )
    return Response(changed.as_json(), tag=str(changed.state_version))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/goals",
        "listGoals",
        "Goals, the oldest first",
        listing("Goal"),
        query=(
            _OF_CAMPAIGN,
            QueryParameter(
                "status",
                {"enum": ["pending", "in_progress", "complete", "failed", "cancelled"]},
                "only those that stand so",
            ),
        ),
        is_paged=True,
    )
)
async def list_goals(request: Request) -> Response:
    query = request.query
    with after_of(request) as after:
        found = await request.raven.campaigns.goals(
            request.tenant_id,
            campaign_id=query.get("campaign_id"),
            status=query.get("status"),
            limit=int(query["limit"]) + 1,
            after=after,
        )
    return Response(page=page_of(found, int(query["limit"]), place=_goal_place, show=Goal.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/campaigns/{campaign_id}/goals",
        "createGoal",
        "Give a campaign a goal",
        ref("Goal"),
        status=201,
        body=form({"description": LONG_TEXT}),
        errors=(NotFound, IllegalTransition),
        is_tagged=True,
        takes_key=True,
        location="/v1/goals/{goal_id}",
        screened=True,
    )
)
async def create_goal(request: Request) -> Response:
    body: dict[str, Any] = request.body
    made = await request.raven.campaigns.add_goal(request.path["campaign_id"], body["description"], by=request.who)
    return Response(made.as_json(), status=201, tag=str(made.state_version))


@ROUTES.handles(
    Route("GET", "/v1/goals/{goal_id}", "showGoal", "One goal", ref("Goal"), errors=(NotFound,), is_tagged=True)
)
async def show_goal(request: Request) -> Response:
    found = await request.raven.campaigns.goal(request.tenant_id, request.path["goal_id"])
    return Response(found.as_json(), tag=str(found.state_version))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/goals/{goal_id}/cancel",
        "cancelGoal",
        "Cancel a goal and its tasks that have not ended",
        ref("Goal"),
        body=form({}, optional=STATE_VERSION),
        errors=_CHANGES,
        is_tagged=True,
        matching="may",
    )
)
async def cancel_goal(request: Request) -> Response:
    version = seen_version(request, dict(request.body))
    goal = await request.raven.campaigns.cancel_goal(request.path["goal_id"], by=request.who, state_version=version)
    return Response(goal.as_json(), tag=str(goal.state_version))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/goals/{goal_id}/tasks",
        "planGoal",
        "Add the tasks of a plan to a goal, all or none",
        listing_of(ref("Task")),
        body=form(
            {"tasks": {"type": "array", "items": OBJECT, "minItems": 1, "maxItems": 500}},
            optional={
                "key": {**_NAME, "description": "planning twice under one key is planning once"},
                **STATE_VERSION,
            },
        ),
        errors=(NotFound, StaleState, IllegalTransition, IdempotencyConflict, Conflict),
        screened=True,
    )
)
async def plan_goal(request: Request) -> Response:
    body: dict[str, Any] = request.body
    planned = await request.raven.planner.plan(
        request.path["goal_id"],
        body["tasks"],
        by=request.who,
        key=body.get("key"),
        state_version=body.get("state_version"),
    )
    return Response({"items": [Task.as_json(each) for each in planned], "next_cursor": None})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/goals/{goal_id}/proposal",
        "proposePlan",
        "Let the configured model plan a goal",
        listing_of(ref("Task")),
        body=form({}, optional={"key": {**_NAME, "description": "planning twice under one key is planning once"}}),
        errors=(NotFound, StaleState, IllegalTransition, IdempotencyConflict, Conflict, ModelNotConfigured),
    )
)
async def propose_plan(request: Request) -> Response:
    planned = await request.raven.planner.propose(request.path["goal_id"], by=request.who, key=request.body.get("key"))
    return Response({"items": [Task.as_json(each) for each in planned], "next_cursor": None})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/budgets",
        "listBudgets",
        "Budgets, the oldest first",
        listing("Budget"),
        query=(_OF_CAMPAIGN,),
        is_paged=True,
    )
)
async def list_budgets(request: Request) -> Response:
    query = request.query
    with after_of(request) as after:
        found = await request.raven.campaigns.budgets(
            request.tenant_id,
            campaign_id=query.get("campaign_id"),
            limit=int(query["limit"]) + 1,
            after=after,
        )
    return Response(page=page_of(found, int(query["limit"]), place=_budget_place, show=Budget.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/campaigns/{campaign_id}/budgets",
        "createBudget",
        "Give a campaign a budget in one currency",
        ref("Budget"),
        status=201,
        body=form({"total": _AMOUNT, "currency": _CURRENCY}, optional={"name": _NAME}),
        errors=(NotFound,),
        is_tagged=True,
        takes_key=True,
        location="/v1/budgets/{budget_id}",
        screened=True,
    )
)
async def create_budget(request: Request) -> Response:
    body: dict[str, Any] = request.body
    made = await request.raven.campaigns.add_budget(
        request.path["campaign_id"],
        total=body["total"],
        currency=body["currency"],
        by=request.who,
        name=body.get("name", "budget"),
    )
    return Response(made.as_json(), status=201, tag=str(made.state_version))


@ROUTES.handles(
    Route(
        "GET", "/v1/budgets/{budget_id}", "showBudget", "One budget", ref("Budget"), errors=(NotFound,), is_tagged=True
    )
)
async def show_budget(request: Request) -> Response:
    found = await request.raven.campaigns.budget(request.tenant_id, request.path["budget_id"])
    return Response(found.as_json(), tag=str(found.state_version))


@ROUTES.handles(
    Route(
        "PATCH",
        "/v1/budgets/{budget_id}",
        "changeBudget",
        "Raise, lower, close or reopen a budget",
        ref("Budget"),
        body=form({}, optional={"total": _AMOUNT, "status": {"enum": ["open", "closed"]}, **STATE_VERSION}),
        errors=_CHANGES,
        is_tagged=True,
        matching="may",
    )
)
async def change_budget(request: Request) -> Response:
    body: dict[str, Any] = dict(request.body)
    version = seen_version(request, body)
    changed = await request.raven.campaigns.change_budget(
        request.path["budget_id"], by=request.who, state_version=version, **body
    )
    return Response(changed.as_json(), tag=str(changed.state_version))


@contextmanager
def after_of(request: Request) -> Generator[str | None]:
    """Provide the id that the page before ended with; where there is nothing of that id, the cursor is refused."""
    after: str | None = request.query["cursor"][0] if "cursor" in request.query else None
    try:
        yield after
    except NotFound:
        if after is None:
            raise
        raise InvalidInput("cursor is not one that was given out", field="cursor") from None


def _campaign_place(each: Campaign) -> list[Any]:
    return [each.campaign_id]


def _goal_place(each: Goal) -> list[Any]:
    return [each.goal_id]


def _budget_place(each: Budget) -> list[Any]:
    return [each.budget_id]
