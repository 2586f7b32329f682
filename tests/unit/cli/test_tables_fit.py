"""Every table of the command line fits a terminal of 80 columns."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import cast

import pytest

import twinraven.cli
from twinraven.cli.output import TableColumn, render_table, text_width
from twinraven.cli.times import short_time

_ID = "5f1c9e0b7a3d4c2e8f60719a2b3c4d5e"
_TIME = "2026-11-18T06:16:19.574360Z"
_SIGNED = {"item_id": f"learned_tool:{_ID}"}


def _tables() -> Iterator[tuple[str, tuple[TableColumn, ...]]]:
    for found in pkgutil.iter_modules(twinraven.cli.__path__):
        module = importlib.import_module(f"twinraven.cli.{found.name}")
        for name, value in vars(module).items():
            listed = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
            columns = tuple(each for each in listed if isinstance(each, TableColumn))
            if columns and len(columns) == len(listed):
                yield f"{found.name}.{name}", columns


def _row(columns: tuple[TableColumn, ...]) -> dict[str, str]:
    """A row as real ones are: whole ids, whole times, and texts that are longer than the terminal is wide."""
    return {column.key: _cell(column) for column in columns}


def _cell(column: TableColumn) -> str:
    if column.text is short_time:
        return _TIME
    if column.key == "id" or column.key.endswith("_id"):
        return _SIGNED.get(column.key, _ID)
    return "x" * (100 if column.shrinks else max(len(column.heading), 8))


@pytest.mark.parametrize(("name", "columns"), [pytest.param(*each, id=each[0]) for each in _tables()])
def test_a_table_fits_80_columns(name: str, columns: tuple[TableColumn, ...]) -> None:
    """No line is wider than the terminal, and the column that says which row it is is among those that stay."""
    shown = tuple(column if column.text is short_time else column._replace(text=str) for column in columns)
    lines = render_table([_row(columns)], shown, width=80)
    assert max(map(text_width, lines)) <= 80, (name, lines[0])
