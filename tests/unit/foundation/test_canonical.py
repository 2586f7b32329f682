"""Canonical JSON and its hash: fixed vectors, an independent implementation, and what JSON cannot say."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

import twinraven
from twinraven.foundation.canonical import (
    MAX_DEPTH,
    canonical_json,
    content_hash,
    input_hash,
    parse_json,
    to_json_value,
)
from twinraven.foundation.errors import InvalidInput

HASHES: list[tuple[Any, str]] = [
    ({}, "2e1472b57af294d1"),
    ([], "ccab0b28617f1f56"),
    (None, "3ec9e10063179f3a"),
    (True, "d7c9b97948142e4a"),
    (0, "633457081244afec"),
    (-0.0, "633457081244afec"),
    (1, "b7b41276360564d4"),
    (1.0, "b7b41276360564d4"),
    ("", "c1cde9deba5a60fb"),
    ("é", "35b1adadf374935d"),
    ({"b": 1, "a": [1, 2.5, None]}, "dfe4030c2da91be0"),
    ({"q": "Müller", "limit": 10, "price": 12.0}, "e74f0229bde55377"),
    ({"\U0001f600": 1, "\ufb33": 2}, "52a25f82407daa99"),
    (1e21, "0f2d05e4afb8d440"),
    (1e-7, "83a6ddb7b2804ec2"),
    ({"order_id": "#W123", "items": ["a", "b"], "nested": {"x": {"y": []}}}, "78071c421af36203"),
    (9007199254740993, "ee079ac2c40e8f42"),
    (2**64, "06c54e6e2de7459b"),
    (123456789012345678901234567890, "d74d73d5f92c834c"),
    (float("nan"), "b99d1f0908ce5c16"),
    (float("-inf"), "5ab28b5426989bf1"),
    (["\ud800"], "375c7f7610360f8a"),
]

# Appendix B of RFC 8785: the bits of a double and how it is written.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

safe_integers = st.integers(-(2**53) + 1, 2**53 - 1)
finite_floats = st.floats(allow_nan=False, allow_infinity=False)
json_texts = st.text(st.characters(exclude_categories=["Cs"]))


def trees(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


interoperable = trees(st.none() | st.booleans() | safe_integers | finite_floats | json_texts, json_texts)
anything = trees(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.text())


def nested(levels: int, *, wrap: Callable[[Any], Any]) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.req("TR-05")
@pytest.mark.parametrize(("value", "expected"), HASHES)
def test_hashes_are_the_recorded_ones(value: Any, expected: str) -> None:
    """The hash of a value never changes, because stored events are looked up by it."""
    assert input_hash(value) == expected


@pytest.mark.req("TR-05")
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_hashes_are_equal_in_every_process(seed: str) -> None:
    """Another process with another hash seed computes the same hashes from the same JSON."""
    values = [value for value, _ in HASHES[:19]]
    script = (
        "import json, sys; from twinraven.foundation.canonical import input_hash; "
        "print(json.dumps([input_hash(v) for v in json.load(sys.stdin)]))"
    )
    source = str(Path(twinraven.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(values),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [expected for _, expected in HASHES[:19]]


@pytest.mark.req("TR-05")
@settings(deadline=None, max_examples=300)
@given(interoperable)
def test_texts_equal_an_independent_implementation(value: Any) -> None:
    """Within the domain of RFC 8785 the text is the one that another implementation of it writes."""
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.req("TR-05")
@settings(deadline=None)
@given(st.dictionaries(st.text(), anything), st.randoms(use_true_random=False))
def test_order_of_keys_does_not_matter(members: dict[str, Any], random: Any) -> None:
    """Objects with the same members hash equally, whatever order they were built in."""
    shuffled = list(members.items())
    random.shuffle(shuffled)
    assert input_hash(dict(shuffled)) == input_hash(members)


@pytest.mark.req("TR-05")
@pytest.mark.parametrize(("bits", "expected"), NUMBERS)
def test_numbers_are_written_as_the_standard_lists_them(bits: str, expected: str) -> None:
    """The doubles of RFC 8785's appendix come out as printed there."""
    number = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical_json(number).decode() == expected
    assert canonical_json([number, {"n": number}]).decode() == f'[{expected},{{"n":{expected}}}]'


