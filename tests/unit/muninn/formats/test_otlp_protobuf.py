"""OTLP in protobuf: the same spans as in JSON, and no bytes that break the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import GOLDEN, as_facts, read, read_values
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats.otlp_protobuf import decode_request, encode_response

REQUEST = (GOLDEN / "openinference-langchain.pb").read_bytes()
"""As the exporter of OpenTelemetry's SDK encoded it."""


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + length(len(value)) + value


def length(size: int) -> bytes:
    return bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])


def test_both_encodings_tell_the_same_calls() -> None:
    """What the SDK encoded as protobuf reads like the same spans in JSON."""
    decoded = json.loads(json.dumps(decode_request(REQUEST)))
    expected = json.loads((GOLDEN / "openinference-langchain.json").read_bytes())
    assert as_facts(*read_values(decoded)) == as_facts(*read_values(expected))
    assert len(read_values(decoded)[0]) == 2


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (field(1, "ü".encode()), {"stringValue": "ü"}),
        (field(1, b"\xff"), {"stringValue": "\ufffd"}),
        (b"\x10\x01", {"boolValue": True}),
        (b"\x18" + b"\xff" * 9 + b"\x01", {"intValue": -1}),
        (b"\x21" + b"\0" * 6 + b"\xf8\x3f", {"doubleValue": 1.5}),
        (field(5, field(1, b"\x18\x07")), {"arrayValue": {"values": [{"intValue": 7}]}}),
        (
            field(6, field(1, field(1, b"k") + field(2, b"\x10\x00"))),
            {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": False}}]}},
        ),
        (b"", {}),
        (b"\x98\x06\x05" + field(1, b"x"), {"stringValue": "x"}),
    ],
)
def test_values_of_every_kind_are_read(encoded: bytes, value: dict[str, Any]) -> None:
    """Each kind of attribute becomes its tagged value, and fields that are not known are skipped."""
    span = field(9, field(1, b"name") + field(2, encoded))
    (resource,) = decode_request(field(1, field(2, field(2, span))))["resourceSpans"]
    assert resource["scopeSpans"][0]["spans"][0]["attributes"] == [{"key": "name", "value": value}]


def test_values_nested_too_deep_are_refused() -> None:
    """A value inside a value inside a value has an end."""
    value = b"\x18\x07"
    for _ in range(40):
        value = field(5, field(1, value))
    with pytest.raises(InvalidInput, match="nested deeper"):
        decode_request(field(1, field(2, field(2, field(9, field(2, value))))))


@given(st.binary(max_size=200))
def test_no_bytes_can_break_the_reader(body: bytes) -> None:
    """Any bytes are a request or a clear refusal."""
    try:
        decode_request(body)
    except InvalidInput as error:
        assert error.message


@given(place=st.integers(0, len(REQUEST) - 1), byte=st.integers(0, 255))
def test_no_damage_to_a_request_can_break_what_reads_it(place: int, byte: int) -> None:
    """A request with a wrong byte is refused, or its spans are read or complained of."""
    damaged = REQUEST[:place] + bytes([byte]) + REQUEST[place + 1 :]
    try:
        decoded = decode_request(damaged)
    except InvalidInput:
        return
    read([json.dumps(decoded).encode()], "otlp")


def test_a_partial_success_is_encoded_as_the_protocol_says() -> None:
    """Nothing where all was accepted; else how many were not, and why."""
    assert encode_response(0, "") == b""
    assert encode_response(300, "no") == b"\x0a\x07\x08\xac\x02\x12\x02no"
