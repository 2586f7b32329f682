"""Tables and bars for a terminal, from the standard library alone.

The output is the same text whether it goes to a screen, a file or a README; only colour depends on being looked at, and
bars fall back to `#` where the stream cannot encode blocks.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

Cell = str | int | float
Tint = Literal["bold", "dim", "green", "red", "cyan"]

_CODES: dict[Tint, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Canvas:
    """What can be drawn on: how wide, with colour or not, with blocks or not."""

    width: int = 100
    colour: bool = False
    blocks: bool = True

    def tint(self, text: str, tint: Tint) -> str:
        return f"\x1b[{_CODES[tint]}m{text}\x1b[0m" if self.colour and text else text


def canvas_for(stream: TextIO) -> Canvas:
    """The canvas this stream offers; colour only on a terminal, and never against `NO_COLOR`."""
    on_terminal = stream.isatty()
    colour = on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((100, 24)).columns if on_terminal else 100
    return Canvas(max(_NARROWEST, min(width, 140)), colour, _can_encode(stream, _EIGHTHS))


def heading(text: str, *, canvas: Canvas) -> str:
    rule = "─" if canvas.blocks else "-"
    return canvas.tint(text, "bold") + "\n" + canvas.tint(rule * min(text_width(text), canvas.width), "dim")


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], *, canvas: Canvas) -> str:
    """Aligned columns: numbers to the right, text to the left; the widest text column gives way when space is short."""
    texts = [[_show(cell) for cell in row] for row in rows]
    widths = [max(map(text_width, column)) for column in zip(headers, *texts, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[index], (int, float)) for row in rows) for index in range(len(headers))
    ]
    _narrow(widths, numeric, canvas.width)
    lines = [canvas.tint(_line(headers, widths, numeric), "dim")]
    lines += [_line(row, widths, numeric) for row in texts]
    return "\n".join(lines)


def bar_chart(values: Sequence[tuple[str, float]], *, canvas: Canvas, unit: str = "") -> str:
    """One bar per value, to one scale, with the value behind it."""
    if not values:
        return ""
    labels = max(text_width(label) for label, _ in values)
    labels = min(labels, canvas.width // 2)
    figures = [f"{_show(value)}{unit}" for _, value in values]
    room = max(1, canvas.width - labels - max(map(len, figures)) - 2)
    top = max(value for _, value in values)
    lines: list[str] = []
    for (label, value), figure in zip(values, figures, strict=True):
        bar = canvas.tint(draw_bar(value, top, room, canvas=canvas), "cyan")
        lines.append(f"{_fit(label, labels)} {bar} {figure}" if bar else f"{_fit(label, labels)} {figure}")
    return "\n".join(lines)


def draw_bar(value: float, top: float, room: int, *, canvas: Canvas) -> str:
    """A bar of at most `room` cells, in eighths of a cell where the canvas has them."""
    share = 0.0 if top <= 0 else min(1.0, max(0.0, value / top))
    if not canvas.blocks:
        return "#" * round(share * room)
    eighths = round(share * room * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def text_width(text: str) -> int:
    """How many cells a text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _show(cell: Cell) -> str:
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return str(cell).replace("\n", " ")
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:,.1f}"


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    fitted = [_fit(cell, width, right=right) for cell, width, right in zip(cells, widths, numeric, strict=True)]
    return "  ".join(fitted).rstrip()


def _narrow(widths: list[int], numeric: Sequence[bool], room: int) -> None:
    """Take what is too much from the widest text column, again and again, down to a readable rest."""
    excess = sum(widths) + 2 * (len(widths) - 1) - room
    while excess > 0:
        candidates = [index for index, is_number in enumerate(numeric) if not is_number and widths[index] > 8]
        if not candidates:
            return
        widest = max(candidates, key=lambda index: widths[index])
        widths[widest] -= 1
        excess -= 1


def _fit(text: str, width: int, *, right: bool = False) -> str:
    if text_width(text) > width:
        while text and text_width(text) > width - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (width - text_width(text))
    return padding + text if right else text + padding


def _can_encode(stream: TextIO, sample: str) -> bool:
    try:
        sample.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
