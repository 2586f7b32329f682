"""`twinraven doctor`: which home this is, how it was found, and what works.

It goes on when something is broken, looks without changing anything, and says for each thing what to do about it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Any, Final

from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import TableColumn, clean, paint_word, print_lines, prose, show_rows
from twinraven.cli.parser import CommandParser

_COLUMNS: Final = tuple(TableColumn(name, name.upper()) for name in ("check", "status", "detail", "fix"))
_EXTRA: Final = "extra "


def register(parser: CommandParser) -> None:
    parser.add_argument("--fast", action="store_true", help="leave out what takes long: the integrity of the file")
    parser.takes_output("table", "json", "csv")
    parser.runs(run, example="twinraven doctor")


def run(options: Namespace) -> int:
    from twinraven.cli.health import examine

    rows: list[dict[str, Any]] = [finding._asdict() for finding in examine(options, fast=options.fast)]
    if options.output == "table":
        ground, *house = [row for row in rows if not row["check"].startswith(_EXTRA)]
        _show([ground, *_extras(rows), *house])
    else:
        show_rows(options.output, rows, _COLUMNS)
    return FAILED if any(row["status"] == "broken" for row in rows) else DONE


def _extras(rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield the extras in two rows: those that are installed, and those that are not with how to get one."""
    extras = [row for row in rows if row["check"].startswith(_EXTRA)]
    for fix, heading in ((None, "extras"), ("pip install 'twinraven[NAME]', if you need one", "not installed")):
        names = [row["check"].removeprefix(_EXTRA) for row in extras if bool(row["fix"]) == bool(fix)]
        if names:
            yield {"check": heading, "status": "info", "detail": ", ".join(names), "fix": fix}


def _show(rows: list[dict[str, Any]]) -> None:
    """Print each finding with its fix below it, so that nothing of either is cut on a narrow terminal."""
    wide = max(len(row["check"]) for row in rows)
    for row in rows:
        status = f"{row['status']:<7}"
        first, *rest = prose(clean(row["detail"]), begins=f"{row['check']:<{wide}}  {status}  ")
        print_lines([first.replace(status, paint_word(status, row["status"]), 1), *rest])
        if row["fix"]:
            print_lines([f"{'':<{wide}}  {'':<7}  fix: {clean(row['fix'])}"])
