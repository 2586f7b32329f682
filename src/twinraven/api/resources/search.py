"""Finds things by how their ids and names begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from twinraven.api.schemas import TEXT, form
from twinraven.calls import read_key_history
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import NotFound
from twinraven.muninn import SessionFilter
from twinraven.serving import LIMIT_SCHEMA, QueryParameter, Request, Response, Route, RouteTable

_KINDS: Final = ("session", "tool", "learned_tool", "run", "process", "key", "approval")
_LEAST: Final = 6
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/search",
        "search",
        "Sessions, tools, learned tools, runs, processes, approvals and idempotency keys by how they begin",
        form(
            {
                "items": {
                    "type": "array",
                    "items": form(
                        {"kind": {"enum": list(_KINDS)}, "id": {"type": "string"}, "name": {"type": "string"}}
                    ),
                }
            }
        ),
        query=(
            QueryParameter("q", TEXT, "how the id or the name begins", required=True),
            QueryParameter("limit", LIMIT_SCHEMA, "at most so many"),
        ),
        note="Runs, approvals and keys are found by their whole ids.",
    )
)
async def search(request: Request) -> Response:
    wanted, limit = str(request.query["q"]), int(request.query["limit"])
    found = [*_tools(request, wanted), *await _learned(request, wanted), *await _processes(request, wanted)]
    found += await _by_id(request, wanted)
    where = SessionFilter(starts_with=wanted, limit=limit)
    sessions = await request.raven.activity.recent_sessions(request.tenant_id, where)
    found += [_hit("session", each.session_id) for each in sessions]
    return Response({"items": found[:limit]})


def _tools(request: Request, wanted: str) -> Iterator[JsonObject]:
    for entry in request.raven.catalog.entries(request.tenant_id):
        if entry.is_visible_to(request.who.user_id) and _begins(entry.tool_id, wanted):
            yield _hit("tool", entry.tool_id)


async def _learned(request: Request, wanted: str) -> list[JsonObject]:
    found = await request.raven.registry.tools(request.tenant_id)
    return [_hit("learned_tool", each.tool_id) for each in found if _begins(each.tool_id, wanted)]


async def _processes(request: Request, wanted: str) -> list[JsonObject]:
    found = await request.raven.processes.list(request.tenant_id)
    return [
        _hit("process", each.process.id, each.process.name)
        for each in found
        if _begins(each.process.id, wanted) or _begins(each.process.name, wanted)
    ]


async def _by_id(request: Request, wanted: str) -> list[JsonObject]:
    """Return what is found by its whole id alone."""
    if len(wanted) < _LEAST:
        return []
    raven, tenant_id = request.raven, request.tenant_id
    whose = None if request.who.role == "admin" else request.who.user_id
    found: list[JsonObject] = []
    for kind, ask in (
        ("run", lambda: raven.runs.get(tenant_id, wanted, caller=whose, exact=True)),
        ("approval", lambda: raven.approvals.get(tenant_id, wanted, requested_by=whose)),
        ("key", lambda: read_key_history(raven.database, tenant_id, wanted, requested_by=whose)),
    ):
        if await _exists(ask()):
            found.append(_hit(kind, wanted))
    return found


async def _exists(asked: Any) -> bool:
    try:
        await asked
    except NotFound:
        return False
    return True


def _begins(name: str, wanted: str) -> bool:
    return name.casefold().startswith(wanted.casefold())


def _hit(kind: str, id: str, name: str = "") -> JsonObject:
    return {"kind": kind, "id": id, "name": name or id}
