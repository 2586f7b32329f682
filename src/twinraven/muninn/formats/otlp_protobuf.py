"""Reads OTLP trace requests in protobuf encoding as the same structure that OTLP's JSON has.

Only what tool calls need is decoded: resources, links and fields of later versions are skipped. The schema is that of
opentelemetry/proto/trace/v1. Input is bounded by its length and by the depth of nested values; whatever is no protobuf
is InvalidInput.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from twinraven.foundation.errors import InvalidInput

_DEEPEST: Final = 32
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = struct.Struct("<d")
_LONGEST_VARINT: Final = 10

Members = dict[str, Any]


def decode_request(body: bytes) -> Members:
    """Return an ExportTraceServiceRequest as OTLP's JSON would have it."""
    view = memoryview(body)
    return {"resourceSpans": [_resource(part) for number, part in _parts(view) if number == 1]}


def encode_response(rejected: int, reason: str) -> bytes:
    """Return an ExportTraceServiceResponse: empty where all was accepted, else with a partial success."""
    if not rejected and not reason:
        return b""
    text = reason.encode()
    partial = (b"\x08" + _varint(rejected) if rejected else b"") + b"\x12" + _varint(len(text)) + text
    return b"\x0a" + _varint(len(partial)) + partial


def _resource(view: memoryview) -> Members:
    return {"scopeSpans": [_scope(part) for number, part in _parts(view) if number in (2, 1000)]}


def _scope(view: memoryview) -> Members:
    return {"spans": [_span(part) for number, part in _parts(view) if number == 2]}


def _span(view: memoryview) -> Members:
    span: Members = {}
    attributes: list[Members] = []
    events: list[Members] = []
    for number, value in _fields(view):
        if number in _SPAN_FIELDS:
            name, read = _SPAN_FIELDS[number]
            span[name] = read(value)
        elif number == 9:
            attributes.append(_pair(_nested(value), 0))
        elif number == 11:
            events.append(_event(_nested(value)))
        elif number == 15:
            span["status"] = _status(_nested(value))
    span["attributes"] = attributes
    if events:
        span["events"] = events
    return span


def _event(view: memoryview) -> Members:
    event: Members = {"attributes": []}
    for number, value in _fields(view):
        if number == 2:
            event["name"] = _text(value)
        elif number == 3:
            event["attributes"].append(_pair(_nested(value), 0))
    return event


def _status(view: memoryview) -> Members:
    status: Members = {}
    for number, value in _fields(view):
        if number == 2:
            status["message"] = _text(value)
        elif number == 3:
            status["code"] = value
    return status


def _pair(view: memoryview, depth: int) -> Members:
    pair: Members = {"key": "", "value": {}}
    for number, value in _fields(view):
        if number == 1:
            pair["key"] = _text(value)
        elif number == 2:
            pair["value"] = _any(_nested(value), depth)
    return pair


def _any(view: memoryview, depth: int) -> Members:
    if depth > _DEEPEST:
        raise InvalidInput(f"an attribute is nested deeper than {_DEEPEST} levels", field="body")
    found: Members = {}
    for number, value in _fields(view):
        if number == 1:
            found = {"stringValue": _text(value)}
        elif number == 2:
            found = {"boolValue": bool(value)}
        elif number == 3:
            found = {"intValue": _signed(value)}
        elif number == 4:
            found = {"doubleValue": _double(value)}
        elif number == 5:
            values = [_any(part, depth + 1) for inner, part in _parts(_nested(value)) if inner == 1]
            found = {"arrayValue": {"values": values}}
        elif number == 6:
            pairs = [_pair(part, depth + 1) for inner, part in _parts(_nested(value)) if inner == 1]
            found = {"kvlistValue": {"values": pairs}}
        elif number == 7:
            found = {"stringValue": _hex(value)}
    return found


def _parts(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields that are messages themselves."""
    for number, value in _fields(view):
        if isinstance(value, memoryview):
            yield number, value


def _fields(view: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: whole numbers, or a view of the bytes."""
    place, end = 0, len(view)
    while place < end:
        tag, place = _read_varint(view, place)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise InvalidInput("the body is no protobuf: a field has the number 0", field="body")
        if kind == _VARINT:
            value, place = _read_varint(view, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _read_varint(view, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise InvalidInput(f"the body is no protobuf: field {number} is of an unknown kind", field="body")
        if size > end - place:
            raise InvalidInput(f"the body is no protobuf, or broke off: field {number} is cut", field="body")
        part = view[place : place + size]
        yield number, part if kind == _BYTES else int.from_bytes(part, "little")
        place += size


def _read_varint(view: memoryview, place: int) -> tuple[int, int]:
    found = 0
    for shift in range(_LONGEST_VARINT):
        if place >= len(view):
            raise InvalidInput("the body is no protobuf, or broke off: a number is cut", field="body")
        byte = view[place]
        place += 1
        found |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return found & 0xFFFF_FFFF_FFFF_FFFF, place
    raise InvalidInput("the body is no protobuf: a number has more than ten bytes", field="body")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _nested(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise InvalidInput("the body is no trace request: a message was expected, a number was found", field="body")
    return cast("memoryview", value)


def _text(value: Any) -> str:
    return bytes(_nested(value)).decode("utf-8", "replace")


def _hex(value: Any) -> str:
    return bytes(_nested(value)).hex()


def _double(value: Any) -> float:
    if isinstance(value, memoryview):
        raise InvalidInput("the body is no trace request: a number was expected", field="body")
    return _DOUBLE.unpack(int(value).to_bytes(8, "little"))[0]


def _signed(value: Any) -> int:
    if isinstance(value, memoryview):
        raise InvalidInput("the body is no trace request: a number was expected", field="body")
    return value - (1 << 64) if value >= 1 << 63 else value


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


_SPAN_FIELDS: Final[dict[int, tuple[str, Callable[[Any], Any]]]] = {
    1: ("traceId", _hex),
    2: ("spanId", _hex),
    4: ("parentSpanId", _hex),
    5: ("name", _text),
    7: ("startTimeUnixNano", _number),
    8: ("endTimeUnixNano", _number),
    16: ("flags", _number),
}
