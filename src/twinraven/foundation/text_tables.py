"""Reads tables: Markdown and psql pipes, tab- and comma-separated values, and columns aligned under a header.

Written to be copied, like `text_values`. A table is a list of objects keyed by its header, all values texts.
"""

from __future__ import annotations

import csv
import re

from twinraven.foundation.text_lines import lines_of, unquoted

_TABLE_COLUMNS = 200
_HEADER_CHARS = 60
_CELL_LINE_CHARS = 20_000

_RULE = re.compile(r"[ \t]*+[|+:]?[ \t]*+:?-[-| \t:+]*+")
_COLUMN = re.compile(r"\S++(?: \S++)*+")


def read_table(text: str) -> list[dict[str, str]] | None:
    """Read the first table of a text: between pipes, or else the whole text by tabs, columns or commas."""
    lines = [line for line in lines_of(text) if len(line) <= _CELL_LINE_CHARS]
    if len(lines) < 2:
        return None
    found = _piped(lines) if "|" in text else None
    if found is None and "\t" in lines[0] and _is_even(lines, "\t"):
        found = _rows_of([_cells(line, "\t") for line in lines])
    if found is None and "  " in lines[0]:
        found = _aligned(lines)
    if found is None:
        mark = ";" if lines[0].count(";") > lines[0].count(",") else ","
        found = _separated(lines, mark) if mark in lines[0] else None
    return found or None


def _piped(lines: list[str]) -> list[dict[str, str]] | None:
    for number, line in enumerate(lines[1:], start=1):
        is_rule = "-" in line and ("|" in line or "+" in line) and _RULE.fullmatch(line) is not None
        if is_rule and "|" in lines[number - 1]:
            body: list[list[str]] = [_pipe_cells(lines[number - 1])]
            for row in lines[number + 1 :]:
                if "|" not in row:
                    break
                body.append(_pipe_cells(row))
            return _rows_of(body, is_exact=False)
    return None


def _pipe_cells(line: str) -> list[str]:
    return _cells(line.strip().removeprefix("|").removesuffix("|"), "|")


def _cells(line: str, mark: str) -> list[str]:
    return [unquoted(cell) for cell in line.split(mark, _TABLE_COLUMNS)]


def _is_even(lines: list[str], mark: str) -> bool:
    """Return whether a mark stands equally often in all lines, which is cheaper to see than what stands between."""
    width = lines[0].count(mark)
    return all(line.count(mark) == width for line in lines)


def _separated(lines: list[str], mark: str) -> list[dict[str, str]] | None:
    if '"' not in lines[0] and not _is_even([line for line in lines if '"' not in line], mark):
        return None
    try:
        rows = list(csv.reader(lines, delimiter=mark, strict=True))
    except csv.Error:
        return None
    return _rows_of([[cell.strip() for cell in row] for row in rows])


def _aligned(lines: list[str]) -> list[dict[str, str]] | None:
    """Cells as far as the header's words reach, where two or more spaces stand between columns."""
    starts = [found.start() for found in _COLUMN.finditer(lines[0])]
    if not 1 < len(starts) <= _TABLE_COLUMNS:
        return None
    edges = [0, *starts[1:]]
    rows: list[list[str]] = []
    for line in lines:
        if all(edge >= len(line) or line[edge - 1].isspace() for edge in edges[1:]):
            rows.append([line[edge:end].strip() for edge, end in zip(edges, [*edges[1:], None], strict=True)])
        else:
            rows.append(_COLUMN.findall(line))
        if len(rows[-1]) != len(starts):
            return None
    return _rows_of(rows)


def _rows_of(rows: list[list[str]], *, is_exact: bool = True) -> list[dict[str, str]] | None:
    """Return the rows keyed by the first of them; None where they are not alike."""
    header, *body = rows
    if any(len(name) > _HEADER_CHARS for name in header):
        return None
    if is_exact and (len(header) < 2 or not body or not all(header) or any(len(row) != len(header) for row in body)):
        return None
    names = _distinct(header)
    return [dict(zip(names, [*row, *[""] * len(names)], strict=False)) for row in body]


def _distinct(header: list[str]) -> list[str]:
    names: list[str] = []
    for number, written in enumerate(header, start=1):
        name = written or f"column {number}"
        names.append(name if name not in names else f"{name} {number}")
    return names
