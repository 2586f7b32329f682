"""Calls that wait for somebody's word, and the word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from twinraven.api.contract import Answer, JsonSchema, Parameter, Request, Route
from twinraven.api.forms import form, listing, ref
from twinraven.api.pages import page_of
from twinraven.calls import Approval, ApprovalState
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, PolicyViolation

_NOTE: Final[JsonSchema] = form({}, optional={"note": {"type": "string", "maxLength": 2_000}})


def _whose(request: Request) -> str | None:
    """Whose requests are shown: a member's own, to an administrator all."""
    return None if request.who.role == "admin" else request.who.user_id


async def list_approvals(request: Request) -> Answer:
    query = request.query
    limit = int(query["limit"])
    older_than = None if "cursor" not in query else query["cursor"][0]
    try:
        found = await request.raven.approvals.list(
            request.tenant_id,
            state=query.get("state"),
            limit=limit + 1,
            older_than=older_than,
            requested_by=_whose(request),
        )
    except NotFound:
        raise InvalidInput("cursor is not one that was given out", field="cursor") from None
    return Answer(page=page_of(found, limit, place=lambda each: [each.approval_id], show=Approval.as_json))


async def show_approval(request: Request) -> Answer:
    approval_id = request.path["approval_id"]
    found = await request.raven.approvals.get(request.tenant_id, approval_id, requested_by=_whose(request))
    return Answer(found.as_json())


async def grant(request: Request) -> Answer:
    granted = await request.raven.approvals.grant(
        request.tenant_id, request.path["approval_id"], by=request.who, note=request.body.get("note", "")
    )
    return Answer(granted.as_json())


async def deny(request: Request) -> Answer:
    denied = await request.raven.approvals.deny(
        request.tenant_id, request.path["approval_id"], by=request.who, note=request.body.get("note", "")
    )
    return Answer(denied.as_json())


def _decision(word: str, name: str, summary: str, handler: Any) -> Route:
    return Route(
        "POST",
        f"/v1/approvals/{{approval_id}}/{word}",
        name,
        summary,
        handler,
        ref("Approval"),
        body=_NOTE,
        errors=(NotFound, Conflict, PolicyViolation),
        admin=True,
    )


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/approvals",
        "listApprovals",
        "Own calls that waited or wait for approval, newest first; for administrators, everybody's",
        list_approvals,
        listing("Approval"),
        query=(Parameter("state", {"enum": list(get_args(ApprovalState))}, "only those that stand so"),),
        is_paged=True,
    ),
    Route(
        "GET",
        "/v1/approvals/{approval_id}",
        "showApproval",
        "One of them",
        show_approval,
        ref("Approval"),
        errors=(NotFound,),
    ),
    _decision("grant", "grantApproval", "Let the call run, once", grant),
    _decision("deny", "denyApproval", "Refuse the call", deny),
)
