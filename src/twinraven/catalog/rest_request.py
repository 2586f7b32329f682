"""Builds an HTTP request from a REST operation and arguments, escaped so that no argument can inject anything.

A value in the path stays one segment of it: it is percent-encoded, and `.` and `..` are refused. A value in a header
cannot begin another header. Credentials are not for templates: they come from the tool's secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from twinraven.catalog.json_templates import fill_json, parse_text
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidDefinition, InvalidInput
from twinraven.foundation.templates import Handlebars

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECODINGS: Final = 4
_SLASHES: Final = re.compile(r"[/\\]")
_NOT_OURS: Final = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
    }
)


@dataclass(frozen=True, slots=True)
class RestRequest:
    """An HTTP request to send; `path` is encoded and relative to the endpoint's address."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: Any


def check_path(template: Handlebars) -> None:
    text = template.source
    if not text.startswith("/") or text.startswith("//"):
        raise _invalid("operation.path", "must begin with one /; the endpoint's address stands before it")
    for sign, why in (("?", "put parameters into query"), ("#", "a fragment is never sent"), ("\\", "write /")):
        if any(sign in node for node in template.nodes if isinstance(node, str)):
            raise _invalid("operation.path", f"has a {sign} in it; {why}")


def check_header(name: str, value: object) -> None:
    field = f"operation.headers.{name}"
    if _HEADER_NAME.fullmatch(name) is None:
        raise _invalid(field, "is not the name of a header")
    if name.lower() in _NOT_OURS:
        raise _invalid(field, "is set by the connector; credentials belong into the tool's secret")
    if not isinstance(value, str) or not value.isprintable():
        raise _invalid(field, "must be a text in one line")
    parse_text(value, field)


def fill_path(path: str, params: Mapping[str, Any]) -> str:
    """Return the path with its values encoded, each a part of one segment."""
    template = parse_text(path, "path")

    def encode(text: str) -> str:
        # Without its last segment a path can name a whole collection.
        if not text:
            raise _misleading(template, params, lambda value: not value, f"is empty, and stands in the path {path!r}")
        return quote(text, safe="", errors="replace")

    filled = template.render(params, encode=encode)
    if filled.startswith("//") or _climbs(filled):
        raise _misleading(template, params, _climbs, f"would lead out of the path {path!r}")
    return quote(filled, safe="/%:@!$&'()*+,;=~-._")


def _climbs(text: str) -> bool:
    """Return whether a segment is `.` or `..`, also to a server that decodes too often or takes either slash."""
    for _ in range(_DECODINGS):
        if not {".", ".."}.isdisjoint(_SLASHES.split(text)):
            return True
        text = unquote(text)
    return False


def _misleading(
    template: Handlebars, params: Mapping[str, Any], is_guilty: Callable[[str], bool], problem: str
) -> InvalidInput:
    """Return the error for a value that makes another path, naming the parameter where it is one alone."""
    texts = {name: _as_text(params.get(name)) if params.get(name) is not None else "" for name in template.variables}
    guilty = [name for name, text in texts.items() if is_guilty(text)]
    if len(guilty) == 1:
        field = f"params.{guilty[0]}"
        return InvalidInput(f"{field} {problem}", field=field, path=template.source)
    return InvalidInput(f"params: a value {problem}", field="params", path=template.source)


def fill_query(query: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Pairs of name and text; a list gives its name once for each element, nothing gives no pair."""
    pairs: list[tuple[str, str]] = []
    for name, value in fill_json(dict(query), params).items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs += [(name, _as_text(each)) for each in values if each is not None]
    return tuple(pairs)


def fill_headers(headers: Mapping[str, str], params: Mapping[str, Any]) -> dict[str, str]:
    filled: dict[str, str] = {}
    for name, value in fill_json(dict(headers), params).items():
        if value is None:
            continue
        text = _as_text(value)
        if not text.isprintable():
            raise InvalidInput(f"params: the header {name!r} would not be one line", field="params", header=name)
        filled[name] = text
    return filled


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def _invalid(field: str, problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"{field} {problem}", field=field)
