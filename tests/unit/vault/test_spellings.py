"""Spellings: a value is recognised after any of the usual encoders."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from itertools import product
from urllib.parse import quote, quote_plus, urlencode

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinraven.vault.spellings import spellings

_VALUES = st.text(st.characters(exclude_categories=("Cs",)), min_size=8, max_size=40).filter(
    lambda text: text == text.strip()
)


def is_found(value: str, text: bytes) -> bool:
    return any(spelling in text for spelling in spellings(value))


@given(_VALUES)
def test_json_of_every_style_and_depth(value: str) -> None:
    """JSON by any encoders inside one another, ASCII or not, one to three deep in a field, holds a known spelling."""
    encoders: list[Callable[[str], str]] = [
        lambda text: orjson.dumps(text).decode(),
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
    ]
    for depth in (1, 2, 3):
        for nesting in product(encoders, repeat=depth):
            text = value
            for encode in nesting:
                text = encode(text)
            assert is_found(value, f"{{{text}}}".encode())
            assert is_found(value, orjson.dumps({"field": text}))


@given(_VALUES, st.text(max_size=3), st.text(max_size=3))
@example("pa\\ss\"w'ord", "", "")
@example('pa\\ss"word', "'", "")
def test_python_literals(value: str, before: str, after: str) -> None:
    """What `repr` makes of a text, or of a collection with it, holds a known spelling; inside JSON, too."""
    for told in (repr(before + value + after), repr({"key": [value]}), f"no tool {value!r} here"):
        for text in (told, json.dumps(told), orjson.dumps(told).decode(), json.dumps(json.dumps(told))):
            assert is_found(value, text.encode())


@given(_VALUES, st.binary(max_size=7), st.binary(max_size=7))
def test_base64_at_every_alignment(value: str, before: bytes, after: bytes) -> None:
    """Wherever the value stands in a longer text, the base64 of that text holds a known spelling."""
    body = before + value.encode() + after
    assert is_found(value, base64.b64encode(body))
    assert is_found(value, base64.urlsafe_b64encode(body).rstrip(b"="))


@given(_VALUES)
def test_urls_in_upper_and_lower_case(value: str) -> None:
    """Percent-encoded, form-encoded and in either case of digits, the value is found."""
    for text in (quote(value), quote(value, safe=""), quote_plus(value), urlencode({"key": value})):
        assert is_found(value, text.encode())
    lowered = re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quote(value, safe=""))
    assert is_found(value, lowered.encode())
    assert is_found("pässword/1", b"p%c3%a4ssword%2f1")
    assert is_found("pässword/1", b"p%C3%A4ssword%2F1")


@given(st.text(max_size=7))
def test_short_values_are_left_alone(value: str) -> None:
    """Nothing under eight characters is looked for."""
    assert spellings(value) == frozenset()


@pytest.mark.parametrize("value", ["\n  correct-horse\n", "correct-horse\r\n"])
def test_space_around_a_value_does_not_hide_it(value: str) -> None:
    """A value read from a file with a line end is found without it."""
    assert is_found(value, b'{"password":"correct-horse"}')


def test_slashes_may_be_escaped() -> None:
    """Encoders that write \\/ for a slash hide nothing."""
    assert is_found("path/to/key=", rb'{"k":"path\/to\/key="}')


@given(_VALUES)
def test_every_spelling_is_long_enough_to_look_for(value: str) -> None:
    """No spelling is so short that it would be found by chance."""
    assert min(map(len, spellings(value))) >= 8
