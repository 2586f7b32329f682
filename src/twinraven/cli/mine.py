"""`twinraven mine`: which chains of calls repeat, and what merging each would be worth."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count, moment, share
from twinraven.cli.interrupts import ends_at_once
from twinraven.cli.output import Progress, TableColumn, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.huginn import CandidateChain, MiningRun


def _short(chain_id: str) -> str:
    return chain_id[:8]


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _places(value: float) -> str:
    return f"{value:.2f}"


CHAINS = (
    TableColumn("chain_id", "CHAIN", text=_short),
    TableColumn("tools", "TOOLS", shrinks=True, text=" → ".join, least=50, middle=True),
    TableColumn("sessions", "SESSIONS", right=True),
    TableColumn("support", "SUPPORT", right=True, text=_percent, spare=1),
    TableColumn("confidence", "CONFIDENCE", right=True, text=_places, spare=2),
    TableColumn("failure_rate", "FAILED", right=True, text=_percent, spare=4),
    TableColumn("value", "VALUE $", right=True, text=_places),
    TableColumn("why", "WHY", shrinks=True, spare=3),
)


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="PARQUET", help="mine what `export parquet` wrote, storing nothing; else the log"
    )
    parser.add_argument(
        "--engine", choices=("local", "ray", "spark"), help="who counts the parts of the files (default: local)"
    )
    parser.add_argument("--workers", type=count, metavar="N", help="processes of the local engine (default: all cores)")
    parser.add_argument("--algorithm", choices=("contiguous", "prefixspan", "gsp"), help="default: mining.algorithm")
    parser.add_argument("--min-support", type=share, metavar="S", help="least share of sessions")
    parser.add_argument("--min-length", type=count, metavar="N", help="shortest chain")
    parser.add_argument("--max-length", type=count, metavar="N", help="longest chain")
    parser.add_argument("--max-gap-ms", type=count, metavar="MS", help="longest idle time between two steps (gsp)")
    parser.add_argument("--collapse-repeats", action="store_true", help="count a tool called again and again once")
    parser.add_argument("--tag", metavar="TAG", help="only calls with this tag")
    parser.add_argument("--since", type=moment, metavar="TIME", help="only calls from then on (time, or 7d)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="only calls before then")
    parser.add_argument("--last-sessions", type=count, metavar="N", help="only the N sessions that began last")
    parser.add_argument("--like", metavar="CHAIN", help="repeat the run that found this chain; takes no other filter")
    parser.add_argument("--limit", type=count, default=100, metavar="N", help="the N most valuable (default: 100)")
    parser.takes_output("table", "json", "csv")
    parser.runs(run, example="twinraven mine --min-support 0.02 --limit 12")


def run(options: Namespace) -> None:
    from twinraven.foundation.event_loop import run_to_end

    notes: list[str] = []
    with ends_at_once(), Progress("") as progress:
        progress.say("mining the log")
        chains = _mine_files(options, notes.append) if options.files else run_to_end(_mine(options, notes.append))
    for note in notes:
        print(f"twinraven: note: {note}", file=sys.stderr)
    show_chains(options.output, chains, empty="nothing repeats often enough; lower --min-support or record more")


def show_chains(form: str, chains: list[CandidateChain], *, empty: str) -> None:
    """Print a listing of chains."""
    show_rows(form, [chain.as_json() for chain in chains], CHAINS, empty=empty)


def _mine_files(options: Namespace, note: Callable[[str], None]) -> list[CandidateChain]:
    """Chains of exported files; the settings are those of the home, where there is one."""
    from contextlib import closing
    from pathlib import Path

    from twinraven.foundation.clock import utc_now
    from twinraven.huginn import mine_parquet, open_engine

    if options.like is not None:
        raise InvalidInput("--like repeats a run over a home's log; leave out the files", field="like")
    run = mining_run(options, _run_by_settings(options))
    with closing(open_engine(options.engine or "local", workers=options.workers)) as engine:
        return mine_parquet([Path(file) for file in options.files], run, engine, now=utc_now(), note=note)


def _run_by_settings(options: Namespace) -> MiningRun:
    from dataclasses import replace

    from twinraven.app import load_settings
    from twinraven.cli.home import locate_home, stated_home
    from twinraven.foundation.clock import utc_now
    from twinraven.foundation.errors import NotFound
    from twinraven.huginn import LogWindow, MiningRun, MiningSettings
    from twinraven.muninn import MuninnSettings

    mining, gap = MiningSettings(), MuninnSettings().session_idle_gap_s
    try:
        settings = load_settings(locate_home(options).path)
    except NotFound:
        if stated_home(options) is not None:
            raise
    else:
        mining, gap = settings.mining, settings.muninn.session_idle_gap_s
    run = MiningRun.of_settings(mining, idle_gap_s=gap, now=utc_now())
    # A window of the settings is about a log that goes on; a file holds what it holds.
    return replace(run, window=LogWindow())


async def _mine(options: Namespace, note: Callable[[str], None]) -> list[CandidateChain]:
    from twinraven.cli.home import opened
    from twinraven.foundation.clock import utc_now
    from twinraven.huginn import mine_log

    for name in ("engine", "workers"):
        if getattr(options, name) is not None:
            raise InvalidInput(f"--{name} is for mining Parquet files; name some", field=name)
    with opened(options) as raven:
        chosen = await _repeated(raven, options) if options.like is not None else mining_run(options, raven.mining_run)
        chains = await mine_log(raven.events, options.tenant, chosen, now=utc_now(), note=note)
        await raven.chains.add(options.tenant, chains)
    return chains


async def _repeated(raven: TwinRaven, options: Namespace) -> MiningRun:
    """Return the run that found a stored chain."""
    from twinraven.huginn import MiningRun

    stated = [name for name in (*_CONFIG, *_WINDOW, "collapse_repeats") if getattr(options, name)]
    if stated:
        raise InvalidInput(f"--like repeats a run as it was; leave out --{stated[0].replace('_', '-')}", field="like")
    chain = await raven.chains.chain(options.tenant, options.like)
    return MiningRun.from_dict(chain.mining_config, idle_gap_s=raven.settings.muninn.session_idle_gap_s)


_CONFIG = ("algorithm", "min_support", "min_length", "max_length", "max_gap_ms")
_WINDOW = ("tag", "since", "until", "last_sessions")


def mining_run(options: Namespace, settings: MiningRun) -> MiningRun:
    """Build the mining run from the options, over the settings."""
    from dataclasses import replace

    from twinraven.huginn import MiningConfig

    stated: dict[str, Any] = {name: getattr(options, name) for name in _CONFIG if getattr(options, name) is not None}
    if stated.get("algorithm", settings.config.algorithm) != "gsp" and options.max_gap_ms is None:
        stated["max_gap_ms"] = None
    config = {**settings.config.as_dict(), **stated, "collapse_repeats": options.collapse_repeats}
    window = {name: getattr(options, name) for name in _WINDOW if getattr(options, name) is not None}
    return replace(
        settings,
        config=MiningConfig.from_dict(config),
        window=replace(settings.window, **window),
        most=options.limit,
    )
