"""Signs browsers in to the console: an API key becomes a session cookie that is valid for half a day."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import TEXT, form, listing, ref
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.serving import JsonSchema, Request, Response, Route, RouteTable, slice_of
from twinraven.tenancy import SignIn

_LABEL: Final[JsonSchema] = {**TEXT, "minLength": 0, "maxLength": 200}
_BEGUN: Final[JsonSchema] = {
    "allOf": [ref("SignIn"), {"type": "object", "properties": {"shown_once": {"type": "string"}}}]
}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "POST",
        "/v1/sign-ins",
        "signIn",
        "Sign a browser in to the console with the key that is sent",
        _BEGUN,
        status=201,
        location="/v1/sign-ins/{sign_in_id}",
        body=form({}, optional={"label": _LABEL}),
        errors=(InvalidInput,),
        note=(
            "`shown_once` is what the console keeps in a cookie. It opens the console and nothing under /v1, for 12 "
            "hours, and ends with its key. Without a key there is nothing to sign in with."
        ),
        screened=True,
        for_viewers=True,
    )
)
async def sign_in(request: Request) -> Response:
    begun, token = await request.raven.sign_ins.begin(request.who, label=request.body.get("label", ""))
    return Response({**begun.as_json(), "shown_once": token}, status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/sign-ins",
        "listSignIns",
        "One's own browsers that are signed in; for administrators, everybody's",
        listing("SignIn"),
        is_paged=True,
    )
)
async def list_sign_ins(request: Request) -> Response:
    whose = None if request.who.role == "admin" else request.who.user_id
    found = await request.raven.sign_ins.open(request.tenant_id, user_id=whose)
    return Response(page=slice_of(found, request.query, key=lambda each: each.sign_in_id, show=SignIn.as_json))


@ROUTES.handles(
    Route(
        "DELETE",
        "/v1/sign-ins/{sign_in_id}",
        "signOut",
        "Sign a browser out",
        None,
        status=204,
        errors=(NotFound,),
        for_viewers=True,
    )
)
async def sign_out(request: Request) -> Response:
    await request.raven.sign_ins.end(request.tenant_id, request.path["sign_in_id"], by=request.who)
    return Response(status=204)
