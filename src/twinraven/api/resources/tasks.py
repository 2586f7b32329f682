"""Serves tasks, results and decisions, to planners, workers and judges in any language, and to people."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.resources.goals import after_of
from twinraven.api.schemas import FLAG, LONG_TEXT, OBJECT, TEXT, form, listing, listing_of, ref
from twinraven.api.state_versions import STATE_VERSION, seen_version
from twinraven.foundation.errors import (
    Conflict,
    IdempotencyConflict,
    IllegalTransition,
    NotFound,
    PolicyViolation,
    StaleState,
)
from twinraven.governance import ENVELOPE_SCHEMAS, REQUIRED_ACTION, JudgeDecision, SpecVersion, Task
from twinraven.serving import JsonSchema, QueryParameter, Request, Response, Route, RouteTable, page_of

_CHANGES: Final = (NotFound, StaleState, Conflict, IllegalTransition, PolicyViolation)
_ENVELOPE_ERRORS: Final = (NotFound, Conflict, IdempotencyConflict, StaleState, IllegalTransition, PolicyViolation)
_STATUSES: Final = ["pending", "in_progress", "review", "escalated", "complete", "rejected", "failed", "cancelled"]
_ACTIONS: Final = {"type": "array", "items": REQUIRED_ACTION, "maxItems": 100}
_CLAIMED: Final[JsonSchema] = {
    "allOf": [
        ref("WorkerRun"),
        {"type": "object", "properties": {"required_actions": _ACTIONS}, "required": ["required_actions"]},
    ]
}
ROUTES: Final = RouteTable()


def _act(word: str, name: str, summary: str) -> Route:
    return Route(
        "POST",
        f"/v1/tasks/{{task_id}}/{word}",
        name,
        summary,
        ref("Task"),
        body=form({}, optional=STATE_VERSION),
        errors=_CHANGES,
        is_tagged=True,
        matching="may",
    )


def _tagged(task: Task) -> Response:
    return Response(task.as_json(), tag=str(task.state_version))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/tasks",
        "listTasks",
        "Tasks, the oldest first",
        listing("Task"),
        query=(
            QueryParameter("goal_id", TEXT, "only of this goal"),
            QueryParameter("campaign_id", TEXT, "only of this campaign"),
            QueryParameter("status", {"enum": _STATUSES}, "only those that stand so"),
        ),
        is_paged=True,
    )
)
async def list_tasks(request: Request) -> Response:
    query = request.query
    with after_of(request) as after:
        found = await request.raven.tasks.list(
            request.tenant_id,
            goal_id=query.get("goal_id"),
            campaign_id=query.get("campaign_id"),
            status=query.get("status"),
            limit=int(query["limit"]) + 1,
            after=after,
        )
    return Response(page=page_of(found, int(query["limit"]), place=lambda each: [each.task_id], show=Task.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/ready-tasks",
        "listReadyTasks",
        "Tasks that a worker outside may take now, the most urgent first",
        listing_of(ref("Task")),
        query=(QueryParameter("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}, "at most"),),
    )
)
async def list_ready_tasks(request: Request) -> Response:
    found = await request.raven.tasks.ready(request.tenant_id, limit=int(request.query["limit"]))
    return Response({"items": [Task.as_json(each) for each in found], "next_cursor": None})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/tasks",
        "planTask",
        "Plan a task by a planner.task envelope; sent again, it answers the same",
        ref("Task"),
        body=ENVELOPE_SCHEMAS["planner.task"],
        errors=_ENVELOPE_ERRORS,
    )
)
async def plan_task(request: Request) -> Response:
    return Response(await request.raven.planner.submit(request.body, by=request.who))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/tasks/{task_id}",
        "showTask",
        "A task with its attempts, results and decisions",
        ref("TaskDetail"),
        errors=(NotFound,),
        is_tagged=True,
    )
)
async def show_task(request: Request) -> Response:
    found = await request.raven.tasks.get(request.tenant_id, request.path["task_id"])
    return Response(found.as_json(), tag=str(found.task.state_version))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/tasks/{task_id}/specs",
        "listTaskSpecs",
        "All versions of a task's spec, the newest first",
        listing("SpecVersion"),
        errors=(NotFound,),
        is_paged=True,
        cursor=(int,),
    )
)
async def list_specs(request: Request) -> Response:
    query = request.query
    found = list(await request.raven.tasks.specs(request.tenant_id, request.path["task_id"]))
    if "cursor" in query:
        found = [each for each in found if each.spec_version < query["cursor"][0]]
    place = _place_of_spec
    return Response(page=page_of(found, int(query["limit"]), place=place, show=SpecVersion.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/tasks/{task_id}/specs",
        "reviseTask",
        "Give a task the next version of its spec",
        ref("Task"),
        body=form({"payload": {**OBJECT, "description": "as in a planner.task envelope"}}, optional=STATE_VERSION),
        errors=_CHANGES,
        is_tagged=True,
        matching="may",
    )
)
async def revise_task(request: Request) -> Response:
    body: dict[str, Any] = dict(request.body)
    version = seen_version(request, body)
    revised = await request.raven.planner.revise(
        request.path["task_id"], body["payload"], by=request.who, state_version=version
    )
    return _tagged(revised)


@ROUTES.handles(_act("cancel", "cancelTask", "End a task; an attempt that is under way begins nothing more"))
async def cancel_task(request: Request) -> Response:
    version = seen_version(request, dict(request.body))
    return _tagged(await request.raven.tasks.cancel(request.path["task_id"], by=request.who, state_version=version))


@ROUTES.handles(_act("retry", "retryTask", "Let a task that failed or was rejected be attempted once more"))
async def retry_task(request: Request) -> Response:
    version = seen_version(request, dict(request.body))
    return _tagged(await request.raven.tasks.retry(request.path["task_id"], by=request.who, state_version=version))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/tasks/{task_id}/attempts",
        "claimTask",
        "Begin an attempt at a ready task, as a worker outside; the answer says what a judge asks of it",
        _CLAIMED,
        status=201,
        body=form({}, optional=STATE_VERSION),
        errors=_CHANGES,
        takes_key=True,
    )
)
async def claim_task(request: Request) -> Response:
    attempts, task_id = request.raven.attempts, request.path["task_id"]
    run = await attempts.claim(task_id, by=request.who, state_version=request.body.get("state_version"))
    asked = await attempts.required_actions(request.who.tenant_id, task_id)
    return Response({**run.as_json(), "required_actions": list(asked)}, status=201)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/results",
        "reportResult",
        "Report an attempt by a worker.result envelope; sent again, it answers the same",
        ref("WorkerResult"),
        body=ENVELOPE_SCHEMAS["worker.result"],
        errors=_ENVELOPE_ERRORS,
    )
)
async def report_result(request: Request) -> Response:
    return Response(await request.raven.attempts.submit(request.body, by=request.who))


@ROUTES.handles(
    Route("GET", "/v1/results/{result_id}", "showResult", "One result", ref("WorkerResult"), errors=(NotFound,))
)
async def show_result(request: Request) -> Response:
    _, found = await request.raven.judge.judged(request.tenant_id, request.path["result_id"])
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/results/{result_id}/evaluate",
        "evaluateResult",
        "Judge a result by the checks of the house, on the state as it is now",
        ref("JudgeDecision"),
        body=form({}),
        errors=_CHANGES,
        takes_key=True,
    )
)
async def evaluate_result(request: Request) -> Response:
    return Response((await request.raven.judge.evaluate(request.path["result_id"], by=request.who)).as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/decisions",
        "listDecisions",
        "Decisions in the order in which they were made",
        listing("JudgeDecision"),
        query=(
            QueryParameter("decision", {"enum": ["approve", "reject", "escalate"]}, "only those that say so"),
            QueryParameter("in_force", {**FLAG, "default": False}, "only those that no later one replaced"),
        ),
        is_paged=True,
    )
)
async def list_decisions(request: Request) -> Response:
    query = request.query
    with after_of(request) as after:
        found = await request.raven.judge.list(
            request.tenant_id,
            verdict=query.get("decision"),
            is_in_force=bool(query["in_force"]),
            limit=int(query["limit"]) + 1,
            after=after,
        )
    place = _place_of_decision
    return Response(page=page_of(found, int(query["limit"]), place=place, show=JudgeDecision.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/decisions",
        "decideResult",
        "Decide about a result by a judge.decision envelope; sent again, it answers the same",
        ref("JudgeDecision"),
        body=ENVELOPE_SCHEMAS["judge.decision"],
        errors=_ENVELOPE_ERRORS,
    )
)
async def decide_result(request: Request) -> Response:
    return Response(await request.raven.judge.decide(request.body, by=request.who))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/decisions/{decision_id}",
        "showDecision",
        "One decision",
        ref("JudgeDecision"),
        errors=(NotFound,),
    )
)
async def show_decision(request: Request) -> Response:
    return Response((await request.raven.judge.get(request.tenant_id, request.path["decision_id"])).as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/decisions/{decision_id}/resolve",
        "resolveDecision",
        "Decide, as a person, what was escalated",
        ref("JudgeDecision"),
        body=form(
            {"decision": {"enum": ["approve", "reject"]}, "reason": LONG_TEXT},
            optional={
                "override": {**FLAG, "description": "approve although mandatory checks have not passed"},
                "required_actions": _ACTIONS,
            },
        ),
        errors=_CHANGES,
        takes_key=True,
        screened=True,
    )
)
async def resolve_decision(request: Request) -> Response:
    body: dict[str, Any] = request.body
    decided = await request.raven.judge.resolve(
        request.path["decision_id"],
        body["decision"],
        reason=body["reason"],
        by=request.who,
        override=body.get("override", False),
        actions=tuple(body.get("required_actions", ())),
    )
    return Response(decided.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/envelopes/{envelope_id}",
        "showEnvelope",
        "An envelope as it was sent",
        ref("Envelope"),
        errors=(NotFound,),
    )
)
async def show_envelope(request: Request) -> Response:
    return Response(await request.raven.judge.envelope(request.tenant_id, request.path["envelope_id"]))


def _place_of_spec(spec: SpecVersion) -> list[Any]:
    return [spec.spec_version]


def _place_of_decision(decision: JudgeDecision) -> list[Any]:
    return [decision.decision_id]
