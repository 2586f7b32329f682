"""Serves processes: validates, saves versions, compares and starts them. A tenant sees all; owners change theirs."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.schemas import OBJECT, TEXT, form, listing, listing_of, ref
from twinraven.foundation.errors import Conflict, IdempotencyConflict, InvalidDefinition, NotFound, PolicyViolation
from twinraven.processes import Process, ProcessVersion, draw_process
from twinraven.serving import JsonSchema, QueryParameter, Request, Response, Route, RouteTable, page_of

_NUMBER: Final[JsonSchema] = {"type": "integer", "minimum": 1, "maximum": 2_147_483_647}
_DEFINITION: Final[JsonSchema] = {**OBJECT, "description": "the process, as docs/processes.md describes it"}
_DIFFERENCE: Final[JsonSchema] = form({"place": {"type": "string"}, "before": {}, "after": {}})
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET", "/v1/processes", "listProcesses", "Processes in force, by id", listing("ProcessVersion"), is_paged=True
    )
)
async def list_processes(request: Request) -> Response:
    query = request.query
    found = list(await request.raven.processes.list(request.tenant_id))
    if "cursor" in query:
        found = [each for each in found if each.process.id > query["cursor"][0]]
    place = _place_of_process
    return Response(page=page_of(found, int(query["limit"]), place=place, show=ProcessVersion.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/processes",
        "saveProcess",
        "Save a process as a new version",
        ref("ProcessVersion"),
        body=form(
            {"definition": _DEFINITION},
            optional={
                "expected_version": {
                    **_NUMBER,
                    "minimum": 0,
                    "description": "refuse unless this one is in force; 0 for a new process",
                }
            },
        ),
        errors=(InvalidDefinition, Conflict, PolicyViolation),
        takes_key=True,
    )
)
async def save_process(request: Request) -> Response:
    body: dict[str, Any] = request.body
    saved = await request.raven.processes.save(
        Process.from_json(body["definition"]), by=request.who, expected_version=body.get("expected_version")
    )
    return Response(saved.as_json(), headers={"Location": f"/v1/processes/{saved.process.id}"})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/process-checks",
        "checkProcess",
        "Say whether a process makes sense, and how many steps a run of it has",
        form({"id": TEXT, "steps": _NUMBER}),
        body=form({"definition": _DEFINITION}),
        errors=(InvalidDefinition,),
        screened=True,
    )
)
async def check_process(request: Request) -> Response:
    process = Process.from_json(request.body["definition"])
    flow = await request.raven.processes.check(process, by=request.who)
    return Response({"id": process.id, "steps": len(flow.steps)})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/processes/{process_id}",
        "showProcess",
        "A process in force, or one of its versions",
        ref("ProcessVersion"),
        query=(QueryParameter("version", _NUMBER, "this version"),),
        errors=(NotFound,),
    )
)
async def show_process(request: Request) -> Response:
    version = request.query.get("version")
    found = await request.raven.processes.get(request.tenant_id, request.path["process_id"], version=version)
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/processes/{process_id}/graph",
        "drawProcess",
        "The graph of a process as SVG",
        form({"svg": {"type": "string"}}),
        query=(QueryParameter("version", _NUMBER, "this version"),),
        errors=(NotFound,),
    )
)
async def draw_graph(request: Request) -> Response:
    version = request.query.get("version")
    found = await request.raven.processes.get(request.tenant_id, request.path["process_id"], version=version)
    return Response({"svg": draw_process(found.process)})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/learned-tools/{tool_id}/process",
        "openAsProcess",
        "A learned tool in service as a process to edit, and what of it a process cannot say; nothing is saved",
        form({"definition": _DEFINITION, "left_out": {"type": "array", "items": TEXT}}),
        errors=(NotFound, InvalidDefinition),
    )
)
async def open_tool(request: Request) -> Response:
    return Response((await request.raven.processes.open(request.path["tool_id"], by=request.who)).as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/processes/{process_id}/versions",
        "listProcessVersions",
        "All versions of a process, newest first",
        listing("ProcessVersion"),
        errors=(NotFound,),
        is_paged=True,
        cursor=(int,),
    )
)
async def list_versions(request: Request) -> Response:
    query = request.query
    found = list(await request.raven.processes.versions(request.tenant_id, request.path["process_id"]))
    if "cursor" in query:
        found = [each for each in found if each.version < query["cursor"][0]]
    place = _place_of_version
    return Response(page=page_of(found, int(query["limit"]), place=place, show=ProcessVersion.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/processes/{process_id}/diff",
        "diffProcess",
        "What one version says otherwise than another; by default the last two",
        listing_of(_DIFFERENCE),
        query=(
            QueryParameter("before", _NUMBER, "the earlier version"),
            QueryParameter("after", _NUMBER, "the later version"),
        ),
        errors=(NotFound,),
    )
)
async def diff_process(request: Request) -> Response:
    query = request.query
    found = await request.raven.processes.diff(
        request.tenant_id, request.path["process_id"], before=query.get("before"), after=query.get("after")
    )
    return Response({"items": [each.as_json() for each in found], "next_cursor": None})


@ROUTES.handles(
    Route(
        "DELETE",
        "/v1/processes/{process_id}",
        "deleteProcess",
        "Delete a process that nothing refers to; its versions stay",
        None,
        status=204,
        errors=(NotFound, Conflict, PolicyViolation),
    )
)
async def delete_process(request: Request) -> Response:
    await request.raven.processes.delete(request.path["process_id"], by=request.who)
    return Response(status=204)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/processes/{process_id}/runs",
        "runProcess",
        "Start a durable run of a process",
        ref("Run"),
        body=form(
            {},
            optional={
                "parameters": {**OBJECT, "description": "the variables of its initial context"},
                "run_id": {**TEXT, "maxLength": 200, "description": "starting the same id twice is one run"},
                "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 316_224_000},
            },
        ),
        errors=(NotFound, Conflict, IdempotencyConflict),
        takes_key=True,
        status=202,
        screened=True,
        unscreened=("parameters",),
    )
)
async def run_process(request: Request) -> Response:
    body: dict[str, Any] = request.body
    run = await request.raven.processes.run(
        request.path["process_id"],
        body.get("parameters", {}),
        by=request.who,
        run_id=body.get("run_id"),
        timeout_s=body.get("timeout_s"),
    )
    return Response(run.as_json(), status=202, headers={"Location": f"/v1/runs/{run.run_id}"})


def _place_of_process(saved: ProcessVersion) -> list[Any]:
    return [saved.process.id]


def _place_of_version(saved: ProcessVersion) -> list[Any]:
    return [saved.version]
