"""The OpenAPI document, written from the table of routes: every route, every parameter, every error by its code."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, cast

from twinraven import __version__
from twinraven.api.contract import NAME_SCHEMA, Parameter, Route
from twinraven.api.entities import entity_schemas
from twinraven.api.problems import (
    EVERYWHERE,
    MEDIA,
    MatchRequired,
    MediaRefused,
    TooLarge,
    family,
    status_of,
    title,
)
from twinraven.foundation.errors import (
    CallInProgress,
    EffectUnknown,
    IdempotencyConflict,
    PolicyViolation,
    StaleState,
    TwinRavenError,
)
from twinraven.tenancy import NotAuthenticated

_PARTS: Final = "#/components/schemas/"
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Problem details (RFC 9457), with a stable code.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "stable; docs/errors.md lists them"},
        "retryable": {"type": "boolean", "description": "whether the same request may simply be sent again"},
        "details": {"type": "object"},
    },
    "required": ["type", "title", "status", "detail", "code", "retryable", "details"],
}
_CORRELATION: Final = {
    "X-Correlation-Id": {
        "description": "the id of this request in events, evidence and logs",
        "schema": {"type": "string"},
    }
}
_RAW: Final[dict[str, Any]] = {"application/json": {"type": "object"}}
_TENANTS_KEY: Final = "sent twice with the same key, by whichever users of the tenant, it happens once"
_HEADERS: Final = {
    "X-Correlation-Id": ("an id of yours for this request", "^[A-Za-z0-9._:/+=-]{1,128}$"),
    "Idempotency-Key": ("sent twice with the same key, it happens once", "^[!-~]{1,255}$"),
    "If-Match": ("the ETag of the version that is meant, or *", r'^(\*|"[!#-~]{0,255}")$'),
}


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TwinRaven",
            "version": __version__,
            "description": (
                "Runs agents' tool calls, remembers each of them, and compiles what repeats into verified tools. "
                "Errors are problem details with a stable `code`; lists are read page by page with `next_cursor`."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**_entities(), "Problem": _PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        "security": [{"bearer": []}, {"header": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": list(_parameters(route)),
        "responses": {**_successes(route), **_failures(route)},
    }
    if route.note or route.admin:
        found["description"] = " ".join([route.note, "For administrators." if route.admin else ""]).strip()
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.body}}}
    if route.raw:
        content = {media: {"schema": _RAW.get(media, {})} for media in route.raw}
        found["requestBody"] = {"required": True, "content": content}
    if route.is_open:
        found["security"] = []
    return found


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in route.names:
        yield {"name": name, "in": "path", "required": True, "schema": route.parameters.get(name, NAME_SCHEMA)}
    for each in route.all_query:
        yield _query(each)
    names = ["X-Correlation-Id"]
    if route.takes_key:
        names.append("Idempotency-Key")
    if route.matching != "no":
        names.append("If-Match")
    for name in names:
        description, pattern = _HEADERS[name]
        if name == "Idempotency-Key" and route.keeps_key:
            description = _TENANTS_KEY
        yield {
            "name": name,
            "in": "header",
            "required": name == "If-Match" and route.matching == "must",
            "description": description,
            "schema": {"type": "string", "pattern": pattern},
        }


def _query(each: Parameter) -> dict[str, Any]:
    return {
        "name": each.name,
        "in": "query",
        "required": each.required,
        "description": each.description,
        "schema": each.schema,
    }


def _successes(route: Route) -> dict[str, Any]:
    headers: dict[str, Any] = dict(_CORRELATION)
    if route.is_tagged:
        headers["ETag"] = {"description": "names this version, for If-Match", "schema": {"type": "string"}}
    content = {} if route.answer is None else {"content": {route.media: {"schema": route.answer}}}
    found: dict[str, Any] = {str(route.status): {"description": route.summary, "headers": headers, **content}}
    for status, meaning in route.also.items():
        found[str(status)] = {"description": meaning, "headers": _CORRELATION, **content}
    if route.method == "GET" and route.is_tagged:
        found["304"] = {"description": "It is as If-None-Match says you have it."}
    return found


def _failures(route: Route) -> dict[str, Any]:
    kinds: list[type[TwinRavenError]] = [*EVERYWHERE, *route.errors]
    if not route.is_open:
        kinds.append(NotAuthenticated)
    if route.admin:
        kinds.append(PolicyViolation)
    if route.body is not None or route.raw:
        kinds += [MediaRefused]
    if route.method != "GET":
        kinds += [TooLarge]
    if route.takes_key:
        kinds += [CallInProgress, IdempotencyConflict, EffectUnknown]
    if route.matching != "no":
        kinds += [StaleState]
    if route.matching == "must":
        kinds += [MatchRequired]
    codes: dict[int, set[str]] = {}
    for kind in family(tuple(kinds)):
        codes.setdefault(status_of(kind), set()).add(kind.code)
    return {str(status): _failure(status, sorted(codes[status])) for status in sorted(codes)}


def _failure(status: int, codes: list[str]) -> dict[str, Any]:
    return {
        "description": f"{title(status)}: {', '.join(codes)}",
        "headers": _CORRELATION,
        "content": {
            MEDIA: {
                "schema": {
                    "allOf": [
                        {"$ref": f"{_PARTS}Problem"},
                        {"type": "object", "properties": {"code": {"enum": codes}, "status": {"const": status}}},
                    ]
                }
            }
        },
    }


@cache
def _entities() -> dict[str, Any]:
    """Every entity as a component; what one entity holds of another becomes a component of its own."""
    found: dict[str, Any] = {}
    for name, schema in entity_schemas():
        inner: dict[str, Any] = schema.pop("$defs", {})
        for word in ("$schema", "$id"):
            schema.pop(word, None)
        for part, body in inner.items():
            found.setdefault(part, _pointed(body))
        found[name] = _pointed(schema)
    return found


def _pointed(body: Any) -> Any:
    """A schema whose references point to the document's components."""
    if isinstance(body, list):
        return [_pointed(each) for each in cast("list[Any]", body)]
    if not isinstance(body, dict):
        return body
    return {
        word: str(value).replace("#/$defs/", _PARTS) if word == "$ref" else _pointed(value)
        for word, value in cast("dict[str, Any]", body).items()
    }
