"""`twinraven import`: recorded calls of other systems become events of the log."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import Progress, clean, show_fields, show_json
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.muninn import ImportReport

_FORMATS = ("auto", "calls", "openai", "otlp", "claude-code")
_SHOWN_ERRORS = 20


def register(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="JSON or JSON Lines, plain or gzip; - reads standard input")
    parser.add_argument("--format", choices=_FORMATS, default="auto", help="what the lines are (default: found out)")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven import tau_retail.jsonl.gz --format calls --output json")


def run(options: Namespace) -> int:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.muninn import open_lines

    file = None if options.file == "-" else Path(options.file)
    with opened(options) as raven, open_lines(file) as lines, Progress("lines") as progress:
        importing = raven.importer.import_trace(options.tenant, lines, format=options.format, progress=progress)
        report = asyncio.run(importing)
    if options.output == "json":
        show_json(report.as_json())
    else:
        counts = {"sessions": report.sessions, "events": report.events, "duplicates": report.duplicates}
        show_fields("table", {**counts, "not understood": len(report.errors)})
    _warn(report, verbose=options.output == "table")
    return FAILED if report.errors and not report.events + report.duplicates else DONE


def _warn(report: ImportReport, *, verbose: bool) -> None:
    errors = report.errors
    if not errors:
        return
    print(f"twinraven: warning: {len(errors)} lines were not understood", file=sys.stderr)
    for error in errors[:_SHOWN_ERRORS] if verbose else ():
        print(f"  line {error.line}: {clean(error.reason)}", file=sys.stderr)
    if verbose and len(errors) > _SHOWN_ERRORS:
        print(f"  and {len(errors) - _SHOWN_ERRORS} more; --output json lists them", file=sys.stderr)
