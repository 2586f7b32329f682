"""`twinraven reject`: a person's no, with the reason; the chain is not proposed again on the same evidence."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.arguments import count
from twinraven.cli.output import print_lines, show_json
from twinraven.cli.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why not, for whoever looks next")
    parser.add_argument(
        "--version", dest="number", type=count, metavar="N", help="which version (default: the newest that waits)"
    )
    parser.takes_output("table", "json")
    parser.runs(reject, example="twinraven reject search_read_summarize --reason wrong-page")


def reject(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name

    with opened(options) as raven:
        said = asyncio.run(
            raven.registry.reject(
                options.tenant, options.tool, version=options.number, reason=options.reason, by=user_name()
            )
        )
    if options.output == "json":
        show_json({"tool_id": said.tool_id, "version": said.version, "reason": said.reason, "by": said.by})
    else:
        print_lines([f"{said.tool_id} v{said.version} is a draft again and not proposed on the same evidence"])
