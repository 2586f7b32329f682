"""Parses requests: path, query, body and headers become what the route says, or an error that names what is wrong."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote_to_bytes

import orjson

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import parse_iso
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_id
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.serving.contract import NAME_SCHEMA, QueryParameter, RawBody, Route
from twinraven.serving.listening import Receive
from twinraven.serving.paging import decode_cursor
from twinraven.serving.problems import EncodingRefused, MediaRefused, TooLarge
from twinraven.serving.spelling import camel_case

LARGEST_BODY: Final = 16 * 1024 * 1024

_MOST_DIGITS: Final = 18
_FEW_DIGITS: Final = 7
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_JSON: Final = b"application/json"
_NOTHING: Final[Mapping[str, str]] = {}
_WORDS: Final = {"true": True, "false": False}
_CORRELATION: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE: Final = re.compile("[\ud800-\udfff]")
_WITHOUT_NUL: Final = "^[^\\u0000"
"""How the patterns begin of texts that are stored as they are."""
_ONLY_ONCE: Final = (
    b"authorization",
    b"x-api-key",
    b"content-type",
    b"content-encoding",
    b"content-length",
    b"host",
    b"idempotency-key",
    b"if-match",
    b"last-event-id",
    b"x-correlation-id",
)


class BoundRoute:
    """A route with its schemas compiled."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.body: Schema | None = None if route.body is None else compile_schema(route.body)
        self.longest = _longest(route.body or {})
        self.texts = _stored_texts(route.body or {})
        self.spellings = _spellings(route.body or {}) if route.takes_camel_case else {}
        self._names = route.names
        self._path = [(name, compile_schema(route.parameters.get(name, NAME_SCHEMA))) for name in route.names]
        self._query = {each.name: (each, compile_schema(each.schema)) for each in route.all_query}
        self._unasked = None if any(each.required for each in route.all_query) else self._with_defaults({})

    def path_of(self, values: Sequence[str]) -> Mapping[str, str]:
        if not values:
            return _NOTHING
        for (name, schema), value in zip(self._path, values, strict=True):
            schema.check(value, field=name)
        return self.names_of(values)

    def names_of(self, values: Sequence[str]) -> Mapping[str, str]:
        """Name the values of a path without checking them, for refusals that come before any check."""
        return dict(zip(self._names, values, strict=True)) if values else _NOTHING

    def query_of(self, text: bytes) -> Mapping[str, Any]:
        if not text and self._unasked is not None:
            return self._unasked
        given = _pairs(text)
        found: dict[str, Any] = {}
        for name, value in given:
            if name not in self._query:
                known = ", ".join(self._query) or "none"
                raise InvalidInput(f"there is no query parameter {name[:100]!r}; there are: {known}", field=name[:100])
            if name in found:
                raise InvalidInput(f"{name} is given twice", field=name)
            parameter, schema = self._query[name]
            found[name] = _typed(parameter, value)
            schema.check(found[name], field=name)
        self._with_defaults(found)
        if "cursor" in found:
            found["cursor"] = decode_cursor(self.route.name, found, found["cursor"], self.route.cursor)
        return found

    def _with_defaults(self, found: dict[str, Any]) -> dict[str, Any]:
        for name, (parameter, _) in self._query.items():
            if name not in found and parameter.required:
                raise InvalidInput(f"{name} is missing; say ?{name}=…", field=name)
            if name not in found and "default" in parameter.schema:
                found[name] = parameter.schema["default"]
        return found


