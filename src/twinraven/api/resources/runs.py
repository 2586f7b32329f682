"""Serves durable runs: start, show, answer, cancel. Members see and decide their own, administrators all."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.run_lists import answer_list, listing_route, runs_visible_to
from twinraven.api.schemas import OBJECT, TEXT, form, listing, ref
from twinraven.engine import RunRequest, Worker
from twinraven.flow import FlowDefinition
from twinraven.foundation.errors import Conflict, IdempotencyConflict, NotFound, PolicyViolation
from twinraven.serving import JsonSchema, Request, Response, Route, RouteTable, page_of, refuse_secrets

_ID: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_START: Final[JsonSchema] = form(
    {},
    optional={
        "tool_id": {**TEXT, "description": "a tool of the catalogue"},
        "definition": {**OBJECT, "description": "a flow as data, in place of a tool"},
        "parameters": {**OBJECT, "description": "the arguments"},
        "run_id": {**_ID, "description": "starting the same id twice with the same words is one run"},
        "priority": {"type": "integer", "minimum": 0, "maximum": 1_000_000, "description": "the smallest goes first"},
        "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 316_224_000},
    },
)
_PLACE: Final[JsonSchema] = {**_ID, "description": "where it waits, as the run says"}
ROUTES: Final = RouteTable()


def _act(word: str, name: str, summary: str, body: JsonSchema | None = None) -> Route:
    return Route(
        "POST",
        f"/v1/runs/{{run_id}}/{word}",
        name,
        summary,
        ref("Run"),
        body=body or form({}),
        errors=(NotFound, Conflict, PolicyViolation),
        takes_key=True,
    )


@ROUTES.handles(listing_route("/v1/runs", "listRuns", "Own runs, newest first; for administrators, everybody's"))
async def list_runs(request: Request) -> Response:
    return await answer_list(request, request.raven.runs)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/runs",
        "startRun",
        "Start a durable run of a tool, or of a flow given as data",
        ref("Run"),
        body=_START,
        errors=(NotFound, Conflict, IdempotencyConflict),
        takes_key=True,
        status=202,
    )
)
async def start_run(request: Request) -> Response:
    await refuse_secrets(request, run_id=request.body.get("run_id"))
    body: dict[str, Any] = request.body
    definition = body.get("definition")
    wish = RunRequest(
        parameters=body.get("parameters", {}),
        tool_id=body.get("tool_id"),
        definition=None if definition is None else FlowDefinition.from_json(definition),
        run_id=body.get("run_id"),
        timeout_s=body.get("timeout_s"),
    )
    if "priority" in body:
        wish = wish._replace(priority=body["priority"])
    run = await request.raven.runs.start(wish, by=request.who)
    return Response(run.as_json(), status=202, headers={"Location": f"/v1/runs/{run.run_id}"})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/runs/{run_id}",
        "showRun",
        "A run with its steps, what it waits for and what it came to",
        ref("RunDetail"),
        errors=(NotFound,),
    )
)
async def show_run(request: Request) -> Response:
    found = await request.raven.runs.get(request.tenant_id, request.path["run_id"], caller=runs_visible_to(request))
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/runs/{run_id}/graph",
        "drawRun",
        "A run as SVG: its steps, each coloured by what came of it so far",
        form({"svg": {"type": "string"}}),
        errors=(NotFound,),
    )
)
async def draw_run(request: Request) -> Response:
    svg = await request.raven.runs.draw(request.tenant_id, request.path["run_id"], caller=runs_visible_to(request))
    return Response({"svg": svg})


@ROUTES.handles(_act("cancel", "cancelRun", "Begin nothing more; what is under way is let finish"))
async def cancel_run(request: Request) -> Response:
    return Response((await request.raven.runs.cancel(request.path["run_id"], by=request.who)).as_json())


@ROUTES.handles(_act("resume", "resumeRun", "Go on with a run that was set aside, or look again at one that waits"))
async def resume_run(request: Request) -> Response:
    return Response((await request.raven.runs.resume(request.path["run_id"], by=request.who)).as_json())


@ROUTES.handles(_act("retry", "retryRun", "Make the failed calls of an ended run again"))
async def retry_run(request: Request) -> Response:
    return Response((await request.raven.runs.retry(request.path["run_id"], by=request.who)).as_json())


@ROUTES.handles(_act("fork", "forkRun", "Start a new run with what came before a step", form({"step": _ID})))
async def fork_run(request: Request) -> Response:
    fork = await request.raven.runs.fork(request.path["run_id"], request.body["step"], by=request.who)
    return Response(fork.as_json(), headers={"Location": f"/v1/runs/{fork.run_id}"})


@ROUTES.handles(
    _act("answer", "answerRun", "Answer what a run asks a person at a place", form({"place": _PLACE, "answer": {}}))
)
async def answer_run(request: Request) -> Response:
    body = request.body
    run = await request.raven.runs.answer(request.path["run_id"], body["place"], body["answer"], by=request.who)
    return Response(run.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/signals",
        "signalEvent",
        "Tell all runs that wait for an event that it happened",
        form({"runs": {"type": "integer", "minimum": 0}}),
        body=form({"event": TEXT}, optional={"payload": {}}),
        takes_key=True,
    )
)
async def signal_event(request: Request) -> Response:
    body = request.body
    return Response({"runs": await request.raven.runs.signal(body["event"], body.get("payload"), by=request.who)})


@ROUTES.handles(
    Route("GET", "/v1/workers", "listWorkers", "Who works on runs", listing("Worker"), admin=True, is_paged=True)
)
async def list_workers(request: Request) -> Response:
    query = request.query
    limit = int(query["limit"])
    found = sorted(await request.raven.runs.workers(), key=lambda worker: worker.worker_id)
    if "cursor" in query:
        found = [worker for worker in found if worker.worker_id > query["cursor"][0]]
    return Response(page=page_of(found, limit, place=lambda each: [each.worker_id], show=Worker.as_json))
