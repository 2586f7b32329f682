"""Serves plans: creates them from a request or from JSON, shows and forks them, saves them as processes."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.run_lists import answer_list, listing_route, runs_visible_to
from twinraven.api.schemas import OBJECT, TEXT, form, listing_of, ref
from twinraven.foundation.errors import Conflict, IdempotencyConflict, NotFound, PolicyViolation
from twinraven.models import ModelNotConfigured
from twinraven.plans import plan_as_process
from twinraven.processes import Process
from twinraven.serving import JsonSchema, Request, Response, Route, RouteTable, refuse_secrets

_ID: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_TTL: Final[JsonSchema] = {
    "type": "integer",
    "minimum": 1,
    "maximum": 1_000,
    "description": "how often the model may be asked, corrections of one answer aside",
}
_START: Final[JsonSchema] = form(
    {},
    optional={
        "request": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "what is to be achieved"},
        "plan": {**OBJECT, "description": "a plan, in place of a request"},
        "ttl": _TTL,
        "tools": {"type": "array", "items": TEXT, "maxItems": 500, "description": "the tools that it may use"},
        "run_id": {**_ID, "description": "starting the same id twice with the same words is one plan"},
        "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 316_224_000},
    },
)
ROUTES: Final = RouteTable()


@ROUTES.handles(
    listing_route("/v1/plans", "listPlans", "Own plans as runs, newest first; for administrators, everybody's")
)
async def list_plans(request: Request) -> Response:
    return await answer_list(request, request.raven.plans)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/plans",
        "startPlan",
        "Turn a request into a plan and carry it out, or carry out a plan given as JSON",
        ref("Run"),
        body=_START,
        errors=(Conflict, IdempotencyConflict, ModelNotConfigured),
        takes_key=True,
        status=202,
    )
)
async def start_plan(request: Request) -> Response:
    await refuse_secrets(request, run_id=request.body.get("run_id"))
    body: dict[str, Any] = request.body
    plans = request.raven.plans
    wish = plans.wish(request=body.get("request"), plan=body.get("plan"), ttl=body.get("ttl"), tools=body.get("tools"))
    run = await plans.start(wish, by=request.who, run_id=body.get("run_id"), timeout_s=body.get("timeout_s"))
    return Response(run.as_json(), status=202, headers={"Location": f"/v1/plans/{run.run_id}"})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/plans/{run_id}",
        "showPlan",
        "A plan with its state: steps, calls, repairs, results, and the cycles that are left",
        ref("PlanRun"),
        errors=(NotFound,),
    )
)
async def show_plan(request: Request) -> Response:
    found = await request.raven.plans.get(request.tenant_id, request.path["run_id"], caller=runs_visible_to(request))
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/plans/{run_id}/log",
        "showPlanLog",
        "The log of a plan: one entry for each cycle, numbered from 1",
        listing_of(ref("LogEntry")),
        errors=(NotFound,),
    )
)
async def show_log(request: Request) -> Response:
    found = await request.raven.plans.log(request.tenant_id, request.path["run_id"], caller=runs_visible_to(request))
    return Response({"items": [entry.as_json() for entry in found], "next_cursor": None})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/plans/{run_id}/fork",
        "forkPlan",
        "Start a new plan with what came before a step, which is done anew",
        ref("Run"),
        body=form({"step": _ID}, optional={"ttl": _TTL}),
        errors=(NotFound, Conflict, PolicyViolation),
        takes_key=True,
    )
)
async def fork_plan(request: Request) -> Response:
    body = request.body
    fork = await request.raven.plans.fork(request.path["run_id"], body["step"], by=request.who, ttl=body.get("ttl"))
    return Response(fork.as_json(), headers={"Location": f"/v1/plans/{fork.run_id}"})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/plans/{run_id}/process",
        "savePlan",
        "Save what a completed plan did as a process, with its inputs as parameters",
        ref("ProcessVersion"),
        body=form({"process_id": TEXT}),
        errors=(NotFound, Conflict, PolicyViolation),
        takes_key=True,
    )
)
async def save_plan(request: Request) -> Response:
    found = await request.raven.plans.get(request.tenant_id, request.path["run_id"], caller=runs_visible_to(request))
    definition = plan_as_process(found, request.body["process_id"])
    saved = await request.raven.processes.save(Process.from_json(definition), by=request.who)
    return Response(saved.as_json(), headers={"Location": f"/v1/processes/{saved.process.id}"})
