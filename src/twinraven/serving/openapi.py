"""Writes the OpenAPI document of a table of routes: every route, every parameter, every error by its code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from twinraven.foundation.errors import (
    CallInProgress,
    EffectUnknown,
    IdempotencyConflict,
    PolicyViolation,
    StaleState,
    TwinRavenError,
)
from twinraven.serving.contract import NAME_SCHEMA, QueryParameter, Route
from twinraven.serving.problems import (
    EVERYWHERE,
    MEDIA,
    MatchRequired,
    MediaRefused,
    TooLarge,
    family,
    status_of,
    title,
)
from twinraven.serving.stream_limit import TooManyStreams
from twinraven.tenancy import NotAuthenticated

PARTS: Final = "#/components/schemas/"
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
_TAG: Final = '"[!#-~]{0,255}"'
_HEADERS: Final = {
    "X-Correlation-Id": ("an id of yours for this request", "^[A-Za-z0-9._:/+=-]{1,128}$"),
    "Idempotency-Key": ("sent twice with the same key, in quotes or not, it happens once", "^[!-~]{1,255}$"),
    "If-Match": ("the ETag of the version that is meant, several of them, or *", rf"^(\*|{_TAG}(, ?{_TAG}){{0,19}})$"),
}


def describe_routes(routes: Iterable[Route], components: Mapping[str, Any], *, version: str) -> dict[str, Any]:
    """Return the document; `components` are the schemas that rows refer to by name."""
    table = list(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TwinRaven",
            "version": version,
            "description": (
                "Runs agents' tool calls, remembers each of them, and compiles what repeats into verified tools. "
                "Errors are problem details with a stable `code`; lists are read page by page with `next_cursor`. "
                "Answers have their fields in snake_case, as described here, and in camelCase with `?case=camel`."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(route.tag for route in table)],
        "paths": paths,
        "components": {
            "schemas": _used({**components, **_problems(table)}, paths),
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
    whom = "For administrators." if route.admin else "For approvers and administrators." if route.decides else ""
    said = f"{route.note} {whom}".strip()
    found["description"] = said or f"{route.summary}."
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


def _query(each: QueryParameter) -> dict[str, Any]:
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
    if route.location:
        headers["Location"] = {"description": "where what was made is found", "schema": {"type": "string"}}
    content = {} if route.answer is None else {"content": {route.media: {"schema": route.answer}}}
    found: dict[str, Any] = {str(route.status): {"description": route.summary, "headers": headers, **content}}
    for status, meaning in route.also.items():
        found[str(status)] = {"description": meaning, "headers": _CORRELATION, **content}
    if route.method == "GET" and route.is_tagged:
        found["304"] = {"description": "It is as If-None-Match says you have it."}
    return found


def _failures(route: Route) -> dict[str, Any]:
    codes = _codes(route)
    return {str(status): _failure(status, sorted(codes[status])) for status in sorted(codes)}


def _codes(route: Route) -> dict[int, set[str]]:
    """Return what can go wrong with a route, by status."""
    kinds: list[type[TwinRavenError]] = [*EVERYWHERE, *route.errors]
    if not route.is_open:
        kinds.append(NotAuthenticated)
    if route.admin or route.decides or not route.is_looking:
        kinds.append(PolicyViolation)
    if route.body is not None or route.raw:
        kinds += [MediaRefused]
    if route.method != "GET":
        kinds += [TooLarge]
    if route.takes_key:
        kinds += [CallInProgress, IdempotencyConflict, EffectUnknown]
    if route.matching != "no" or route.is_tagged or route.is_change:
        kinds += [StaleState]
    if route.matching == "must":
        kinds += [MatchRequired]
    if route.is_stream:
        kinds += [TooManyStreams]
    codes: dict[int, set[str]] = {}
    for kind in family(tuple(kinds)):
        codes.setdefault(status_of(kind), set()).add(kind.code)
    return codes


def _failure(status: int, codes: list[str]) -> dict[str, Any]:
    return {
        "description": f"{title(status)}: {', '.join(codes)}",
        "headers": _CORRELATION,
        "content": {MEDIA: {"schema": {"$ref": f"{PARTS}Problem{status}"}}},
        "x-error-codes": codes,
    }


def _problems(routes: Iterable[Route]) -> dict[str, Any]:
    """Return one component for the problems of each status, whole: generators merge no schemas."""
    codes: dict[int, set[str]] = {}
    for route in routes:
        for status, found in _codes(route).items():
            codes.setdefault(status, set()).update(found)
    fields: dict[str, Any] = _PROBLEM["properties"]
    return {
        f"Problem{status}": {
            **_PROBLEM,
            "properties": {
                **fields,
                "status": {"type": "integer", "enum": [status]},
                "code": {**fields["code"], "enum": sorted(codes[status])},
            },
        }
        for status in sorted(codes)
    }


def _used(components: Mapping[str, Any], paths: Any) -> dict[str, Any]:
    """Return the components that something refers to."""
    found: set[str] = set()
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in found and name in components:
            found.add(name)
            waiting += _references(components[name])
    return {name: schema for name, schema in components.items() if name in found}


def _references(body: Any) -> Iterator[str]:
    if isinstance(body, dict):
        for word, value in cast("dict[str, Any]", body).items():
            if word == "$ref" and isinstance(value, str):
                yield value.removeprefix(PARTS)
            else:
                yield from _references(value)
    elif isinstance(body, list):
        for each in cast("list[Any]", body):
            yield from _references(each)
