"""Tables and bars stay aligned, inside their width, and plain where nobody looks."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.support_desk import Canvas, bar_chart, canvas_for, heading, table
from examples.support_desk.charts import draw_bar, text_width

WORDS = st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=40)


class Screen(io.StringIO):
    """A stream that says it is a terminal, with an encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._named = encoding

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._named

    def isatty(self) -> bool:
        return True


def test_numbers_stand_right_and_text_left() -> None:
    """Columns line up by what is in them, with thousands marked and floats kept short."""
    lines = table(("tool", "calls", "ms"), [("get_order", 1234, 2.345), ("x", 5, 250.0)], canvas=Canvas()).split("\n")
    assert lines == ["tool       calls   ms", "get_order  1,234  2.3", "x              5  250"]


def test_a_table_without_rows_is_its_header() -> None:
    """Nothing to show is shown as nothing, not as an error."""
    assert table(("a", "b"), [], canvas=Canvas()) == "a  b"
    assert bar_chart([], canvas=Canvas()) == ""


@given(rows=st.lists(st.tuples(WORDS, st.integers(-9999, 9999), WORDS), max_size=6), width=st.integers(40, 120))
def test_tables_keep_to_their_width(rows: list[tuple[str, int, str]], width: int) -> None:
    """Whatever the cells hold, there is one line per row, and none is wider than the canvas."""
    lines = table(("name", "count", "remark"), rows, canvas=Canvas(width)).split("\n")
    assert len(lines) == len(rows) + 1
    assert all(text_width(line) <= width for line in lines)


@given(values=st.lists(st.tuples(WORDS, st.floats(0, 1e6)), min_size=1, max_size=6), blocks=st.booleans())
def test_bars_share_one_scale(values: Sequence[tuple[str, float]], blocks: bool) -> None:
    """No line is wider than the canvas, and a larger value never has a shorter bar."""
    canvas = Canvas(60, blocks=blocks)
    assert all(text_width(line) <= 60 for line in bar_chart(values, canvas=canvas, unit=" ms").split("\n"))
    top = max(value for _, value in values)
    bars = [len(draw_bar(value, top, 20, canvas=canvas)) for value in sorted(value for _, value in values)]
    assert bars == sorted(bars)
    assert bars[-1] == (20 if top else 0)


def test_bars_have_eighths() -> None:
    """A bar is exact to an eighth of a cell, or whole cells where blocks cannot be drawn."""
    assert draw_bar(1, 8, 1, canvas=Canvas()) == "▏"
    assert draw_bar(3, 4, 2, canvas=Canvas()) == "█▌"
    assert draw_bar(3, 4, 4, canvas=Canvas(blocks=False)) == "###"


def test_wide_letters_count_double() -> None:
    """What takes two cells on a screen counts as two, a combining mark as none."""
    assert (text_width("漢字"), text_width("e\u0301"), text_width("Østhavn")) == (4, 1, 7)


def test_colour_only_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets plain text, a terminal colour, and `NO_COLOR` or a dumb terminal none."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not canvas_for(io.StringIO()).colour
    assert "\x1b[" in heading("Sessions", canvas=canvas_for(Screen()))
    monkeypatch.setenv("TERM", "dumb")
    assert not canvas_for(Screen()).colour
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in heading("Sessions", canvas=canvas_for(Screen()))


def test_a_poor_stream_gets_plain_signs() -> None:
    """Where blocks and rules cannot be encoded, the text that is drawn can be."""
    canvas = canvas_for(Screen("ascii"))
    assert not canvas.blocks
    drawn = heading("Sessions", canvas=canvas) + bar_chart([("a", 1.0), ("b", 0.5)], canvas=canvas)
    assert drawn.encode("ascii")