async def read_body(receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
    """Read the whole body, if it is not too large."""
    stated = headers.get(b"content-length", b"0")
    if len(stated) > _FEW_DIGITS and stated.isdigit() and (len(stated) > _MOST_DIGITS or int(stated) > LARGEST_BODY):
        raise TooLarge(f"a body has at most {LARGEST_BODY} bytes", limit=LARGEST_BODY)
    body, more = b"", True
    parts: list[bytes] = []
    size = 0
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidInput("the body broke off", field="body")
        body: bytes = message.get("body", b"")
        size += len(body)
        if size > LARGEST_BODY:
            raise TooLarge(f"a body has at most {LARGEST_BODY} bytes", limit=LARGEST_BODY)
        more = message.get("more_body", False)
        if more or parts:
            parts.append(body)
    return b"".join(parts) if parts else body


def parse_body(bound: BoundRoute, text: bytes, headers: Mapping[bytes, bytes]) -> Any:
    """Parse the body as JSON that fits its schema, or as bytes where the route takes them."""
    encoding = _encoding(bound.route, headers)
    if bound.route.raw:
        return _raw(bound.route, text, headers, encoding)
    if bound.body is None:
        if text:
            raise InvalidInput(f"{bound.route.method} {bound.route.path} takes no body", field="body")
        return None
    if not text:
        raise InvalidInput("the body is missing; send JSON", field="body")
    media = headers.get(b"content-type", b"")
    if media != _JSON:
        media = media.split(b";", 1)[0].strip().lower()
        if media != _JSON:
            raise MediaRefused("the body must be JSON; say so with Content-Type: application/json", media=_shown(media))
    if not text.isascii():
        _refuse_other_encodings(text)
    body = parse_json(text, field="body")
    if text.find(b"NaN") >= 0 or text.find(b"Infinity") >= 0:
        _refuse_odd_numbers(text)
    if bound.texts and _HALF.search(text):
        _refuse_half_characters(text, bound.texts)
    if bound.spellings and isinstance(body, dict):
        body = _in_snake_case(cast("dict[str, Any]", body), bound.spellings)
    for name, most in bound.longest:
        _refuse_long_list(body, name, most)
    bound.body.check(body, field="body")
    return body


def _raw(route: Route, text: bytes, headers: Mapping[bytes, bytes], encoding: str) -> RawBody:
    media = _shown(headers.get(b"content-type", b"").split(b";", 1)[0].strip().lower())
    if media not in route.raw:
        raise MediaRefused(f"the body must be {' or '.join(route.raw)}; say which with Content-Type", media=media)
    return RawBody(text, media, is_gzip=encoding == "gzip")


def _encoding(route: Route, headers: Mapping[bytes, bytes]) -> str:
    """Return how a body is packed; what cannot be unpacked is refused with what can be (RFC 9110, section 12.5.3)."""
    stated = _shown(headers.get(b"content-encoding", b"identity").strip().lower())
    accepted = ("gzip", "identity") if route.raw else ("identity",)
    if stated not in accepted:
        raise EncodingRefused(
            f"Content-Encoding must be {' or '.join(accepted)}, or left out", encoding=stated, accepted=list(accepted)
        )
    return stated


def _longest(schema: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return how many items the lists in a body may have."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return [(name, rule["maxItems"]) for name, rule in properties.items() if "maxItems" in rule]


def _stored_texts(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a body that hold a text without NUL."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return frozenset(name for name, rule in properties.items() if rule.get("pattern", "").startswith(_WITHOUT_NUL))


def _spellings(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of a body's fields by how they are written in camel case."""
    found = {camel_case(str(name)): str(name) for name in schema.get("properties", {})}
    return {spelt: name for spelt, name in found.items() if spelt != name}


def _in_snake_case(body: dict[str, Any], spellings: Mapping[str, str]) -> dict[str, Any]:
    for spelt, name in spellings.items():
        if spelt in body and name in body:
            raise InvalidInput(f"body.{name} is given twice, once as {spelt}", field=f"body.{name}")
    return {spellings.get(name, name): value for name, value in body.items()}


def _refuse_long_list(body: Any, name: str, most: int) -> None:
    """Refuse a long list before the schema check, which would look at every item and block the event loop."""
    found = cast("Mapping[str, Any]", body).get(name) if isinstance(body, dict) else None
    if isinstance(found, list) and len(cast("list[Any]", found)) > most:
        raise InvalidInput(f"body.{name}: this array has more than {most} items", field=f"body.{name}")


def _refuse_odd_numbers(text: bytes) -> None:
    """What many programs write and read although JSON has no word for it; the strict parser says whether to look."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        found: list[str] = []
        json.loads(text, parse_constant=found.append)
        if found:
            raise InvalidInput(
                f"the body is not JSON: {found[0]} is no number in it; send null or a text", field="body"
            ) from None


def _refuse_half_characters(text: bytes, names: frozenset[str]) -> None:
    """A lone surrogate in a text that is stored as it is: the parser would put U+FFFD in its place."""
    body: Any = json.loads(text)
    for name, value in cast("dict[str, Any]", body).items() if isinstance(body, dict) else ():
        if name in names and isinstance(value, str) and _LONE.search(value):
            raise InvalidInput(f"body.{name} holds a lone surrogate; remove it", field=f"body.{name}")


def _refuse_other_encodings(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: byte {error.start} is no part of it", field="body") from None


def refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse duplicate security-relevant headers: a proxy in front of us may have used the other value."""
    names = Counter(name for name, _ in headers)
    for name in _ONLY_ONCE:
        if names[name] > 1:
            shown = _shown(name).title()
            raise InvalidInput(f"the header {shown} is given twice; send it once", field=shown)


def correlation_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the id of this request: as stated, or one of our own."""
    stated = headers.get(b"x-correlation-id")
    if stated is None:
        return new_id()
    text = _shown(stated)
    if _CORRELATION.fullmatch(text) is None:
        raise InvalidInput(
            "X-Correlation-Id must have 1 to 128 letters, digits and . _ : / + = -", field="X-Correlation-Id"
        )
    return text


def key_of(route: Route, headers: Mapping[bytes, bytes]) -> str | None:
    """Return the Idempotency-Key; in quotes, as the IETF draft has it, it is the same key as without."""
    stated = headers.get(b"idempotency-key")
    if stated is None or not route.takes_key:
        return None
    text = _shown(stated)
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        text = _ESCAPED.sub(r"\1", quoted[1])
    if _KEY.fullmatch(text) is None:
        raise InvalidInput(
            "Idempotency-Key must have 1 to 255 visible ASCII characters, in quotes or not", field="Idempotency-Key"
        )
    return text


def moment(text: str, *, field: str) -> datetime:
    """Return a time that can be kept; RFC 3339 allows some, such as leap seconds, that no clock here shows."""
    try:
        return parse_iso(text, field=field)
    except OverflowError:
        raise InvalidInput(f"{field} lies beyond every calendar: {text!r}", field=field) from None


def token_of(query: bytes, headers: Mapping[bytes, bytes]) -> str | None:
    """Return the access_token of a query string, where no key is sent."""
    if b"access_token" not in query or b"authorization" in headers or b"x-api-key" in headers:
        return None
    return next((value for name, value in _pairs(query) if name == "access_token"), None)


def segments(path: bytes) -> list[str] | None:
    """Return a path's parts; None where it is no text."""
    try:
        return [unquote_to_bytes(part).decode() for part in path.split(b"/")[1:]]
    except UnicodeDecodeError:
        return None


def _pairs(text: bytes) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except (UnicodeDecodeError, ValueError):
        raise InvalidInput("the query string is not valid", field="query") from None


def _typed(parameter: QueryParameter, value: str) -> Any:
    kind = parameter.schema.get("type")
    if kind == "integer" and _WHOLE.fullmatch(value):
        return int(value)
    if kind == "boolean" and value in _WORDS:
        return _WORDS[value]
    if kind in ("integer", "boolean"):
        wanted = "a whole number" if kind == "integer" else "true or false"
        raise InvalidInput(f"{parameter.name} must be {wanted}", field=parameter.name)
    return value


def _shown(text: bytes) -> str:
    return text.decode("latin-1")
