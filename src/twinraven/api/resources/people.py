"""Serves the users of a tenant and their API keys. A key is shown once, when it is created."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from twinraven.api.schemas import FLAG, TEXT, TIME, form, listing, ref
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState
from twinraven.serving import (
    JsonSchema,
    Request,
    Response,
    Route,
    RouteTable,
    StreamTokens,
    expected_version,
    refuse_secrets,
    slice_of,
)
from twinraven.tenancy import ApiKey, User

_ROLE: Final[JsonSchema] = {"enum": ["admin", "approver", "member", "viewer"]}
_KIND: Final[JsonSchema] = {"enum": ["person", "agent"]}
_NAME: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_LABEL: Final[JsonSchema] = {**_NAME, "minLength": 0}
_ISSUED: Final[JsonSchema] = {
    "allOf": [ref("ApiKey"), {"type": "object", "properties": {"shown_once": {"type": ["string", "null"]}}}]
}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/me",
        "showMe",
        "Whom the key stands for",
        form(
            {
                "tenant_id": TEXT,
                "user_id": TEXT,
                "name": TEXT,
                "kind": _KIND,
                "role": _ROLE,
                "key_id": {"type": ["string", "null"]},
            }
        ),
    )
)
async def show_me(request: Request) -> Response:
    who = request.who
    user = await request.raven.tenancy.user(who.tenant_id, who.user_id)
    told = {"tenant_id": who.tenant_id, "user_id": who.user_id, "name": user.name, "kind": who.kind, "role": who.role}
    return Response({**told, "key_id": who.key_id})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/user-names",
        "listUserNames",
        "What the users of the tenant are called, by id",
        {"type": "object", "additionalProperties": TEXT},
        decides=True,
        note="For approvers and administrators, who are shown by whom something was asked, decided or done.",
    )
)
async def list_names(request: Request) -> Response:
    return Response({each.user_id: each.name for each in await request.raven.tenancy.users(request.tenant_id)})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/users",
        "listUsers",
        "The users of the tenant",
        listing("User"),
        admin=True,
        is_paged=True,
    )
)
async def list_users(request: Request) -> Response:
    found = await request.raven.tenancy.users(request.tenant_id)
    return Response(page=slice_of(found, request.query, key=lambda each: each.user_id, show=User.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/users",
        "addUser",
        "Add a user",
        ref("User"),
        status=201,
        location="/v1/users/{user_id}",
        body=form({"name": _NAME}, optional={"role": _ROLE, "kind": _KIND}),
        errors=(Conflict,),
        admin=True,
        is_tagged=True,
        takes_key=True,
        note="What a user of the kind `agent` does is recorded as an agent's; the kind never changes.",
    )
)
async def add_user(request: Request) -> Response:
    body = request.body
    await refuse_secrets(request, name=body["name"])
    user = await request.raven.tenancy.add_user(
        request.tenant_id,
        body["name"],
        role=body.get("role", "member"),
        kind=body.get("kind", "person"),
        by=request.who,
    )
    return _shown(user, status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/users/{user_id}",
        "showUser",
        "One user",
        ref("User"),
        errors=(NotFound,),
        admin=True,
        is_tagged=True,
    )
)
async def show_user(request: Request) -> Response:
    return _shown(await request.raven.tenancy.user(request.tenant_id, request.path["user_id"]))


@ROUTES.handles(
    Route(
        "PATCH",
        "/v1/users/{user_id}",
        "changeUser",
        "Change a user's role, or lock the user out",
        ref("User"),
        body=form({}, optional={"role": _ROLE, "active": FLAG}) | {"minProperties": 1},
        errors=(NotFound, Conflict, StaleState),
        admin=True,
        is_tagged=True,
        matching="must",
    )
)
async def change_user(request: Request) -> Response:
    body = request.body
    user = await request.raven.tenancy.change_user(
        request.tenant_id,
        request.path["user_id"],
        role=body.get("role"),
        active=body.get("active"),
        expected_version=expected_version(request),
        by=request.who,
    )
    return _shown(user)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/keys",
        "listKeys",
        "One's own API keys; for administrators, everybody's",
        listing("ApiKey"),
        is_paged=True,
    )
)
async def list_keys(request: Request) -> Response:
    found = await request.raven.tenancy.keys(request.tenant_id)
    own = [key for key in found if request.who.role == "admin" or key.user_id == request.who.user_id]
    return Response(page=slice_of(own, request.query, key=lambda each: each.key_id, show=ApiKey.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/keys",
        "issueKey",
        "Make an API key; its value is in this answer and nowhere else",
        _ISSUED,
        status=201,
        location="/v1/keys/{key_id}",
        body=form(
            {},
            optional={
                "user_id": TEXT,
                "label": _LABEL,
                "expires_in_days": {"type": "integer", "minimum": 1, "maximum": 3650},
            },
        ),
        errors=(NotFound, PolicyViolation, Conflict),
        takes_key=True,
        note="Sent again under the same Idempotency-Key it answers without the value, which is kept nowhere.",
    )
)
async def issue_key(request: Request) -> Response:
    body = request.body
    days = body.get("expires_in_days")
    await refuse_secrets(request, label=body.get("label"))
    issued = await request.raven.tenancy.issue_key(
        request.tenant_id,
        body.get("user_id", request.who.user_id),
        label=body.get("label", ""),
        expires_in=None if days is None else timedelta(days=days),
        by=request.who,
    )
    return Response({**issued.key.as_json(), "shown_once": issued.clear}, status=201)


@ROUTES.handles(
    Route(
        "DELETE",
        "/v1/keys/{key_id}",
        "revokeKey",
        "Revoke an API key",
        None,
        status=204,
        errors=(NotFound,),
    )
)
async def revoke_key(request: Request) -> Response:
    await request.raven.tenancy.revoke_key(request.tenant_id, request.path["key_id"], by=request.who)
    return Response(status=204)


def _shown(user: User, *, status: int = 200) -> Response:
    return Response(user.as_json(), status=status, tag=str(user.state_version))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/stream-tokens",
        "issueStreamToken",
        "Make a token that opens live streams for a few minutes, for browsers",
        form({"token": {"type": "string"}, "expires_at": TIME}),
        note=(
            "A browser's EventSource cannot send a key: it names the token in the address, as `?access_token=…`. "
            "A token opens streams and nothing else; an open stream goes on until the key behind it is revoked."
        ),
        for_viewers=True,
    )
)
async def issue_stream_token(request: Request) -> Response:
    token, until = StreamTokens(request.raven.tenant_keys.hash).issue(request.who)
    return Response({"token": token, "expires_at": iso(until)})
