"""`twinraven learn`: the whole round, ending with what awaits a decision."""

from __future__ import annotations

from argparse import Namespace
from itertools import chain
from typing import TYPE_CHECKING

from twinraven.cli.interrupts import ends_at_once
from twinraven.cli.output import Progress, TableColumn, clean, print_lines, prose, show_json, show_rows
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.huginn import Round

_PROPOSALS = (
    TableColumn("tool_id", "TOOL", shrinks=True, least=46, middle=True),
    TableColumn("version", "VERSION", right=True, spare=2),
    TableColumn("state", "STATE"),
    TableColumn("uses", "USES", right=True, spare=1),
    TableColumn("turns_saved", "TURNS SAVED", right=True),
    TableColumn("extra_calls", "EXTRA CALLS", right=True, spare=3),
    TableColumn("value", "VALUE $", right=True, text="{:.2f}".format),
)

_SHOWN_REFUSED = 8


def register(parser: CommandParser) -> None:
    parser.add_argument("--no-model", action="store_true", help="do not ask the configured model, if there is one")
    parser.add_argument(
        "--list-writes",
        action="store_true",
        help="propose tools that write once for each element of a list that a read gave, too",
    )
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven learn")


def run(options: Namespace) -> None:
    from twinraven.foundation.event_loop import run_to_end
    from twinraven.huginn import round_outcome

    with ends_at_once(), Progress("") as progress:
        outcome, states = run_to_end(_learn(options, progress))
    if options.output == "json":
        show_json(round_outcome(outcome))
    else:
        _show(outcome, states)


async def _learn(options: Namespace, progress: Progress) -> tuple[Round, dict[str, str]]:
    """Return the round, and the state of each learned tool after it, in the registry's words."""
    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name
    from twinraven.cli.registry import state_of

    with opened(options) as raven:
        outcome = await raven.huginn.learn(
            options.tenant,
            by=user_name(),
            progress=progress.say,
            with_model=not options.no_model,
            list_writes=options.list_writes,
        )
        return outcome, {each.tool_id: state_of(each) for each in await raven.registry.tools(options.tenant)}


def _asking_lines(outcome: Round) -> list[str]:
    from twinraven.huginn import model_summary

    asking = model_summary(outcome)
    if asking is None:
        return []
    if not outcome.advice:
        return ["", f"{asking['name']} was not asked: there is no new draft"]
    words = (
        f"{asking['name']} was asked about {asking['asked']} drafts ({asking['tokens']} tokens): "
        f"{asking['accepted']} proposals accepted, {asking['refused']} refused"
    )
    return ["", clean(words), *(clean(f"  {failure}") for failure in asking["failures"])]


def _advice_lines(outcome: Round) -> list[str]:
    advice = outcome.report.advice
    return [] if advice is None else ["", *prose(clean(advice))]


def _refused_lines(outcome: Round) -> list[str]:
    """Return the most valuable chains that came to nothing, and why."""
    refused = outcome.report.left(_SHOWN_REFUSED)
    if not refused:
        return []
    lines = (prose(clean(f"{' → '.join(left.chain.tools)}: {left.reason}"), begins="  ") for left in refused)
    return ["", "left, the most valuable first (--output json lists more):", *chain.from_iterable(lines)]


def _show(outcome: Round, states: dict[str, str]) -> None:
    from twinraven.huginn import draw_chain, proposal_rows, round_outcome

    body = round_outcome(outcome)
    print_lines(
        [f"{body['sessions']} sessions, {body['chains']} chains, {body['drafts']} wired, {body['proven']} proven", ""]
    )
    if not outcome.proposals:
        print_lines([*prose(f"nothing to learn, because {outcome.report.because}"), *_refused_lines(outcome)])
        print_lines(_advice_lines(outcome))
        return
    rows = [{**row, "state": states.get(row["tool_id"], row["novelty"])} for row in proposal_rows(outcome)]
    show_rows("table", rows, _PROPOSALS)
    print_lines(["", *(f"  {draw_chain(proposal.picture)}" for proposal in outcome.proposals)])
    for proposal in outcome.proposals:
        print_lines(prose(f"{proposal.tool_id}: {proposal.note}", begins="  ") if proposal.note else [])
    print_lines(_asking_lines(outcome))
    print_lines(_refused_lines(outcome))
    print_lines(_advice_lines(outcome))
    waiting = [row["tool_id"] for row in rows if row["state"] == "testing" or row["novelty"] == "awaiting"]
    if waiting:
        print_lines(["", "awaiting a decision:", *(f"  twinraven approve {tool_id}" for tool_id in waiting)])
