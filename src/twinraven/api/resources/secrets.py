"""Serves secrets: written and replaced, never read. Metadata says nothing of a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twinraven.api.owned_items import creation, reading
from twinraven.api.schemas import FLAG, TEXT, form, listing, ref
from twinraven.foundation.errors import Conflict, NotFound, StaleState
from twinraven.serving import Request, Response, Route, RouteTable, expected_version, refuse_secrets, slice_of
from twinraven.vault import SECRET_TYPES, Secret

_NOTE: Final = (
    "A value that is the name of a tool, a service or a template that one sees, or part of such a name, is refused: it "
    "would be redacted wherever the name stands. A value under 8 characters is never redacted."
)
_VALUE: Final = {"type": "string", "minLength": 1, "maxLength": 65_536, "writeOnly": True, "format": "password"}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/secrets",
        "listSecrets",
        "One's own secrets, without their values",
        listing("Secret"),
        is_paged=True,
    )
)
async def list_secrets(request: Request) -> Response:
    found = await request.raven.vault.secrets(request.tenant_id, request.who.user_id)
    users = await request.raven.vault.used_by(request.tenant_id, [each.secret_id for each in found])
    return Response(
        page=slice_of(found, request.query, key=lambda each: each.secret_id, show=lambda each: _with_users(each, users))
    )


@ROUTES.handles(
    creation(
        "/v1/secrets",
        "createSecret",
        "Keep a secret",
        "Secret",
        form({"name": TEXT, "type": {"enum": list(SECRET_TYPES)}, "value": _VALUE}, optional={"shared": FLAG}),
        Conflict,
        location="/v1/secrets/{id}",
        note=_NOTE,
    )
)
async def create_secret(request: Request) -> Response:
    body = request.body
    await refuse_secrets(request, name=body["name"])
    made = await request.raven.vault.create(
        request.tenant_id,
        request.who.user_id,
        name=body["name"],
        type=body["type"],
        value=body["value"],
        shared=body.get("shared", False),
        correlation_id=request.correlation_id,
    )
    return await _shown(request, made, status=201)


@ROUTES.handles(reading("/v1/secrets/{secret_id}", "showSecret", "What is known about a secret", "Secret"))
async def show_secret(request: Request) -> Response:
    return await _shown(
        request, await request.raven.vault.get(request.tenant_id, request.who.user_id, request.path["secret_id"])
    )


@ROUTES.handles(
    Route(
        "PUT",
        "/v1/secrets/{secret_id}/value",
        "rotateSecret",
        "Replace a secret's value; its id stays",
        ref("Secret"),
        body=form({"value": _VALUE}),
        errors=(NotFound, StaleState),
        is_tagged=True,
        matching="may",
        note=_NOTE,
    )
)
async def rotate_secret(request: Request) -> Response:
    rotated = await request.raven.vault.rotate(
        request.tenant_id,
        request.who.user_id,
        request.path["secret_id"],
        request.body["value"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return await _shown(request, rotated)


@ROUTES.handles(
    Route(
        "PATCH",
        "/v1/secrets/{secret_id}",
        "changeSecret",
        "Rename a secret",
        ref("Secret"),
        body=form({}, optional={"name": TEXT, "shared": FLAG}) | {"minProperties": 1},
        errors=(NotFound, Conflict),
        is_tagged=True,
        matching="may",
    )
)
async def change_secret(request: Request) -> Response:
    body = request.body
    await refuse_secrets(request, name=body.get("name"))
    changed = await request.raven.vault.update(
        request.tenant_id,
        request.who.user_id,
        request.path["secret_id"],
        name=body.get("name"),
        shared=body.get("shared"),
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return await _shown(request, changed)


@ROUTES.handles(
    Route(
        "DELETE",
        "/v1/secrets/{secret_id}",
        "deleteSecret",
        "Delete a secret that no tool uses",
        None,
        status=204,
        errors=(NotFound, Conflict),
        matching="may",
    )
)
async def delete_secret(request: Request) -> Response:
    await request.raven.vault.delete(
        request.tenant_id,
        request.who.user_id,
        request.path["secret_id"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Response(status=204)


async def _shown(request: Request, secret: Secret, *, status: int = 200) -> Response:
    users = await request.raven.vault.used_by(request.tenant_id, [secret.secret_id])
    return Response(_with_users(secret, users), status=status, tag=str(secret.version))


def _with_users(secret: Secret, users: Mapping[str, list[str]]) -> dict[str, Any]:
    return {**secret.as_json(), "used_by": users[secret.secret_id]}
