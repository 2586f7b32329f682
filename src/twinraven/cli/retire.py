"""`twinraven retire`: the end of a learned tool."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.parser import CommandParser
from twinraven.cli.people import confirm
from twinraven.cli.registry import tell


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.takes_output("table", "json")
    parser.runs(retire, example="twinraven retire search_read_summarize --yes")


def retire(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name
    from twinraven.registry import RetirementReason

    confirm(options, f"{options.tool} will be retired for good: it cannot be promoted again. Retire it?")
    with opened(options) as raven:
        ended = raven.registry.retire(
            options.tenant, options.tool, RetirementReason.MANUAL, by=user_name(), note=options.note
        )
        record = asyncio.run(ended)
    tell(
        options,
        record,
        f"{record.tool_id} is retired, for good; if agents repeat its calls, they may become a new tool",
    )
