"""Builds the route rows of items that have an owner and a version: services, tools, templates."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import ref
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, StaleState, TwinRavenError
from twinraven.serving import JsonSchema, Route

_CHANGE_ERRORS: Final[tuple[type[TwinRavenError], ...]] = (NotFound, Conflict, StaleState, PolicyViolation)


def creation(
    path: str,
    name: str,
    summary: str,
    entity: str,
    body: JsonSchema,
    *errors: type[TwinRavenError],
    location: str,
    note: str = "",
) -> Route:
    """POST an item, once per Idempotency-Key; the answer carries its ETag and its Location."""
    return Route(
        "POST",
        path,
        name,
        summary,
        ref(entity),
        status=201,
        body=body,
        errors=errors,
        is_tagged=True,
        takes_key=True,
        location=location,
        takes_camel_case=True,
        note=note,
    )


def reading(path: str, name: str, summary: str, entity: str) -> Route:
    """GET an item with its ETag."""
    return Route("GET", path, name, summary, ref(entity), errors=(NotFound,), is_tagged=True)


def change(path: str, name: str, summary: str, entity: str, body: JsonSchema) -> Route:
    """PATCH the version of an item that If-Match names."""
    return Route(
        "PATCH",
        path,
        name,
        summary,
        ref(entity),
        body=body,
        errors=_CHANGE_ERRORS,
        is_tagged=True,
        matching="must",
        takes_camel_case=True,
    )


def deletion(path: str, name: str, summary: str) -> Route:
    """DELETE the version of an item that If-Match names."""
    return Route("DELETE", path, name, summary, None, status=204, errors=_CHANGE_ERRORS, matching="must")
