"""The users of a tenant and their keys. A key is shown once, to whoever makes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from twinraven.api.contract import Answer, JsonSchema, Request, Route
from twinraven.api.forms import FLAG, TEXT, expected_version, form, listing, ref, refuse_secrets
from twinraven.api.pages import slice_of
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState
from twinraven.tenancy import ApiKey, User

_ROLE: Final[JsonSchema] = {"enum": ["admin", "member"]}
_KIND: Final[JsonSchema] = {"enum": ["person", "agent"]}
_NAME: Final[JsonSchema] = {**TEXT, "maxLength": 200}
_LABEL: Final[JsonSchema] = {**_NAME, "minLength": 0}
_ISSUED: Final[JsonSchema] = {
    "allOf": [ref("ApiKey"), {"type": "object", "properties": {"shown_once": {"type": ["string", "null"]}}}]
}


async def show_me(request: Request) -> Answer:
    who = request.who
    told = {"tenant_id": who.tenant_id, "user_id": who.user_id, "kind": who.kind, "role": who.role}
    return Answer({**told, "key_id": who.key_id})


async def list_users(request: Request) -> Answer:
    found = await request.raven.tenancy.users(request.tenant_id)
    return Answer(page=slice_of(found, request.query, key=lambda each: each.user_id, show=User.as_json))


async def add_user(request: Request) -> Answer:
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


async def show_user(request: Request) -> Answer:
    return _shown(await request.raven.tenancy.user(request.tenant_id, request.path["user_id"]))


async def change_user(request: Request) -> Answer:
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


async def list_keys(request: Request) -> Answer:
    found = await request.raven.tenancy.keys(request.tenant_id)
    own = [key for key in found if request.who.role == "admin" or key.user_id == request.who.user_id]
    return Answer(page=slice_of(own, request.query, key=lambda each: each.key_id, show=ApiKey.as_json))


async def issue_key(request: Request) -> Answer:
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
    return Answer({**issued.key.as_json(), "shown_once": issued.clear}, status=201)


async def revoke_key(request: Request) -> Answer:
    await request.raven.tenancy.revoke_key(request.tenant_id, request.path["key_id"], by=request.who)
    return Answer(status=204)


def _shown(user: User, *, status: int = 200) -> Answer:
    return Answer(user.as_json(), status=status, tag=str(user.state_version))


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/me",
        "showMe",
        "Whom the key stands for",
        show_me,
        form(
            {"tenant_id": TEXT, "user_id": TEXT, "kind": _KIND, "role": _ROLE, "key_id": {"type": ["string", "null"]}}
        ),
    ),
    Route(
        "GET",
        "/v1/users",
        "listUsers",
        "The users of the tenant",
        list_users,
        listing("User"),
        admin=True,
        is_paged=True,
    ),
    Route(
        "POST",
        "/v1/users",
        "addUser",
        "Add a user",
        add_user,
        ref("User"),
        status=201,
        body=form({"name": _NAME}, optional={"role": _ROLE, "kind": _KIND}),
        errors=(Conflict,),
        admin=True,
        is_tagged=True,
        takes_key=True,
        note="What a user of the kind `agent` does is recorded as an agent's; the kind never changes.",
    ),
    Route(
        "GET",
        "/v1/users/{user_id}",
        "showUser",
        "One user",
        show_user,
        ref("User"),
        errors=(NotFound,),
        admin=True,
        is_tagged=True,
    ),
    Route(
        "PATCH",
        "/v1/users/{user_id}",
        "changeUser",
        "Change a user's role, or lock the user out",
        change_user,
        ref("User"),
        body=form({}, optional={"role": _ROLE, "active": FLAG}) | {"minProperties": 1},
        errors=(NotFound, Conflict, StaleState),
        admin=True,
        is_tagged=True,
        matching="must",
    ),
    Route(
        "GET",
        "/v1/keys",
        "listKeys",
        "One's own API keys; for administrators, everybody's",
        list_keys,
        listing("ApiKey"),
        is_paged=True,
    ),
    Route(
        "POST",
        "/v1/keys",
        "issueKey",
        "Make an API key; its value is in this answer and nowhere else",
        issue_key,
        _ISSUED,
        status=201,
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
    ),
    Route(
        "DELETE",
        "/v1/keys/{key_id}",
        "revokeKey",
        "Revoke an API key",
        revoke_key,
        None,
        status=204,
        errors=(NotFound,),
    ),
)
