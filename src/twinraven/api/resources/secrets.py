"""Secrets: written and replaced, never read. What can be read about one says nothing of its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twinraven.api.contract import Answer, Request, Route
from twinraven.api.forms import FLAG, TEXT, expected_version, form, listing, ref, refuse_secrets
from twinraven.api.pages import slice_of
from twinraven.foundation.errors import Conflict, NotFound, StaleState
from twinraven.vault import SECRET_TYPES, Secret

_NOTE: Final = (
    "A value that is the name of a tool, a service or a template that one sees, or part of such a name, is refused: it "
    "would be redacted wherever the name stands. A value under 8 characters is never redacted."
)
_VALUE: Final = {"type": "string", "minLength": 1, "maxLength": 65_536, "writeOnly": True, "format": "password"}


async def list_secrets(request: Request) -> Answer:
    found = await request.raven.vault.secrets(request.tenant_id, request.who.user_id)
    return Answer(page=slice_of(found, request.query, key=lambda each: each.secret_id, show=Secret.as_json))


async def create_secret(request: Request) -> Answer:
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
    return _shown(made, status=201)


async def show_secret(request: Request) -> Answer:
    return _shown(await request.raven.vault.get(request.tenant_id, request.who.user_id, request.path["secret_id"]))


async def rotate_secret(request: Request) -> Answer:
    rotated = await request.raven.vault.rotate(
        request.tenant_id,
        request.who.user_id,
        request.path["secret_id"],
        request.body["value"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return _shown(rotated)


async def change_secret(request: Request) -> Answer:
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
    return _shown(changed)


async def delete_secret(request: Request) -> Answer:
    await request.raven.vault.delete(
        request.tenant_id,
        request.who.user_id,
        request.path["secret_id"],
        expected_version=expected_version(request),
        correlation_id=request.correlation_id,
    )
    return Answer(status=204)


def _shown(secret: Secret, *, status: int = 200) -> Answer:
    return Answer(secret.as_json(), status=status, tag=str(secret.version))


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/secrets",
        "listSecrets",
        "One's own secrets, without their values",
        list_secrets,
        listing("Secret"),
        is_paged=True,
    ),
    Route(
        "POST",
        "/v1/secrets",
        "createSecret",
        "Keep a secret",
        create_secret,
        ref("Secret"),
        status=201,
        body=form({"name": TEXT, "type": {"enum": list(SECRET_TYPES)}, "value": _VALUE}, optional={"shared": FLAG}),
        errors=(Conflict,),
        is_tagged=True,
        takes_key=True,
        note=_NOTE,
    ),
    Route(
        "GET",
        "/v1/secrets/{secret_id}",
        "showSecret",
        "What is known about a secret",
        show_secret,
        ref("Secret"),
        errors=(NotFound,),
        is_tagged=True,
    ),
    Route(
        "PUT",
        "/v1/secrets/{secret_id}/value",
        "rotateSecret",
        "Replace a secret's value; its id stays",
        rotate_secret,
        ref("Secret"),
        body=form({"value": _VALUE}),
        errors=(NotFound, StaleState),
        is_tagged=True,
        matching="may",
        note=_NOTE,
    ),
    Route(
        "PATCH",
        "/v1/secrets/{secret_id}",
        "changeSecret",
        "Rename a secret",
        change_secret,
        ref("Secret"),
        body=form({}, optional={"name": TEXT, "shared": FLAG}) | {"minProperties": 1},
        errors=(NotFound, Conflict),
        is_tagged=True,
        matching="may",
    ),
    Route(
        "DELETE",
        "/v1/secrets/{secret_id}",
        "deleteSecret",
        "Delete a secret that no tool uses",
        delete_secret,
        None,
        status=204,
        errors=(NotFound, Conflict),
        matching="may",
    ),
)
