"""`otlp`: spans of tool calls in OTLP's JSON encoding, as collectors write them to files.

A line is a `TracesData` object; a file may also be one such object over many lines. Of all spans only those with the
operation `execute_tool` are calls. A call's session is its conversation, else its trace; when it began and how long it
took are known; a status of error means that it raised. A call whose parent span is a call itself is an inner call.

Spans are written when they end, so an inner call comes before the call around it, often in an earlier line. Spans are
therefore held in a window, in which parents are found and order is restored, before they become events. The id of an
event follows from the ids of trace and span, so a span that is exported twice is one event.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from twinraven.foundation.actors import ACTOR_TYPES, SYSTEM, Actor, parse_actor
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats import genai
from twinraven.muninn.formats.trace import (
    ForeignCall,
    Heard,
    LineError,
    decode_arguments,
    decode_text,
    items_of,
    members_of,
    parse_object,
)
from twinraven.muninn.model import check_turn

WINDOW = 5_000
HELD_BYTES = 64 << 20
_REMEMBERED = 200_000
_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_ERROR = (2, "STATUS_CODE_ERROR")
_LATEST = 2**53

SpanKey = tuple[str, str]
"""Trace and span."""


@dataclass(frozen=True, slots=True)
class _Span:
    call: ForeignCall
    parent: SpanKey | None
    line: int


class OtlpParser:
    """Holds spans until their parents had a chance to turn up."""

    keeps_ids = True

    def __init__(self, tenant_id: str, *, window: int = WINDOW) -> None:
        self._tenant_id = tenant_id
        self._size = window
        self._window: list[_Span] = []
        self._bytes = 0
        self._events: OrderedDict[SpanKey, UUID] = OrderedDict()

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        for span in _spans(parse_object(line)):
            try:
                self._hold(members_of(span, "the span"), number)
            except TwinRavenError as error:
                yield LineError(number, f"span {_shown_id(span)}: {error.message}")
            if len(self._window) >= 2 * self._size:
                yield from self._release(self._size)
        self._bytes += len(line)
        if self._bytes > HELD_BYTES:
            yield from self._release(len(self._window) // 2)
            self._bytes //= 2

    def finish(self) -> Iterator[Heard]:
        yield from self._release(len(self._window))

    def _hold(self, span: dict[str, Any], number: int) -> None:
        attributes = _attributes(span.get("attributes"))
        if attributes.get(genai.OPERATION) != genai.EXECUTE_TOOL:
            return
        key = (_id(span, "traceId", _TRACE_ID), _id(span, "spanId", _SPAN_ID))
        call = _call(span, key, attributes)
        parent = str(span.get("parentSpanId") or "").lower()
        self._window.append(_Span(call, (key[0], parent) if parent else None, number))
        assert call.event_id is not None
        self._events[key] = call.event_id
        if len(self._events) > _REMEMBERED:
            self._events.popitem(last=False)

    def _release(self, count: int) -> Iterator[Heard]:
        """The calls that began first, with their parents."""
        self._window.sort(key=lambda span: span.call.timestamp)
        ready, self._window = self._window[:count], self._window[count:]
        for span in ready:
            call = span.call
            if call.parent_event_id is None and span.parent is not None:
                call = call._replace(parent_event_id=self._events.get(span.parent))
            try:
                yield call.observed_for(self._tenant_id)
            except TwinRavenError as error:
                yield LineError(span.line, f"{call.identity}: {error.message}")


def _spans(document: dict[str, Any]) -> Iterator[Any]:
    if "resourceSpans" not in document:
        raise InvalidInput("resourceSpans is missing: the line holds no spans", field="resourceSpans")
    for resource in items_of(document["resourceSpans"], "resourceSpans"):
        members = members_of(resource, "an item of resourceSpans")
        scopes = members.get("scopeSpans", members.get("instrumentationLibrarySpans"))
        for scope in items_of(scopes, "scopeSpans"):
            yield from items_of(members_of(scope, "an item of scopeSpans").get("spans"), "spans")


def _call(span: dict[str, Any], key: SpanKey, attributes: dict[str, Any]) -> ForeignCall:
    began, ended = _nanos(span, "startTimeUnixNano"), _nanos(span, "endTimeUnixNano")
    if began is None:
        raise InvalidInput("startTimeUnixNano is missing", field="startTimeUnixNano")
    is_known = ended is not None and ended >= began and attributes.get(genai.TIME_KNOWN) is not False
    status = members_of(span.get("status") or {}, "status")
    raised = status.get("code") in _ERROR
    turn = attributes.get(genai.TURN)
    return ForeignCall(
        identity=f"otlp:{key[0]}:{key[1]}",
        session_id=str(attributes.get(genai.CONVERSATION) or key[0]),
        tool_id=_tool(span, attributes),
        params=decode_arguments(attributes.get(genai.ARGUMENTS)),
        timestamp=began // 1000,
        time_known=is_known,
        output=_output(attributes, status, raised=raised),
        latency_ms=0 if ended is None or not is_known else (ended - began + 500_000) // 1_000_000,
        raised=raised,
        error_code=_text(attributes, genai.ERROR_TYPE),
        outcome=_text(attributes, genai.OUTCOME),
        turn=None if turn is None else check_turn(turn),
        task_id=_text(attributes, genai.TASK_ID),
        outside_input=_text(attributes, genai.OUTSIDE_INPUT),
        tags=tuple(map(str, items_of(attributes.get(genai.TAGS), genai.TAGS))),
        correlation_id=_text(attributes, genai.CORRELATION_ID),
        event_id=_uuid(attributes, genai.EVENT_ID) or _derived_id(key),
        parent_event_id=_uuid(attributes, genai.PARENT_EVENT_ID),
        actor=_actor(attributes),
    )


def _tool(span: dict[str, Any], attributes: dict[str, Any]) -> str:
    """The name is only recommended as an attribute, but the span's own name ends with it."""
    stated = attributes.get(genai.TOOL_NAME)
    return str(stated or str(span.get("name") or "").removeprefix(genai.EXECUTE_TOOL).strip())


