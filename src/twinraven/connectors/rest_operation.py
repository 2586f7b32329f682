"""A REST operation as data: which method, which path, what of the arguments goes where.

    {"type": "rest_request", "method": "POST", "path": "/orders/{{order_id}}/notes",
     "query": {"notify": "{{notify}}"}, "headers": {"X-Desk": "support"}, "body": {"text": "{{text}}"},
     "response": "auto", "idempotencyHeader": "Idempotency-Key"}

A string that is one variable and nothing else stands for the value itself, with its type; what is missing or null is
left out of the query, the headers and the members of the body. Arguments come from models and from other people, so a
path parameter is encoded whole, may not be empty (that would be another resource) and may not climb.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast
from urllib.parse import quote, urlencode

from twinraven.connectors.bodies import Reading
from twinraven.connectors.http_model import Headers
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidDefinition, InvalidExpression, InvalidInput
from twinraven.foundation.templates import Handlebars, parse_handlebars

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_KEYS = frozenset({"type", "method", "path", "query", "headers", "body", "bodyType", "response", "idempotencyHeader"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# What the connection is made of belongs to us; a tool that could set it could smuggle requests.
_OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "accept-encoding"),
    }
)
_SLASHES = re.compile(r"[/\\]")
_BodyType = Literal["json", "form", "text"]


@dataclass(frozen=True, slots=True)
class FilledRequest:
    """An operation with its arguments put in."""

    path: str
    query: list[tuple[str, str]]
    headers: Headers
    body: bytes | None


@dataclass(frozen=True, slots=True)
class RestOperation:
    """A parsed operation."""

    method: str
    path: Handlebars
    query: Mapping[str, Any]
    headers: Mapping[str, Any]
    body: Any
    body_type: _BodyType
    response: Reading
    idempotency_header: str | None

    @classmethod
    def parse(cls, operation: Mapping[str, Any]) -> RestOperation:
        """Read an operation; what is wrong is named."""
        return _parse(canonical_json(dict(operation)))

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable it uses, in order of appearance."""
        templates = (self.path, *_templates((self.query, self.headers, self.body)))
        return tuple(dict.fromkeys(name for template in templates for name in template.variables))

    def fill(self, params: Mapping[str, Any]) -> FilledRequest:
        """Put the arguments where they belong."""
        query = [(name, text) for name, value in self.query.items() for text in _texts(_filled(value, params))]
        headers = [
            (name, _checked_value(name, text))
            for name, value in self.headers.items()
            for text in _texts(_filled(value, params))
        ]
        body = self._body(_filled(self.body, params))
        if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("Content-Type", _CONTENT_TYPES[self.body_type]))
        return FilledRequest(self._path(params), query, tuple(headers), body)

    def _path(self, params: Mapping[str, Any]) -> str:
        for name in self.path.variables:
            if params.get(name) in (None, "", [], {}):
                raise InvalidInput(f"params.{name} is part of the path and may not be empty", field=f"params.{name}")
        return self.path.render(params, encode=_encode_segment)

    def _body(self, filled: Any) -> bytes | None:
        if filled is None:
            return None
        if self.body_type == "json":
            return canonical_json(filled)
        if self.body_type == "text":
            return (filled if isinstance(filled, str) else canonical_json(filled).decode()).encode()
        members = cast("dict[str, Any]", filled) if isinstance(filled, dict) else {}
        return urlencode([(name, text) for name, value in members.items() for text in _texts(value)]).encode()


_CONTENT_TYPES = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
}


@lru_cache(maxsize=1024)
def _parse(text: bytes) -> RestOperation:
    found = cast("dict[str, Any]", parse_json(text))
    unknown = sorted(found.keys() - _KEYS)
    if unknown:
        raise _invalid(unknown[0], f"is unknown; there are {', '.join(sorted(_KEYS))}")
    method = str(found.get("method", "GET")).upper()
    if method not in METHODS:
        raise _invalid("method", f"must be one of {', '.join(METHODS)}")
    header = found.get("idempotencyHeader")
    if header is not None:
        _check_header(header, "idempotencyHeader")
    for name in _mapping(found, "headers"):
        _check_header(name, f"headers.{name}")
    operation = RestOperation(
        method=method,
        path=_path_template(found.get("path", "")),
        query=_mapping(found, "query"),
        headers=_mapping(found, "headers"),
        body=found.get("body"),
        body_type=_choice(found, "bodyType", ("json", "form", "text")),
        response=_choice(found, "response", ("auto", "json", "text")),
        idempotency_header=header,
    )
    list(_templates((operation.query, operation.headers, operation.body)))
    return operation


def _encode_segment(text: str) -> str:
    # Encoding keeps dots, and servers differ in when they decode a slash; a step upwards must not be in there at all.
    if not {".", ".."}.isdisjoint(_SLASHES.split(text)):
        raise InvalidInput("a parameter of the path may not climb with '.' or '..'", field="params")
    return quote(text, safe="")


def _templates(value: Any) -> Iterator[Handlebars]:
    """Every template in a part of the operation, names of members excepted."""
    if isinstance(value, str):
        yield _template(value, "template")
    elif isinstance(value, Mapping):
        for member in cast("Mapping[str, Any]", value).values():
            yield from _templates(member)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from _templates(item)


def _filled(value: Any, params: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return parse_handlebars(value).resolve(params) if "{{" in value else value
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        filled = {name: _filled(member, params) for name, member in members.items()}
        return {name: member for name, member in filled.items() if member is not None or members[name] is None}
    if isinstance(value, list):
        return [_filled(item, params) for item in cast("list[Any]", value)]
    return value


def _texts(value: Any) -> list[str]:
    """A value as it stands in a query: a list several times, nothing not at all."""
    if value is None:
        return []
    if isinstance(value, list):
        return [text for item in cast("list[Any]", value) for text in _texts(item)]
    return [value if isinstance(value, str) else canonical_json(value).decode()]


def _checked_value(name: str, text: str) -> str:
    if not text.isprintable() or any(ord(character) > 255 for character in text):
        raise InvalidInput(f"the header {name} cannot carry line breaks or such characters", field=f"headers.{name}")
    return text


def _check_header(name: Any, field: str) -> None:
    if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
        raise _invalid(field, "is not the name of a header")
    if name.lower() in _OURS:
        raise _invalid(field, "belongs to the connection and cannot be set")


def _template(text: Any, field: str) -> Handlebars:
    if not isinstance(text, str):
        raise _invalid(field, "must be text")
    try:
        return parse_handlebars(text)
    except InvalidExpression as error:
        raise _invalid(field, error.message) from None


def _path_template(text: Any) -> Handlebars:
    template = _template(text, "path")
    if not {"?", "#", "\\"}.isdisjoint(text):
        raise _invalid("path", "is a path alone; name what is asked for under query")
    return template


def _mapping(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value: Any = found.get(name)
    if value is not None and not isinstance(value, dict):
        raise _invalid(name, "must be an object")
    return cast("dict[str, Any]", value or {})


def _choice(found: Mapping[str, Any], name: str, words: tuple[Any, ...]) -> Any:
    word = found.get(name, words[0])
    if word not in words:
        raise _invalid(name, f"must be one of {', '.join(words)}")
    return word


def _invalid(field: str, problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"operation.{field} {problem}", field=f"operation.{field}")
