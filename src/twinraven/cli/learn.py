"""`twinraven learn`: the whole round, ending with what awaits a decision."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.output import Column, Progress, clean, print_lines, show_json, show_rows
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.huginn import Round

_PROPOSALS = (
    Column("tool_id", "TOOL", shrinks=True),
    Column("version", "VERSION", right=True),
    Column("novelty", "STATE"),
    Column("uses", "USES", right=True),
    Column("turns_saved", "TURNS SAVED", right=True),
    Column("extra_calls", "EXTRA CALLS", right=True),
    Column("value", "VALUE $", right=True),
)


def register(parser: CommandParser) -> None:
    parser.add_argument("--no-model", action="store_true", help="do not ask the configured model, if there is one")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven learn")


def run(options: Namespace) -> None:
    import asyncio

    with Progress("") as progress:
        outcome = asyncio.run(_learn(options, progress))
    if options.output == "json":
        show_json(_body(outcome))
    else:
        _show(outcome)


async def _learn(options: Namespace, progress: Progress) -> Round:
    from getpass import getuser

    from twinraven.cli.home import opened

    with opened(options) as raven:
        return await raven.huginn.learn(
            options.tenant, by=getuser(), progress=progress.say, with_model=not options.no_model
        )


def _rows(outcome: Round) -> list[dict[str, Any]]:
    return [
        {
            "tool_id": proposal.tool_id,
            "version": proposal.version,
            "novelty": proposal.novelty,
            "note": proposal.note,
            **proposal.chosen.alone.as_json(),
        }
        for proposal in outcome.proposals
    ]


def _body(outcome: Round) -> dict[str, Any]:
    report = outcome.report
    return {
        "sessions": report.sessions,
        "chains": len(report.chains),
        "drafts": len(report.drafts),
        "proven": sum(draft.verdict.passed for draft in report.drafts),
        "proposals": _rows(outcome),
        "because": None if outcome.proposals else report.because,
        "advice": report.advice,
        "model": _asking(outcome),
    }


def _asking(outcome: Round) -> dict[str, Any] | None:
    """What a model was asked in the round; None where none could be."""
    if outcome.model is None:
        return None
    advice = outcome.advice
    return {
        "name": outcome.model,
        "asked": sum(record.prompt_hash is not None for record in advice),
        "tokens": sum(record.input_tokens + record.output_tokens for record in advice),
        "accepted": sum(len(record.accepted) for record in advice),
        "refused": sum(len(record.refused) for record in advice),
        "failures": [record.failure for record in advice if record.failure is not None],
    }


def _asking_lines(outcome: Round) -> list[str]:
    asking = _asking(outcome)
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
    return [] if advice is None else ["", clean(advice)]


def _show(outcome: Round) -> None:
    from twinraven.huginn import draw_chain

    body = _body(outcome)
    print_lines(
        [f"{body['sessions']} sessions, {body['chains']} chains, {body['drafts']} wired, {body['proven']} proven", ""]
    )
    if not outcome.proposals:
        print_lines([f"nothing to learn, because {outcome.report.because}", *_advice_lines(outcome)])
        return
    show_rows("table", _rows(outcome), _PROPOSALS)
    print_lines(["", *(f"  {draw_chain(proposal.picture)}" for proposal in outcome.proposals)])
    print_lines(f"  {proposal.tool_id}: {proposal.note}" for proposal in outcome.proposals if proposal.note)
    print_lines(_asking_lines(outcome))
    print_lines(_advice_lines(outcome))
    waiting = [proposal.tool_id for proposal in outcome.proposals if proposal.novelty == "awaiting"]
    if waiting:
        print_lines(["", "awaiting a decision:", *(f"  twinraven approve {tool_id}" for tool_id in waiting)])