@pytest.mark.req("TR-05")
def test_keys_are_sorted_by_utf16() -> None:
    """The sorting example of RFC 8785 comes out in its order, where an emoji precedes a Hebrew presentation form."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    written: dict[str, int] = json.loads(canonical_json(dict.fromkeys(keys, 0)))
    assert list(written) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_what_json_cannot_say_has_one_form() -> None:
    """NaN, the infinities and lone surrogates have a text of their own, also beside a null and inside keys."""
    value = {"a": float("nan"), "b": [None, float("inf"), float("-inf")], "\udc00": "x\ud800y"}
    expected = '{"a":"NaN","b":[null,"Infinity","-Infinity"],"\ufffd":"x\ufffdy"}'
    assert canonical_json(value).decode() == expected
    assert canonical_json(to_json_value(value)).decode() == expected


def test_integers_keep_all_their_digits_up_to_a_limit() -> None:
    """Integers beyond 64 bits stay exact, and those no caller can mean are refused."""
    assert canonical_json(10**300).decode() == "1" + "0" * 300
    assert parse_json(canonical_json({"n": 10**300})) == {"n": 10**300}
    with pytest.raises(InvalidInput, match="8192 bits"):
        canonical_json(1 << 8192)
    with pytest.raises(InvalidInput, match="8192 bits"):
        to_json_value({"n": 1 << 8192})


def in_list(value: Any) -> Any:
    return [value]


def in_object(value: Any) -> Any:
    return {"k": value}


@pytest.mark.parametrize("wrap", [in_list, in_object])
def test_nesting_has_one_limit(wrap: Callable[[Any], Any]) -> None:
    """The deepest level is accepted, the next one is refused, and a far deeper value does no harm."""
    deepest = nested(MAX_DEPTH, wrap=wrap)
    assert canonical_json(deepest)
    assert to_json_value(deepest) == deepest
    for levels in (MAX_DEPTH + 1, 100_000):
        for convert in (canonical_json, to_json_value):
            with pytest.raises(InvalidInput, match="nested deeper"):
                convert(nested(levels, wrap=wrap))


def test_nesting_limit_is_the_same_for_exact_numbers() -> None:
    """A number that only the exact encoder can write changes nothing about the limit."""
    deepest = nested(MAX_DEPTH - 1, wrap=in_list)
    assert canonical_json([1.0, deepest])
    with pytest.raises(InvalidInput, match="nested deeper"):
        canonical_json([1.0, [deepest]])


def test_a_value_that_contains_itself_is_refused() -> None:
    """A cycle is an error, not a hang."""
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(InvalidInput, match="nested deeper"):
        canonical_json(cycle)


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {3}}, datetime(2026, 1, 1, tzinfo=UTC), b"bytes"])
def test_what_is_not_json_is_refused(value: Any) -> None:
    """Only JSON values have a canonical text; guessing one would make unequal things equal."""
    with pytest.raises(InvalidInput):
        canonical_json(value)
    with pytest.raises(InvalidInput):
        canonical_json([value, None, 1.0])


class Colour(enum.Enum):
    RED = "red"


class Named(str, enum.Enum):  # noqa: UP042 - the older form has another __str__, which must not leak into records
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float | None
    _cache: int = 0


class Loud:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Dumped:
    def model_dump(self) -> dict[str, Any]:
        return {"when": date(2026, 1, 2), "what": None}


FOREIGN: list[tuple[Any, Any]] = [
    (Colour.RED, "red"),
    (Named.RED, "red"),
    (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
    (date(2026, 1, 2), "2026-01-02"),
    (Point(1, None), {"x": 1, "y": None}),
    (Point(1, float("nan")), {"x": 1, "y": "NaN"}),
    ({3, 1, 2}, [1, 2, 3]),
    ((1, "a"), [1, "a"]),
    (b"caf\xc3\xa9\xff", "café\ufffd"),
    (Dumped(), {"when": "2026-01-02", "what": None}),
    (Dumped, str(Dumped)),
    (Loud(), "<Loud>"),
    ({None: 1, True: 2, 3: 4, 1.5: 5, Colour.RED: 6}, {"null": 1, "true": 2, "3": 4, "1.5": 5, "red": 6}),
]


@pytest.mark.parametrize(("value", "expected"), FOREIGN)
def test_foreign_values_stand_in_alike_on_both_paths(value: Any, expected: Any) -> None:
    """What a Python object is recorded as does not depend on its neighbours."""
    assert to_json_value(value) == expected
    assert to_json_value([value, None]) == [expected, None]
    assert to_json_value([value, float("nan")]) == [expected, "NaN"]
    assert to_json_value([value, 2**70]) == [expected, 2**70]


@settings(deadline=None)
@given(anything)
def test_a_converted_value_is_detached_and_final(value: Any) -> None:
    """Converting gives a JSON value with the same hash that conversion no longer changes."""
    converted = to_json_value(value)
    assert converted == to_json_value(converted)
    assert input_hash(converted) == input_hash(value)
    assert not isinstance(value, (dict, list)) or converted is not value


@settings(deadline=None)
@given(anything)
def test_parsing_gives_back_what_was_written(value: Any) -> None:
    """Canonical text parses to the value it stands for."""
    text = canonical_json(value)
    assert canonical_json(parse_json(text)) == text


def test_parsing_takes_what_people_send_and_refuses_the_rest() -> None:
    """Huge integers, NaN and lone surrogates arrive; broken JSON is refused by the name of the field."""
    for number in (2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 123456789012345678901234567890):
        parsed = parse_json(str(number))
        assert (type(parsed), parsed) == (int, number)
        assert parse_json(f'{{"a": [{number}]}}'.encode()) == {"a": [number]}
    # Ids and hashes have long runs of digits, too, before the number and behind it.
    name = "8f3a-12345678-9012-3456-7890"
    text = f'{{"id": "{name}", "n": {2**70}, "hash": "x{"7" * 40}", "m": -{2**63}1}}'
    assert parse_json(text) == {"id": name, "n": 2**70, "hash": f"x{'7' * 40}", "m": int(f"-{2**63}1")}
    assert parse_json('[NaN, "\\ud800"]') == ["NaN", "\ufffd"]
    for text in ("", "{", "[" * 100_000, "1" * 5_000, b"\xff{", "{'a': 1}"):
        with pytest.raises(InvalidInput, match="params is not JSON"):
            parse_json(text, field="params")


def test_blobs_are_named_by_sha256() -> None:
    """A blob's name is the SHA-256 of its bytes."""
    assert content_hash(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
