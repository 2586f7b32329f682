"""`twinraven doctor`: which home this is, how it was found, and what works.

It goes on when something is broken, looks without changing anything, and says for each thing what to do about it.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import Column, show_rows
from twinraven.cli.parser import CommandParser


def _text_or_nothing(value: str | None) -> str:
    return value or ""


_COLUMNS = (
    Column("check", "CHECK"),
    Column("status", "STATUS", tinted=True),
    Column("detail", "DETAIL", shrinks=True),
    Column("fix", "FIX", text=_text_or_nothing),
)


def register(parser: CommandParser) -> None:
    parser.add_argument("--fast", action="store_true", help="leave out what takes long: the integrity of the file")
    parser.takes_output("table", "json", "csv")
    parser.runs(run, example="twinraven doctor")


def run(options: Namespace) -> int:
    from twinraven.cli.health import examine

    rows: list[dict[str, Any]] = [finding._asdict() for finding in examine(options, fast=options.fast)]
    show_rows(options.output, rows, _COLUMNS)
    return FAILED if any(row["status"] == "broken" for row in rows) else DONE
