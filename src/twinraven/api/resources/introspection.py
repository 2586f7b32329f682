"""Serves introspection notes: members read their own, administrators those of all users."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import FLAG, TEXT, form, listing, ref
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation
from twinraven.knowledge import Introspection
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()
_NAME: Final = {**TEXT, "maxLength": 300}
_CONTENT: Final = {"type": "string", "minLength": 1, "maxLength": 20_000, "pattern": "^[^\\u0000]*$"}


@ROUTES.handles(
    Route(
        "GET",
        "/v1/introspections",
        "listIntrospections",
        "The notes of a carousel by their position, or all in the order in which they were made",
        listing("Introspection"),
        query=(
            QueryParameter("user_id", TEXT, "whose; the caller's own by default, another's for administrators"),
            QueryParameter("with_archived", FLAG, "also those that were replaced or deleted"),
        ),
        is_paged=True,
        cursor=(int,),
    )
)
async def list_introspections(request: Request) -> Response:
    limit = int(request.query["limit"])
    with_archived = bool(request.query.get("with_archived", False))
    found = await request.raven.introspections.notes(
        request.tenant_id,
        _owner(request, request.query.get("user_id")),
        with_archived=with_archived,
        limit=limit + 1,
        after=int(request.query["cursor"][0]) if "cursor" in request.query else -1,
    )

    def place(note: Introspection) -> list[int]:
        return [note.number if with_archived else note.position]

    return Response(page=page_of(found, limit, place=place, show=Introspection.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/introspections",
        "addIntrospection",
        "Add a note by hand; what stood in its place is archived",
        ref("Introspection"),
        status=201,
        body=form(
            {"content": _CONTENT},
            optional={
                "user_id": _NAME,
                "position": {"type": "integer", "minimum": 0, "maximum": 999},
                "conversation_context": _NAME,
            },
        ),
        errors=(PolicyViolation,),
        takes_key=True,
        screened=True,
    )
)
async def add_introspection(request: Request) -> Response:
    body = request.body
    made = await request.raven.introspections.add(
        _owner(request, body.get("user_id")),
        body["content"],
        by=request.who,
        position=body.get("position"),
        conversation_context=body.get("conversation_context"),
    )
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/introspections/{introspection_id}",
        "showIntrospection",
        "One note with all its contents, also an archived one",
        ref("Introspection"),
        errors=(NotFound,),
    )
)
async def show_introspection(request: Request) -> Response:
    return Response((await _own(request)).as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/introspections/{introspection_id}/correct",
        "correctIntrospection",
        "Bind a corrected content to a note; the one before stays",
        ref("Introspection"),
        body=form({"content": _CONTENT}),
        errors=(NotFound,),
    )
)
async def correct_introspection(request: Request) -> Response:
    found = await _own(request)
    corrected = await request.raven.introspections.correct(
        found.introspection_id, request.body["content"], by=request.who
    )
    return Response(corrected.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/introspections/{introspection_id}/delete",
        "deleteIntrospection",
        "Take a note out of its carousel; it is archived",
        ref("Introspection"),
        errors=(NotFound, Conflict),
    )
)
async def delete_introspection(request: Request) -> Response:
    found = await _own(request)
    return Response((await request.raven.introspections.delete(found.introspection_id, by=request.who)).as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/reflections",
        "listReflections",
        "What the reflective agent did for a user, the newest first",
        form({"items": {"type": "array", "items": ref("Reflection")}}),
        query=(QueryParameter("user_id", TEXT, "whose; the caller's own by default"),),
    )
)
async def list_reflections(request: Request) -> Response:
    owner = _owner(request, request.query.get("user_id"))
    found = await request.raven.introspections.reflections(request.tenant_id, owner)
    return Response({"items": [each.as_json() for each in found]})


def _owner(request: Request, user_id: str | None) -> str:
    if user_id is None or user_id == request.who.user_id:
        return request.who.user_id
    if request.who.role != "admin":
        raise PolicyViolation("user_id: only administrators see and change the notes of others", field="user_id")
    return user_id


async def _own(request: Request) -> Introspection:
    user_id = None if request.who.role == "admin" else request.who.user_id
    return await request.raven.introspections.note(request.tenant_id, request.path["introspection_id"], user_id=user_id)
