"""Answers lists of runs for the routes of runs and of plans: one's own, newest first; to an administrator, all."""

from __future__ import annotations

from typing import Final, Protocol, get_args

from twinraven.api.schemas import listing
from twinraven.engine import Run, RunState
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.serving import QueryParameter, Request, Response, Route, page_of

_STATE: Final = QueryParameter("state", {"enum": list(get_args(RunState))}, "only those that stand so")


class RunLister(Protocol):
    """Lists runs: all of them, or those of plans."""

    async def list(
        self,
        tenant_id: str,
        *,
        state: RunState | None = None,
        caller: str | None = None,
        limit: int = 100,
        older_than: str | None = None,
    ) -> tuple[Run, ...]: ...


def listing_route(path: str, name: str, summary: str) -> Route:
    """GET a page of runs, of one state where that is asked."""
    return Route("GET", path, name, summary, listing("Run"), query=(_STATE,), is_paged=True)


def runs_visible_to(request: Request) -> str | None:
    """Return the user whose runs the caller may see: a member's own; None, all, for an administrator."""
    return None if request.who.role == "admin" else request.who.user_id


async def answer_list(request: Request, source: RunLister) -> Response:
    """Return the page that the query asks for."""
    query = request.query
    limit = int(query["limit"])
    try:
        found = await source.list(
            request.tenant_id,
            state=query.get("state"),
            caller=runs_visible_to(request),
            limit=limit + 1,
            older_than=None if "cursor" not in query else query["cursor"][0],
        )
    except NotFound:
        raise InvalidInput("cursor is not one that was given out", field="cursor") from None
    return Response(page=page_of(found, limit, place=lambda each: [each.run_id], show=Run.as_json))
