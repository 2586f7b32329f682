"""Prints results: tables for people, one JSON document or CSV for programs.

People get aligned columns that fit their terminal, colours only on a terminal and not with NO_COLOR, and progress on
stderr only where somebody watches. Data can hold anything, also escape sequences that would take the terminal over: in
tables whatever is not printable is shown escaped. In pipes nothing is cut.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from twinraven.cli.times import short_span

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
_TINTS = {
    "success": "green",
    "failure": "red",
    "partial": "yellow",
    "ok": "green",
    "broken": "red",
    "warning": "yellow",
}
_IN_ASCII = str.maketrans({"─": "-", "→": "->", "↳": ">", "×": "x", "…": "~", "█": "#", "·": "-", "≥": ">=", "≤": "<="})
"""What our own signs become where the locale has no Unicode."""
_GAP = "  "
_UNBOUNDED = 1_000
_NARROWEST = 8
_NARROWEST_PROSE = 24
"""Where fewer columns are left, lines are not broken."""


def cell_text(value: Any) -> str:
    """Return a value as one cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (dict, list, tuple)):
        return encode_json(value, indent=False).decode()
    return str(value)


class TableColumn(NamedTuple):
    """One column of a table: which field of a row, under which heading."""

    key: str
    heading: str
    right: bool = False
    shrinks: bool = False
    """Whether it may be cut where the terminal is too narrow."""
    tinted: bool = False
    text: Callable[[Any], str] = cell_text
    least: int = _NARROWEST
    """The width down to which it is cut before columns are left out."""
    spare: int = 0
    """Where the terminal is too narrow, columns above 0 are left out, the highest first."""
    short: int = 0
    """On a terminal only so many characters are shown; commands take the beginning of an id."""
    middle: bool = False
    """Whether it is cut in the middle: names that begin alike differ at their end."""


def show_rows(form: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn], *, empty: str = "") -> None:
    """Print a listing; `empty` is what people read when there is nothing to list."""
    if form == "json":
        show_json([dict(row) for row in rows])
    elif form == "csv":
        show_csv(rows, [column.key for column in columns])
    elif rows:
        width = terminal_width(sys.stdout)
        print_lines(render_table(rows, columns, width=width, coloured=has_colours(sys.stdout)))
    else:
        print(empty, file=sys.stderr)


def show_fields(form: str, fields: Mapping[str, Any], *, tinted: bool = False) -> None:
    """Print one thing, a field a line."""
    if form == "json":
        show_json(dict(fields))
        return
    label_width = max(map(text_width, fields), default=0)
    coloured = tinted and has_colours(sys.stdout)
    for name, value in fields.items():
        text = clean(cell_text(value))
        lines = prose(text, begins=pad(name, label_width) + _GAP)
        print_lines(_tint(line, text) for line in lines) if coloured else print_lines(lines)


def prose(text: str, *, begins: str = "", stream: TextIO | None = None) -> list[str]:
    """Lines of a text behind a beginning: broken between words where a terminal ends, one line where nobody looks.

    What may be copied out of it stays whole: a text without blanks, and JSON.
    """
    width = terminal_width(sys.stdout if stream is None else stream)
    indent = text_width(begins)
    if width is None or width - indent < _NARROWEST_PROSE or text[:1] in ("{", "["):
        return [begins + text]
    lines, line = list[str](), begins
    for place, word in enumerate(text.split(" ")):
        if place and text_width(line) + 1 + text_width(word) > width:
            lines.append(line)
            line = " " * indent + word
        else:
            line += f" {word}" if place else word
    return [*lines, line]


def show_json(value: Any) -> None:
    """Print one JSON document, for people indented."""
    write_bytes(encode_json(value, indent=sys.stdout.isatty()) + b"\n")


