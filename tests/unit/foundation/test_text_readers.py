"""Readers of text: total, bounded, deterministic, and right about what public tools answer."""

from __future__ import annotations

import ast
import json
import string
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.foundation.text_samples import SAMPLES
from twinraven.foundation import text_lines, text_shapes, text_tables, text_values
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.text_readers import READERS, read_text, readings

_WORDS = [
    "a", "id: 7", "Key: value", "[FILE] a.txt", "- item", "| a | b |", "|---|---|", "{'a': 1}", '{"a": [1]}', "[", "]",
    "{", "}", "(", ")", "'", '"', "`", "```json", "\n", "\n\n", "\t", "  ", ",", ";", ":", "=", "\\", "/", "http://x.y/z",
    "[t](u)", "a@b.co", "/etc/x", "C:\\x", "2026-01-02T10:20:30Z", "1,234.5", "cus_1", "#W1", "deadbeef1", "\\ud800",
    "é",    "* main", "?? x", "None", "datetime.date(2026, 1, 2)", "\r", "\x00", "\u2028", "NaN", "1e999", "9" * 30,
]  # fmt: skip
_TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(_WORDS), max_size=20).map("".join))
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
_HOSTILE = [
    *string.punctuation, *" 1aé✓\n\r\t\u2028", "[1,", "['a',", "{'a':1,", '{"a":', "a: b\n", " \n", "- x\n",
    "| a | b |\n", "a,b\n", "a  b\n", "http://", "[a](", "a@", "a-1 ", "/a", "1,234 ", "12:30 ", "x [ ", "x {'a': ",
    "abc1234 ", "(1,", "=\"'`:|[{(/-1a@.#\n", '["\\ud800",', "```json\n", "**a**: b\n", "\\'", "'\\",
    "9" * 2_399 + " ", "a" * 300 + "[",
    # The worst that a search over mixtures found.
    '[FILE] a.txt\\\\{"a":1}\n', '{"a":1}\n', "[FILE] a.txt" + "a" * 60 + ': b\n{"a":1}\n', "%a_1 a;b\n",
    "=\"'`:|[{(/-1a@.#\n?? x2026-01-02T10:20:30Z", ' {"a":1}\nid: 72026-01-02T10:20:30Z',
]  # fmt: skip
_MOST_SCANS = 8
"""Times a plain pass over the characters that all readers together may take; a tenth of a second is about four."""


@pytest.mark.parametrize(("text", "kind", "value"), SAMPLES)
def test_what_public_tools_answer_is_read(text: str, kind: str, value: Any) -> None:
    """Answers of files, git, SQL, time and web servers, of containers, pods and issue trackers give their values."""
    assert read_text(kind, text) == value


@given(_TEXTS)
def test_every_reader_is_total(text: str) -> None:
    """Any text is read to JSON or to None, twice alike, and `readings` gives exactly what applies, in order."""
    found = dict(readings(text))
    assert list(found) == [kind for kind in READERS if kind in found]
    for kind in READERS:
        value = read_text(kind, text)
        assert value == found.get(kind)
        canonical_json(value)
    assert read_text("nothing", text) is None


@pytest.mark.parametrize("piece", _HOSTILE)
def test_a_hostile_text_takes_linear_time_and_bounded_room(piece: str) -> None:
    """All readers together take a megabyte of what trips up parsers in a few times a plain pass over its characters."""
    # The end makes every reader look, however soon it would see that there is nothing for it.
    text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000] + " a/b.c @ [t](u) '\"` ://-_#=|{"
    found = dict(readings(text))
    # On a busy machine one of several measures is clean.
    assert any(_cpu(lambda: list(readings(text))) < _MOST_SCANS * _cpu(lambda: _scan(text)) for _ in range(5))
    for kind, value in found.items():
        assert kind in {"json", "repr"} or len(value) <= 4_000
        assert _depth(value) <= 33


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _scan(text: str) -> int:
    """A plain pass over a text."""
    return sum(1 for character in text if character == "\n")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in cast(
                "list[Any]", list(cast("dict[str, Any]", each).values()) if isinstance(each, dict) else each
            )
        ]
    return depth


@given(st.dictionaries(st.text(), _VALUES, min_size=1) | st.lists(_VALUES, min_size=1))
def test_json_comes_back_from_wherever_it_stands(value: Any) -> None:
    """What was written as JSON is read again: alone, indented, in a fence, after a sentence, or written twice."""
    text = json.dumps(value)
    for written in (
        text,
        json.dumps(value, indent=2),
        f"```json\n{text}\n```",
        f"Here it is: {text}",
        json.dumps(text),
    ):
        assert read_text("json", written) == value
    assert read_text("json", f"{text}\n{text}\n") == [value, value]


@given(st.dictionaries(st.text(), _VALUES, min_size=1) | st.lists(_VALUES, min_size=1))
def test_a_python_literal_comes_back(value: Any) -> None:
    """What Python writes is read again, alone or after a sentence."""
    assert read_text("repr", repr(value)) == value
    assert read_text("repr", f"Rows: {value!r}") == value


def test_values_that_json_has_not_are_texts() -> None:
    """Tuples and sets become lists, dates ISO texts, and others what they hold."""
    row = (
        1, None, datetime(2026, 1, 2, 3, 4, tzinfo=UTC), date(2026, 1, 2), Decimal("1.50"), UUID(int=7), {3}, (4,),
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=-5))), timedelta(days=1, seconds=5), b"x",
        {1: 2}, "it's \"so\"\n",
    )  # fmt: skip
    assert read_text("repr", repr([row])) == [
        [
            1, None, "2026-01-02T03:04:00+00:00", "2026-01-02", "1.50", str(UUID(int=7)), [3], [4],
            "2026-01-02T03:04:05.000006-05:00", 86_405, "x", {"1": 2}, "it's \"so\"\n",
        ]
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["[1, nan]", "[<object>]", "[1", "['a]", "[1)", "{1, 2: 3}", "[f(1, 2)]", "[a]", ""])
def test_what_is_no_literal_is_refused(text: str) -> None:
    """Names, broken brackets and objects without a literal are no values."""
    assert read_text("repr", text) is None


def test_bounds_are_kept() -> None:
    """What is too long, too deep or too much for a value is None; lists of lines and pieces end at their bound."""
    assert read_text("json", "[" * 32 + "]" * 32) is not None
    assert read_text("json", "[" * 40 + "]" * 40) is None
    assert read_text("repr", "[" * 40 + "]" * 40) is None
    assert read_text("json", json.dumps(["x" * 1_048_576])) is None
    assert read_text("json", json.dumps(list(range(60_000)))) is None
    assert read_text("json", '{"a": 1e999}') is None
    assert read_text("json", f"[{'9' * 4_000}]") is None
    assert len(read_text("lines", "x\n" * 9_000)) == 4_000
    assert len(read_text("numbers", " ".join(map(str, range(9_000))))) == 4_000


def test_the_modules_can_be_copied() -> None:
    """Readers import nothing but the standard library and each other, so that an export can carry them."""
    for module in (text_values, text_lines, text_tables, text_shapes):
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("twinraven"):
                assert (node.module or "").startswith("twinraven.foundation.text_")
