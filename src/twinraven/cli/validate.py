"""`twinraven validate`: a draft is replayed on sessions its synthesis did not see."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import Progress, print_lines, show_fields, show_json
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.huginn import ValidationResult
    from twinraven.registry import Draft


def register(parser: CommandParser) -> None:
    parser.add_argument("tool_id", metavar="TOOL", help="the draft's name")
    parser.add_argument(
        "--version", dest="tool_version", type=count, metavar="N", help="which draft (default: the last)"
    )
    parser.add_argument("--dry-run", action="store_true", help="judge it, and register nothing")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven validate search_read_summarize --dry-run")


def run(options: Namespace) -> int:
    from twinraven.foundation.event_loop import run_to_end

    with Progress("") as progress:
        progress.say("replaying history")
        verdict = run_to_end(_validate(options))
    if options.output == "json":
        show_json(verdict.as_json())
    else:
        _show(verdict)
    return DONE if verdict.passed else FAILED


async def _validate(options: Namespace) -> ValidationResult:
    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name

    with opened(options) as raven:
        draft, verdict = await raven.huginn.validate(options.tenant, options.tool_id, version=options.tool_version)
        if verdict.passed and not options.dry_run and not await _is_registered(raven, options.tenant, draft):
            await raven.huginn.register(options.tenant, draft, verdict, by=user_name())
    return verdict


async def _is_registered(raven: TwinRaven, tenant_id: str, draft: Draft) -> bool:
    """Return whether the version passed before: it is only judged again, and its state stays."""
    from twinraven.foundation.errors import NotFound
    from twinraven.registry import ToolStatus

    try:
        found = (await raven.registry.tool(tenant_id, draft.tool_id)).version(draft.version)
    except NotFound:
        return False
    return found is not None and found.status is not ToolStatus.DRAFT


def _show(verdict: ValidationResult) -> None:
    score = verdict.equivalence_score
    ratio = verdict.latency_ratio
    show_fields(
        "table",
        {
            "tool": f"{verdict.tool_id} v{verdict.tool_version}",
            "sessions replayed": verdict.sessions_replayed,
            "uses": f"{verdict.uses}, of which {verdict.hits} agree with the record (at least {verdict.wired_low:.1%})",
            "similarity": f"{score.mean_similarity:.3f} on average, {score.min_similarity:.3f} at worst",
            "method": score.method,
            "failures": f"{verdict.failures_replayed} replayed, parity {'kept' if verdict.error_parity else 'broken'}",
            "time": "not measured" if ratio is None else f"{ratio:.2f} of the separate calls",
            "verdict": "passed" if verdict.passed else "not passed",
        },
    )
    print_lines([f"  because {reason}" for reason in verdict.failure_reasons])
