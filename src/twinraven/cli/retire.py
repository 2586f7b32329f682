"""`twinraven retire`: the end of a learned tool."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.parser import CommandParser
from twinraven.cli.registry import tell


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    parser.takes_output("table", "json")
    parser.runs(retire, example="twinraven retire search_read_summarize")


def retire(options: Namespace) -> None:
    import asyncio
    from getpass import getuser

    from twinraven.cli.home import opened
    from twinraven.registry import RetirementReason

    with opened(options) as raven:
        ended = raven.registry.retire(
            options.tenant, options.tool, RetirementReason.MANUAL, by=getuser(), note=options.note
        )
        record = asyncio.run(ended)
    tell(options, record, f"{record.tool_id} is retired, for good")
