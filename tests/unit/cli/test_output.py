"""Tables, JSON, CSV and progress, apart from any command."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.cli.output import (
    Progress,
    TableColumn,
    cell_text,
    clean,
    clip,
    encode_json,
    has_colours,
    pad,
    render_table,
    show_fields,
    show_rows,
    terminal_width,
    text_width,
)

texts = st.text(max_size=40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@given(text=texts)
def test_cleaned_text_cannot_reach_the_terminal(text: str) -> None:
    """Nothing that a table shows is a control character, and printable text is shown as it is."""
    assert clean(text).isprintable()
    if text.isprintable():
        assert clean(text) == text


@given(text=texts, width=st.integers(1, 60))
def test_cut_and_filled_text_has_its_width(text: str, width: int) -> None:
    """A cell is never wider than its column, and says where it was cut."""
    cut = clip(clean(text), width)
    assert text_width(cut) <= width
    assert cut == clean(text) or cut.endswith("…")
    assert text_width(pad(cut, width)) == text_width(pad(cut, width, right=True)) == width


def test_wide_and_combining_characters_are_measured_as_shown() -> None:
    """A wide character takes two columns, a combining mark none."""
    assert [text_width(text) for text in ("abc", "三", "é", "e\u0301", "ﾊ", "🐦")] == [3, 2, 1, 1, 1, 2]


@given(rows=st.lists(st.tuples(texts, st.integers(), texts), min_size=1, max_size=6), width=st.integers(30, 100))
def test_a_table_has_a_line_for_each_row_and_fits(rows: list[tuple[str, int, str]], width: int) -> None:
    """Columns are aligned, no line is wider than the terminal as long as what may be cut suffices for it."""
    columns = (
        TableColumn("a", "A", shrinks=True),
        TableColumn("b", "B", right=True),
        TableColumn("c", "C", shrinks=True),
    )
    dicts = [dict(zip("abc", row, strict=True)) for row in rows]
    lines = render_table(dicts, columns, width=width)
    assert len(lines) == len(rows) + 1
    numbers = max(len(str(number)) for _, number, _ in rows)
    assert max(map(text_width, lines)) <= max(width, 8 + 2 + numbers + 2 + 8)
    assert all(line.isprintable() for line in lines)


def test_colours_mark_the_words_that_matter_and_leave_the_alignment() -> None:
    """A tinted cell is coloured by its word; the text without colours is the plain table."""
    columns = (TableColumn("outcome", "OUTCOME", tinted=True), TableColumn("name", "NAME"))
    rows = [{"outcome": "success", "name": "success"}, {"outcome": "odd", "name": "x"}]
    plain = render_table(rows, columns)
    coloured = render_table(rows, columns, coloured=True)
    assert coloured[1] == "\x1b[32msuccess\x1b[0m  success"
    assert coloured[2] == plain[2] == "odd      x"


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (True, "yes"), (False, "no"), (3, "3"), ({"a": [1]}, '{"a":[1]}'), ((), "[]")]
)
def test_values_have_a_short_form_in_a_cell(value: Any, text: str) -> None:
    """What is absent, true or structured is readable in one cell."""
    assert cell_text(value) == text


@given(value=json_values, indent=st.booleans())
def test_json_keeps_every_value(value: Any, indent: bool) -> None:
    """Whatever is printed as JSON reads back equal, also integers beyond 64 bits."""
    assert json.loads(encode_json(value, indent=indent)) == value


@given(value=st.text(alphabet=st.characters(categories=("Cs", "Ll"))))
def test_json_of_broken_text_is_still_utf8(value: str) -> None:
    """Lone surrogates, which arrive in arguments that are not UTF-8, never stop the output."""
    encoded = encode_json([value, 2**100], indent=False)
    assert json.loads(encoded.decode("utf-8"))[1] == 2**100


def test_csv_reads_back(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Quotes, commas and line ends inside cells survive, and structure becomes JSON."""
    rows: list[dict[str, Any]] = [
        {"a": 'say "hi", twice\n', "b": {"c": [1]}, "d": None},
        {"a": "ü", "b": [], "d": True},
    ]
    show_rows("csv", rows, ())
    read = list(csv.reader(io.StringIO(capfdbinary.readouterr().out.decode(), newline="")))
    assert read == [["a", "b", "d"], ['say "hi", twice\n', '{"c":[1]}', ""], ["ü", "[]", "true"]]


def test_an_empty_table_says_so_on_stderr(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Nothing to list leaves stdout empty; JSON has an empty array instead."""
    show_rows("table", [], (TableColumn("a", "A"),), empty="nothing here")
    shown = capfdbinary.readouterr()
    assert (shown.out, shown.err) == (b"", b"nothing here\n")
    show_rows("json", [], (TableColumn("a", "A"),), empty="nothing here")
    assert capfdbinary.readouterr().out == b"[]\n"


def test_fields_stand_below_each_other(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Labels are aligned and values cleaned."""
    show_fields("table", {"id": 1, "longer": "a\tb"})
    assert capfdbinary.readouterr().out == b"id      1\nlonger  a\\tb\n"


def test_colours_and_widths_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has neither; a terminal has both, unless NO_COLOR or a dumb terminal asks for no colours."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("COLUMNS", "70")
    assert (has_colours(io.StringIO()), terminal_width(io.StringIO())) == (False, None)
    assert (has_colours(Terminal()), terminal_width(Terminal())) == (True, 70)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Terminal())
    monkeypatch.setenv("COLUMNS", "wide")
    assert terminal_width(Terminal()) is None


def test_progress_writes_one_line_and_takes_it_back() -> None:
    """On a terminal the line is overwritten and cleared at the end; elsewhere nothing is written."""
    terminal, pipe = Terminal(), io.StringIO()
    with Progress("lines", stream=terminal, every_s=0) as watched, Progress("lines", stream=pipe, every_s=0) as silent:
        for done in (10, 2000):
            watched(done)
            silent(done)
    assert "2,000 lines" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    assert pipe.getvalue() == ""
