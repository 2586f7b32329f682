"""`twinraven backtest`: what learned tools would have saved, from a file of traces or from the log."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import amount, count
from twinraven.cli.interrupts import ends_at_once
from twinraven.cli.output import Progress, TableColumn, clean, print_lines, prose, show_json, show_rows, terminal_width
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.huginn import Backtest, LearningConfig, Prices, RepeatedBacktest, ToolFacts, TraceLog

_TOOLS = (
    TableColumn("tool_id", "TOOL", shrinks=True, least=46, middle=True),
    TableColumn("shape", "SHAPE", spare=2),
    TableColumn("uses", "USES", right=True),
    TableColumn("misses", "WITH EXTRAS", right=True, spare=3),
    TableColumn("turns_saved", "TURNS SAVED", right=True),
    TableColumn("extra_calls", "EXTRA CALLS", right=True),
)
_SPLITS = ("auto", "task", "session", "time")
_INFERRED = (
    "Effects of tools that nobody declared are inferred from their names; what is not clearly a read counts as a",
    "write, and nothing learned here writes.",
)


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "file",
        nargs="*",
        metavar="FILE",
        help="traces in any format that `import` reads, or folders of them; without it, the log",
    )
    parser.add_argument(
        "--split", choices=_SPLITS, default="auto", help="what must differ between learning and testing"
    )
    parser.add_argument("--max-tools", type=count, default=10, metavar="N", help="at most so many tools (default: 10)")
    parser.add_argument(
        "--max-extra-calls",
        type=amount,
        metavar="SHARE",
        help="at most so many extra calls for each recorded one (default: learning.max_extra_calls)",
    )
    parser.add_argument(
        "--repeat",
        type=count,
        default=1,
        metavar="N",
        help="repeat on N splits and report mean and spread (default: 1)",
    )
    parser.add_argument(
        "--uses", metavar="FILE", help="write every use of every tested session of the first split, one session a line"
    )
    parser.add_argument("--turn-cost", type=amount, default=0.01, metavar="$", help="one model turn (default: 0.01)")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven backtest mytraces.jsonl.gz --split task")


def run(options: Namespace) -> None:
    from twinraven.foundation.event_loop import run_to_end
    from twinraven.huginn import Prices

    prices = Prices(turn=options.turn_cost, extra_call=options.turn_cost / 4)
    with ends_at_once(), Progress("") as progress:
        log, repeated = run_to_end(_backtest(options, prices, progress))
    first = repeated.runs[0]
    if options.uses is not None:
        _write_uses(Path(options.uses), first)
    if options.output == "json":
        show_json(first.as_json() if options.repeat == 1 else repeated.as_json())
        return
    _show(first, log, prices)
    if options.repeat > 1:
        print_lines(_spreads(repeated))


async def _backtest(options: Namespace, prices: Prices, progress: Progress) -> tuple[TraceLog, RepeatedBacktest]:
    from twinraven.foundation.clock import utc_now
    from twinraven.huginn import best_split, repeat_backtest

    log, facts, wanted = await _read(options)
    split = best_split(log.sessions) if options.split == "auto" else options.split
    config = replace(wanted, prices=prices, max_tools=options.max_tools)
    if options.max_extra_calls is not None:
        config = replace(config, max_extra_calls=options.max_extra_calls)
    outcome = await repeat_backtest(
        log.sessions, config, facts, split=split, repeats=options.repeat, now=utc_now, progress=progress.say
    )
    return log, outcome


async def _read(options: Namespace) -> tuple[TraceLog, ToolFacts, LearningConfig]:
    """Traces, what is known of their tools, and what to look for.

    A file brings nothing but names and is looked at with the defaults, a home has its catalogue and its settings.
    """
    from twinraven.huginn import LearningConfig, ToolFacts, load_sample

    if options.file:
        return _read_files(options.file), ToolFacts(), LearningConfig()
    from twinraven.cli.home import opened

    with opened(options) as raven:
        log = await load_sample(raven.events, options.tenant, raven.mining_run, raven.sample_limits)
        return log, ToolFacts(raven.catalog.entries(options.tenant)), raven.learning_config


def _read_files(names: list[str]) -> TraceLog:
    """Traces from files; InvalidInput where no call can be read from any of them."""
    from twinraven.foundation.errors import InvalidInput
    from twinraven.huginn import SampleLimits, read_trace_files
    from twinraven.muninn import find_traces

    log = read_trace_files(find_traces(names), most_calls=SampleLimits().calls)
    if not log.sessions:
        first = f"; the first complaint: line {log.errors[0].line}: {log.errors[0].reason}" if log.errors else ""
        raise InvalidInput(f"no call was understood: {'; '.join(log.seen)}{first}", field="file")
    return log


def _write_uses(path: Path, outcome: Backtest) -> None:
    from twinraven.cli.output import encode_json

    lines = (encode_json(item.as_json(), indent=False) + b"\n" for item in outcome.tested)
    path.write_bytes(b"".join(lines))


def _show(outcome: Backtest, log: TraceLog, prices: Prices) -> None:
    from twinraven.huginn import draw_chain

    body = outcome.as_json()
    if log.not_understood:
        first = log.errors[0]
        print(
            f"twinraven: warning: {log.not_understood:,} lines or parts were not understood; "
            f"the first: line {first.line}: {clean(first.reason)}",
            file=sys.stderr,
        )
    if log.cut_sessions:
        longest = max(len(session.calls) for session in log.sessions)
        words = f"of {log.cut_sessions:,} sessions, which are longer, the first {longest:,} calls were read"
        print(f"twinraven: warning: {words}", file=sys.stderr)
    if not body["tools"]:
        print_lines(prose(f"nothing to learn, because {outcome.learning.because}"))
        return
    print_lines([f"Learned from {body['sessions_learned']} sessions, tested on {body['sessions_tested']} others.", ""])
    show_rows("table", body["tools"], _TOOLS)
    print_lines(["", *(f"  {draw_chain(tool.definition)}" for tool in outcome.tools), ""])
    print_lines(_summary(body, prices, turns_known=outcome.turns_known))


def _spreads(repeated: RepeatedBacktest) -> list[str]:
    body = repeated.as_json()
    rows = {
        "turns saved": "saved_share",
        "  by learned tools": "saved_share_by_learned_tools",
        "extra calls": "extra_share",
    }
    return [
        "",
        f"Over {body['repeats']} splits (mean, spread, least to most):",
        *(
            f"{label:<20}{body[name]['mean']:>7.1%} ± {body[name]['spread']:.1%}"
            f"   {body[name]['min']:.1%} to {body[name]['max']:.1%}"
            for label, name in rows.items()
        ),
    ]


def _paragraph(lines: Sequence[str]) -> list[str]:
    """Lines as they stand here where nobody looks, and as long as the terminal is wide elsewhere."""
    return list(lines) if terminal_width(sys.stdout) is None else prose(" ".join(lines))


def _summary(body: dict[str, Any], prices: Prices, *, turns_known: bool) -> list[str]:
    turns, saved = body["assistant_turns"], body["assistant_turns_saved"]
    learned, batched = body["assistant_turns_saved_by_learned_tools"], body["assistant_turns_saved_by_batch"]
    calls, extra = body["calls"], body["extra_calls"]
    money = saved * prices.turn - extra * prices.extra_call
    ceiling = (
        f"A ceiling: it assumes that the agent takes a tool wherever it fits. {body['plain_share']:.0%} of the saved",
        "turns came straight on; the others followed a message from outside. Agents of one public data set that were",
        f"given such tools took them so often that {body['middle']:.1%} would remain.",
    )
    lines = [
        f"assistant turns  {turns:>8,}   saved {saved:,} ({saved / max(1, turns):.1%})",
        f"  by learned tools         saved {learned:,} ({learned / max(1, turns):.1%})",
        f"  by the built-in batch    saved {batched:,} ({batched / max(1, turns):.1%})",
        f"tool calls       {calls:>8,}   extra {extra:,} ({extra / max(1, calls):.1%})",
        f"money            {money:>8,.2f}   at ${prices.turn:g} a turn and ${prices.extra_call:g} an extra call",
        "",
        *_paragraph(ceiling),
        *_paragraph(_INFERRED),
    ]
    return lines if turns_known else [*lines, "The traces do not number the model's turns: each call counts as one."]
