"""`twinraven mine`: which chains of calls repeat, and what merging each would be worth."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count, moment, share
from twinraven.cli.output import Column, Progress, show_rows
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.foundation.settings import MiningSettings
    from twinraven.huginn import CandidateChain, MiningConfig


def _short(chain_id: str) -> str:
    return chain_id[:8]


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _places(value: float) -> str:
    return f"{value:.2f}"


CHAINS = (
    Column("chain_id", "CHAIN", text=_short),
    Column("tools", "TOOLS", shrinks=True, text=" → ".join),
    Column("sessions", "SESSIONS", right=True),
    Column("support", "SUPPORT", right=True, text=_percent),
    Column("confidence", "CONFIDENCE", right=True, text=_places),
    Column("failure_rate", "FAILED", right=True, text=_percent),
    Column("value", "VALUE $", right=True, text=_places),
    Column("why", "WHY", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.add_argument("--algorithm", choices=("contiguous", "prefixspan", "gsp"), help="default: mining.algorithm")
    parser.add_argument("--min-support", type=share, metavar="S", help="least share of sessions")
    parser.add_argument("--min-length", type=count, metavar="N", help="shortest chain")
    parser.add_argument("--max-length", type=count, metavar="N", help="longest chain")
    parser.add_argument("--max-gap-ms", type=count, metavar="MS", help="longest idle time between two steps (gsp)")
    parser.add_argument("--collapse-repeats", action="store_true", help="count a tool called again and again once")
    parser.add_argument("--tag", metavar="TAG", help="only calls with this tag")
    parser.add_argument("--since", type=moment, metavar="TIME", help="only calls from then on (time, or 7d)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="only calls before then")
    parser.add_argument("--limit", type=count, default=100, metavar="N", help="the N most valuable (default: 100)")
    parser.takes_output("table", "json", "csv")
    parser.runs(run, example="twinraven mine --min-support 0.02 --limit 12")


def run(options: Namespace) -> None:
    from twinraven.foundation.event_loop import run_to_end

    with Progress("") as progress:
        progress.say("mining the log")
        chains = run_to_end(_mine(options))
    show_chains(options.output, chains, empty="nothing repeats often enough; lower --min-support or record more")


def show_chains(form: str, chains: list[CandidateChain], *, empty: str) -> None:
    """A listing of chains, as they are."""
    show_rows(form, [chain.as_json() for chain in chains], CHAINS, empty=empty)


async def _mine(options: Namespace) -> list[CandidateChain]:
    from twinraven.cli.home import opened
    from twinraven.foundation.clock import utc_now
    from twinraven.huginn import mine_log
    from twinraven.muninn import EventFilter

    with opened(options) as raven:
        where = EventFilter(tag=options.tag, since=options.since, until=options.until)
        chains = await mine_log(
            raven.events,
            options.tenant,
            mining_config(options, raven.settings.mining),
            idle_gap_s=raven.settings.muninn.session_idle_gap_s,
            now=utc_now(),
            where=where,
            most=options.limit,
        )
        await raven.chains.add(options.tenant, chains)
    return chains


def mining_config(options: Namespace, settings: MiningSettings) -> MiningConfig:
    """What the options ask for, over what the settings say."""
    from twinraven.huginn import MiningConfig

    chosen: dict[str, Any] = {
        "algorithm": options.algorithm or settings.algorithm,
        "min_support": options.min_support or settings.min_support,
        "min_length": options.min_length or settings.min_length,
        "max_length": options.max_length or settings.max_length,
        "max_gap_ms": options.max_gap_ms or settings.max_gap_ms,
        "collapse_repeats": options.collapse_repeats,
    }
    if chosen["algorithm"] != "gsp" and options.max_gap_ms is None:
        chosen["max_gap_ms"] = None
    return MiningConfig.from_dict(chosen)
