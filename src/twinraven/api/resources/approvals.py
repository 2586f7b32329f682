"""Serves approvals: lists pending calls and takes the decisions of approvers."""

from __future__ import annotations

from typing import Final, get_args

from twinraven.api.schemas import OBJECT, form, listing, ref
from twinraven.calls import Approval, ApprovalState
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, PolicyViolation, StaleState
from twinraven.serving import (
    JsonSchema,
    QueryParameter,
    Request,
    Response,
    Route,
    RouteTable,
    expected_version,
    page_of,
)

_NOTE: Final[JsonSchema] = form({}, optional={"note": {"type": "string", "maxLength": 2_000}})
_STATES: Final = get_args(ApprovalState)
ROUTES: Final = RouteTable()


def _decision(word: str, name: str, summary: str) -> Route:
    return Route(
        "POST",
        f"/v1/approvals/{{approval_id}}/{word}",
        name,
        summary,
        ref("Approval"),
        body=_NOTE,
        errors=(NotFound, Conflict, PolicyViolation),
        decides=True,
        is_tagged=True,
        matching="may",
    )


def _whose(request: Request) -> str | None:
    """Return whose requests are shown: a member's own, to those who decide all."""
    return None if request.who.may_decide else request.who.user_id


@ROUTES.handles(
    Route(
        "GET",
        "/v1/approvals",
        "listApprovals",
        "Own calls that waited or wait for approval, newest first; for approvers and administrators, everybody's",
        listing("Approval"),
        query=(QueryParameter("state", {"enum": list(get_args(ApprovalState))}, "only those that stand so"),),
        is_paged=True,
    )
)
async def list_approvals(request: Request) -> Response:
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
    return Response(page=page_of(found, limit, place=lambda each: [each.approval_id], show=Approval.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/approvals/{approval_id}",
        "showApproval",
        "One of them",
        ref("Approval"),
        errors=(NotFound,),
        is_tagged=True,
    )
)
async def show_approval(request: Request) -> Response:
    approval_id = request.path["approval_id"]
    found = await request.raven.approvals.get(request.tenant_id, approval_id, requested_by=_whose(request))
    return _shown(found)


def _shown(approval: Approval) -> Response:
    return Response(approval.as_json(), tag=_version(approval))


def _version(approval: Approval) -> str:
    """Return what a decision is bound to: a request never changes but for how it stands."""
    return str(1 + _STATES.index(approval.state))


async def _refuse_unseen(request: Request) -> None:
    """Refuse a decision on a request that stands otherwise than its maker saw it."""
    expected = expected_version(request)
    if expected is None:
        return
    found = await request.raven.approvals.get(request.tenant_id, request.path["approval_id"])
    if expected != int(_version(found)):
        raise StaleState(f"the request is {found.state} by now", expected=expected, current=int(_version(found)))


@ROUTES.handles(_decision("grant", "grantApproval", "Let the call run, once"))
async def grant(request: Request) -> Response:
    await _refuse_unseen(request)
    granted = await request.raven.approvals.grant(
        request.tenant_id, request.path["approval_id"], by=request.who, note=request.body.get("note", "")
    )
    return _shown(granted)


@ROUTES.handles(_decision("deny", "denyApproval", "Refuse the call"))
async def deny(request: Request) -> Response:
    await _refuse_unseen(request)
    denied = await request.raven.approvals.deny(
        request.tenant_id, request.path["approval_id"], by=request.who, note=request.body.get("note", "")
    )
    return _shown(denied)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/policy",
        "showPolicy",
        "The rules that say what may be called, in the order in which they are asked",
        form({"rules": {"type": "array", "items": OBJECT}, "approval_ttl_s": {"type": "number"}}),
        admin=True,
    )
)
async def show_policy(request: Request) -> Response:
    policy = request.raven.settings.policy
    return Response({"rules": list(policy.rules), "approval_ttl_s": policy.approval_ttl_s})