def _output(attributes: dict[str, Any], status: dict[str, Any], *, raised: bool) -> Any:
    result = attributes.get(genai.RESULT)
    if isinstance(result, str):
        is_json = attributes.get(genai.RESULT_ENCODING) == "json"
        return parse_json(result, field=genai.RESULT) if is_json else decode_text(result)
    if result is None and raised and status.get("message"):
        return {"error": str(status["message"])}
    return result


def _derived_id(key: SpanKey) -> UUID:
    return UUID(bytes=hashlib.sha256("\0".join(("twinraven.otlp", *key)).encode()).digest()[:16], version=4)


def _id(span: dict[str, Any], name: str, form: re.Pattern[str]) -> str:
    found = str(span.get(name) or "").lower()
    if not form.fullmatch(found):
        raise InvalidInput(f"{name} must be {16 if form is _SPAN_ID else 32} hexadecimal digits", field=name)
    return found


def _shown_id(span: Any) -> str:
    return repr(cast("dict[str, Any]", span).get("spanId")) if isinstance(span, dict) else repr(span)[:40]


def _nanos(span: dict[str, Any], name: str) -> int | None:
    """64-bit numbers are texts in OTLP's JSON, and accepted as numbers; zero is how protobuf says nothing."""
    found = span.get(name)
    if found in (None, 0, "0", ""):
        return None
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 21:
        found = int(found)
    if type(found) is not int or not 0 < found // 1000 < _LATEST:
        raise InvalidInput(f"{name} must be nanoseconds since 1970, not {found!r}", field=name)
    return found


def _text(attributes: dict[str, Any], name: str) -> str | None:
    found = attributes.get(name)
    return None if found is None else str(found)


def _actor(attributes: dict[str, Any]) -> Actor | None:
    kind, name = (_text(attributes, genai.attribute_of(field)) for field in ("actor_type", "actor_id"))
    if kind is None or (kind, name) == ("system", None):
        return None if kind is None else SYSTEM
    if kind not in ACTOR_TYPES:
        known = ", ".join(ACTOR_TYPES)
        raise InvalidInput(f"{genai.attribute_of('actor_type')} must be one of {known}, not {kind!r}", field="actor")
    return parse_actor(f"{kind}:{name or ''}", field=genai.attribute_of("actor_id"))


def _uuid(attributes: dict[str, Any], name: str) -> UUID | None:
    found = attributes.get(name)
    if found is None:
        return None
    try:
        return UUID(str(found))
    except ValueError:
        raise InvalidInput(f"{name} must be a UUID, not {found!r}", field=name) from None


def _attributes(listed: Any) -> dict[str, Any]:
    pairs = [members_of(pair, "an attribute") for pair in items_of(listed, "attributes")]
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _value(tagged: Any) -> Any:
    """One of OTLP's tagged values as plain JSON."""
    if tagged is None or tagged == {}:
        return None
    ((kind, value), *_) = members_of(tagged, "an attribute's value").items()
    if kind in ("intValue", "doubleValue"):
        return _number(value, kind)
    if kind == "arrayValue":
        return [_value(item) for item in items_of(members_of(value, "arrayValue").get("values"), "values")]
    if kind == "kvlistValue":
        return _attributes(members_of(value, "kvlistValue").get("values"))
    return value


def _number(value: Any, kind: str) -> int | float:
    try:
        return int(value) if kind == "intValue" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"an attribute's {kind} is {value!r}", field=kind) from None
