"""`twinraven chains`: what mining found so far."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, print_lines, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser


def _places(value: float) -> str:
    return f"{value:.3f}"


_LINKS = (
    TableColumn("from_tool", "AFTER"),
    TableColumn("to_tool", "COMES"),
    TableColumn("transition_probability", "PROBABILITY", right=True, text=_places),
    TableColumn("avg_gap_ms", "GAP MS", right=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven chains list --limit 12")
    listing = parser.command("list", "chains that mining found, the latest run first")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_chains, example="twinraven chains list --output json")
    show = parser.command("show", "one chain with its links and samples")
    show.add_argument("chain_id", metavar="ID", help="the chain's id, or the beginning of it")
    show.takes_output("table", "json")
    show.runs(show_chain, example="twinraven chains show 3f2a9c1b")


def list_chains(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.mine import show_chains

    with opened(options) as raven:
        chains = asyncio.run(raven.chains.chains(options.tenant, limit=options.limit))
    show_chains(options.output, chains, empty="no chains yet; run `twinraven mine`")


def show_chain(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        chain = asyncio.run(raven.chains.chain(options.tenant, options.chain_id))
    body = chain.as_json()
    if options.output == "json":
        show_json(body)
        return
    links, samples = body.pop("links"), body.pop("sample_event_ids")
    show_fields("table", {**body, "tools": " → ".join(chain.tools), "samples": f"{len(samples)} events"})
    print_lines([""])
    show_rows("table", links, _LINKS)
