"""What is decided on is printed whole, and as text."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.cli.nested import show_nested

_WORDS = st.text("abc", min_size=1, max_size=4)
_VALUES = st.recursive(
    _WORDS | st.integers(0, 99), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=4)
)


def test_what_is_nested_stands_below_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields are aligned, objects and lists of objects indented, and plain lists stay on their line."""
    person = {"name": "eve", "tags": ["a", "b, c"]}
    show_nested("table", {"what": "pay", "to": person, "steps": [{"x": 1, "yy": {"z": 2}}]})
    assert capsys.readouterr().out.splitlines() == [
        "what  pay",
        "to",
        "  name  eve",
        '  tags  a, "b, c"',
        "steps",
        "  - x  1",
        "    yy",
        "      z  2",
    ]


def test_escape_sequences_are_shown_and_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a name nor a value takes the terminal over."""
    show_nested("table", {"a\x1b[2J": {"b": ["\x1b]0;x\x07", {"c\n": "\x1b[A"}]}})
    assert "\x1b" not in capsys.readouterr().out


@given(st.dictionaries(_WORDS, _VALUES, max_size=5))
def test_nothing_is_left_out(fields: dict[str, Any]) -> None:
    """Every name and every value of what is decided on is among the words that are printed."""
    with pytest.MonkeyPatch.context() as patched:
        lines: list[str] = []
        patched.setattr("twinraven.cli.nested.print_lines", lines.extend)
        show_nested("table", fields)
    assert _words(fields) <= set(re.findall(r"[a-z]+|\d+", " ".join(lines)))


def _words(value: Any) -> set[str]:
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {*named}.union(*map(_words, named.values()))
    if isinstance(value, list):
        return set[str]().union(*map(_words, cast("list[Any]", value)))
    return {str(value)}
