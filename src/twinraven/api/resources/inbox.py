"""Serves the inbox: every pending decision, bound to the hash of what was shown, and deciding it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from twinraven.api.schemas import TEXT, form, listing, ref
from twinraven.foundation.errors import (
    Conflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
)
from twinraven.inbox import ITEM_KINDS, InboxAnswer, InboxItem, Reservation
from twinraven.serving import (
    JsonSchema,
    MatchRequired,
    Page,
    QueryParameter,
    Request,
    Response,
    Route,
    RouteTable,
    expected_version,
    page_of,
)

_ITEM: Final[JsonSchema] = {**TEXT, "description": "the item's id, as the list gives it"}
_DECISION: Final[JsonSchema] = form(
    {"choice": {**TEXT, "description": "one of the item's choices, by name"}},
    optional={
        "bound_to": {
            "type": "string",
            "pattern": "^[0-9a-f]{12,64}$",
            "description": "the item's hash or its beginning, in place of If-Match",
        },
        "note": {"type": "string", "maxLength": 2_000},
        "answer": {"description": "for choices that need an answer"},
    },
)
_LISTED: Final[JsonSchema] = listing("InboxItem")
_COUNTED: Final[JsonSchema] = {
    **_LISTED,
    "properties": {**_LISTED["properties"], "count": {"type": "integer", "minimum": 0}},
    "required": [*_LISTED["required"], "count"],
}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/inbox",
        "listInbox",
        "What waits for a decision of yours, the oldest first, and how much it is in all",
        _COUNTED,
        query=(QueryParameter("kind", {"enum": list(ITEM_KINDS)}, "only items of this kind"),),
        is_paged=True,
        cursor=(str, str),
        note="Approvers and administrators see everything, others what is put to them.",
    )
)
async def list_inbox(request: Request) -> Response:
    query = request.query
    found = await request.raven.inbox.list(by=request.who, kind=query.get("kind"))
    after = query.get("cursor")
    rest = found if after is None else [item for item in found if _place(item) > list(after)]
    page = page_of(rest, int(query["limit"]), place=_place, show=InboxItem.as_json)
    return Response(page=Page(page.items, page.next_place, count=len(found)))


def _place(item: InboxItem) -> list[Any]:
    return [item.as_json()["asked_at"], item.item_id]


@ROUTES.handles(
    Route(
        "GET",
        "/v1/inbox/{item_id}",
        "showInboxItem",
        "One item: what will happen, to what, why it is asked, what it costs, and the evidence",
        ref("InboxItem"),
        parameters={"item_id": _ITEM},
        errors=(NotFound,),
        is_tagged=True,
    )
)
async def show_item(request: Request) -> Response:
    return _shown(await request.raven.inbox.get(request.path["item_id"], by=request.who))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/inbox/{item_id}/decide",
        "decideInboxItem",
        "Decide an item exactly as it was shown; of two deciders at once one is told that the other was first",
        ref("InboxItem"),
        body=_DECISION,
        parameters={"item_id": _ITEM},
        errors=(NotFound, Conflict, IllegalTransition, PolicyViolation, InvalidInput, MatchRequired),
        is_tagged=True,
        matching="may",
    )
)
async def decide_item(request: Request) -> Response:
    body: dict[str, Any] = request.body
    item_id, expected = request.path["item_id"], expected_version(request)
    bound_to = body.get("bound_to")
    if expected is None and bound_to is None:
        raise MatchRequired(
            "say what was shown to you: If-Match with the ETag, or bound_to in the body; * alone names nothing",
            field="bound_to",
        )
    if expected is not None:
        seen = await request.raven.inbox.get(item_id, by=request.who)
        if seen.state == "open" and int(seen.version) != expected:
            raise StaleState("the item is not what was shown; look again", expected=expected, current=int(seen.version))
        bound_to = bound_to or seen.bound_to
    said = InboxAnswer(body["choice"], str(bound_to), body.get("note", ""), body.get("answer"))
    return _shown(await request.raven.inbox.decide(item_id, said, by=request.who))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/inbox-reservations",
        "listReservations",
        "Who is looking at which item just now",
        listing("Reservation"),
        note="Approvers and administrators see everybody's, others their own.",
    )
)
async def list_reservations(request: Request) -> Response:
    return await _reserved(request, await request.raven.inbox.reservations(by=request.who))


@ROUTES.handles(
    Route(
        "PUT",
        "/v1/inbox/{item_id}/reservation",
        "reserveInboxItem",
        "Say that one is looking at an item, for two minutes; the answer says who else is",
        listing("Reservation"),
        parameters={"item_id": _ITEM},
        errors=(NotFound, IllegalTransition, PolicyViolation),
        note="It keeps nobody from deciding. Say it again to hold on to it.",
    )
)
async def reserve_item(request: Request) -> Response:
    return await _reserved(request, await request.raven.inbox.reserve(request.path["item_id"], by=request.who))


@ROUTES.handles(
    Route(
        "DELETE",
        "/v1/inbox/{item_id}/reservation",
        "releaseInboxItem",
        "Say that one no longer looks at an item",
        None,
        status=204,
        parameters={"item_id": _ITEM},
        errors=(NotFound,),
    )
)
async def release_item(request: Request) -> Response:
    await request.raven.inbox.release(request.path["item_id"], by=request.who)
    return Response(status=204)


async def _reserved(request: Request, found: Sequence[Reservation]) -> Response:
    users = await request.raven.tenancy.users(request.tenant_id) if found else ()
    names = {each.user_id: each.name for each in users}
    items = [{**each.as_json(), "name": names.get(each.user_id, each.user_id)} for each in found]
    return Response({"items": items, "next_cursor": None})


def _shown(item: InboxItem) -> Response:
    return Response(item.as_json(), tag=item.version)
