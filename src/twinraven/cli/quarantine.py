"""`twinraven quarantine`: takes a learned tool out of service at once, until it is reviewed."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.parser import CommandParser
from twinraven.cli.registry import tell
from twinraven.foundation.errors import InvalidInput


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--reason", metavar="TEXT", help="what is wrong with it")
    parser.add_argument("--release", action="store_true", help="end the quarantine")
    parser.takes_output("table", "json")
    parser.runs(quarantine, example="twinraven quarantine search_read_summarize --reason nonsense")


def quarantine(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name

    if (options.reason is None) != options.release:
        raise InvalidInput("give --reason to quarantine a tool, or --release to end it", field="reason")
    with opened(options) as raven:
        act = (
            raven.registry.release(options.tenant, options.tool, by=user_name())
            if options.release
            else raven.registry.quarantine(options.tenant, options.tool, reason=options.reason, by=user_name())
        )
        record = asyncio.run(act)
    tell(options, record, f"{record.tool_id} is {'back' if options.release else 'out of service'}")