def show_csv(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Print rows as CSV; what is not a scalar becomes JSON inside its cell. The header is that of the first row."""
    import csv

    listed = list(rows)
    header = list(listed[0]) if listed else list(names)
    writer = csv.writer(_Utf8Output(), lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_csv_cell(row.get(name)) for name in header] for row in listed)


def encode_json(value: Any, *, indent: bool) -> bytes:
    """JSON in UTF-8, also for integers that need more than 64 bits."""
    import orjson

    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2 if indent else 0)
    except (TypeError, ValueError):
        import json

        separators = None if indent else (",", ":")
        return json.dumps(value, default=str, indent=2 if indent else None, separators=separators).encode()


def write_bytes(body: bytes) -> None:
    """Write to stdout as it is, behind everything printed so far."""
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print text; a character the terminal's encoding lacks is written in ASCII, not an error."""
    text = _sayable("".join(f"{line}\n" for line in lines))
    write_bytes(text.encode(sys.stdout.encoding or "utf-8", "replace"))


def _sayable(text: str) -> str:
    """Return a text with our own signs in ASCII where the terminal's encoding lacks any of its characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII)
    return text


def render_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[TableColumn],
    *,
    width: int | None = None,
    coloured: bool = False,
) -> list[str]:
    """Render a heading and a line for each row, in aligned columns."""
    # Before anything is aligned: an arrow takes one column, and two in ASCII.
    cells = [[_sayable(clean(column.text(row.get(column.key)))) for column in columns] for row in rows]
    if width is not None:
        cells = [[_shortened(text, column) for text, column in zip(line, columns, strict=True)] for line in cells]
    widths = [
        max(text_width(column.heading), *(text_width(line[place]) for line in cells), 0)
        for place, column in enumerate(columns)
    ]
    if width is not None:
        kept = _kept_columns(widths, columns, width)
        columns, widths = [columns[place] for place in kept], [widths[place] for place in kept]
        cells = [[line[place] for place in kept] for line in cells]
        _narrow(widths, columns, width)
    heading = _line([column.heading for column in columns], columns, widths)
    lines = [_colour(heading, "bold") if coloured else heading]
    lines.extend(_line(line, columns, widths, coloured=coloured) for line in cells)
    return lines


def _shortened(text: str, column: TableColumn) -> str:
    return text[: column.short] if column.short else text


def _kept_columns(widths: Sequence[int], columns: Sequence[TableColumn], width: int) -> list[int]:
    """Choose the columns to show: spare ones go until the others have the least width that each asks for."""
    least = [min(wide, column.least) if column.shrinks else wide for wide, column in zip(widths, columns, strict=True)]
    kept = list(range(len(columns)))
    while sum(least[place] + len(_GAP) for place in kept) - len(_GAP) > width:
        spare = max(kept, key=lambda place: columns[place].spare)
        if not columns[spare].spare:
            break
        kept.remove(spare)
    return kept


def _narrow(widths: list[int], columns: Sequence[TableColumn], width: int) -> None:
    """Take from the widest columns that may be cut until the line fits, or nothing more can be taken."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for floors in ([column.least for column in columns], [_NARROWEST] * len(columns)):
        while excess > 0:
            places = [place for place, column in enumerate(columns) if column.shrinks and widths[place] > floors[place]]
            if not places:
                break
            widths[max(places, key=lambda place: widths[place])] -= 1
            excess -= 1


def _line(
    cells: Sequence[str], columns: Sequence[TableColumn], widths: Sequence[int], *, coloured: bool = False
) -> str:
    parts: list[str] = []
    for text, column, width in zip(cells, columns, widths, strict=True):
        padded = pad(clip(text, width, middle=column.middle), width, right=column.right)
        parts.append(_tint(padded, text) if coloured and column.tinted else padded)
    return _GAP.join(parts).rstrip()


def clean(text: str) -> str:
    """Text that cannot move the cursor: what is not printable is shown escaped."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def text_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_sign_width, text))


def _sign_width(sign: str) -> int:
    import unicodedata

    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1


def clip(text: str, width: int, *, middle: bool = False) -> str:
    """As much of a text as fits, with a mark where it was cut."""
    if text_width(text) <= width:
        return text
    end = _fitting(reversed(text), (width - 1) // 2)[::-1] if middle else ""
    return f"{_fitting(text, width - 1 - text_width(end))}…{end}"


def _fitting(signs: Iterable[str], left: int) -> str:
    """Return the first characters that together are no wider than that."""
    kept: list[str] = []
    for sign in signs:
        left -= _sign_width(sign)
        if left < 0:
            break
        kept.append(sign)
    return "".join(kept)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return a text filled up with spaces to a width, also where its characters are wide."""
    fill = " " * (width - text_width(text))
    return fill + text if right else text + fill


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Coloured where the stream shows colours."""
    return _colour(text, colour) if has_colours(stream) else text


def paint_word(text: str, word: str) -> str:
    """Return a text in the colour of a word such as `ok` or `broken`, where stdout shows colours."""
    return _tint(text, word) if has_colours(sys.stdout) else text


def has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width(stream: TextIO) -> int | None:
    """Return the width of the terminal; None where the stream is none and nothing should be cut."""
    if not stream.isatty():
        return None
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns) or None
    except (OSError, ValueError):
        return None


def _tint(text: str, word: str) -> str:
    colour = _TINTS.get(word)
    return text if colour is None else _colour(text, colour)


def _colour(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def _csv_cell(value: Any) -> Any:
    return encode_json(value, indent=False).decode() if isinstance(value, (dict, list, tuple, bool)) else value


class _Utf8Output:
    """What the csv module writes to: stdout, in UTF-8 whatever the locale says."""

    def write(self, text: str) -> int:
        sys.stdout.flush()
        return sys.stdout.buffer.write(text.encode("utf-8", "replace"))


class Progress:
    """A progress line on stderr that is rewritten in place; silent where stderr is no terminal."""

    def __init__(
        self,
        unit: str,
        *,
        stream: TextIO | None = None,
        every_s: float = 0.1,
        share: Callable[[], float | None] | None = None,
    ) -> None:
        """Count units; `share` says how much of the whole is done, where that is known."""
        self._unit = unit
        self._share = share
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._every_s = every_s
        self._started = self._shown_at = time.monotonic()
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._write("")

    def __call__(self, done: int) -> None:
        """Say how far it is."""
        now = time.monotonic()
        if self._is_shown and now - self._shown_at >= self._every_s:
            self._shown_at = now
            text = f"{done:,} {self._unit}, {done / (now - self._started):,.0f} a second"
            self._write(text + self._time_left(now - self._started))

    def _time_left(self, passed_s: float) -> str:
        share = None if self._share is None else self._share()
        if not share or passed_s < 1:
            return ""
        return f", {min(share, 1):.0%}, about {short_span(passed_s * max(1 / share - 1, 0))} left"

    def say(self, what: str) -> None:
        """Say what is being done now."""
        if self._is_shown:
            self._write(what)

    def _write(self, text: str) -> None:
        # A line that is wider than the terminal could not be written over.
        text = clip(text, max(_NARROWEST, (terminal_width(self._stream) or _UNBOUNDED) - 1))
        self._stream.write(f"\r{text}{' ' * (self._width - len(text))}" if text else f"\r{' ' * self._width}\r")
        self._stream.flush()
        self._width = len(text)
