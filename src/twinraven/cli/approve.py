"""`twinraven approve`: all there is to know about a version on one screen, and a person's yes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from twinraven.cli.advice import advice_field, advice_lines
from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, clean, print_lines, prose, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.registry import tell
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.registry import Review

_WIRING = (
    TableColumn("step", "STEP"),
    TableColumn("effect", "EFFECT", spare=2),
    TableColumn("argument", "ARGUMENT"),
    TableColumn("source", "COMES FROM", shrinks=True, least=32, middle=True),
    TableColumn("for", "FOR", right=True),
    TableColumn("against", "AGAINST", right=True),
    TableColumn("also", "ALSO", shrinks=True, spare=3),
)
_DIFF_LINES = 14


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument(
        "--version", dest="number", type=count, metavar="N", help="which version (default: the newest that waits)"
    )
    parser.add_argument("--promote", action="store_true", help="put it into service")
    parser.add_argument("--as", dest="slug", metavar="SLUG", help="under another name, before its first promotion")
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    parser.takes_output("table", "json")
    parser.runs(approve, example="twinraven approve search_read_summarize --promote --as find_and_summarize")


def approve(options: Namespace) -> None:
    import asyncio

    if options.slug is not None and not (options.promote or options.dry_run):
        raise InvalidInput("--as names what is promoted; give --promote, too", field="as")
    asyncio.run(_approve(options))


async def _approve(options: Namespace) -> None:
    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name

    with opened(options) as raven:
        found, seen = await _review(raven, options)
        number = found.version.version
        if not options.promote or options.dry_run:
            _show(options, found)
            return
        if options.output != "json":
            show_review(found)
        record = await raven.registry.promote(
            options.tenant, options.tool, version=number, new_id=options.slug, by=user_name(), expected_revision=seen
        )
    tell(options, record, f"\n{record.tool_id} v{record.current_version} is promoted: it is in service")


async def _review(raven: TwinRaven, options: Namespace) -> tuple[Review, int]:
    """Return what is shown, and the revision of the tool that it shows."""
    from twinraven.registry import review_version

    tool = await raven.registry.tool(options.tenant, options.tool)
    waiting = [version.version for version in tool.versions if version.status == "testing"]
    number: int = options.number or max(waiting, default=tool.record.current_version)
    version = tool.version(number)
    if version is None:
        raise NotFound(f"{options.tool!r} has no version {number}", tool_id=options.tool, version=number)
    chain = await raven.registry.chain(options.tenant, version.definition.source_chain_id)
    await raven.learned.refresh(options.tenant)
    found = review_version(tool, number, chain, lambda name: raven.learned.find_any(options.tenant, name))
    return found, tool.record.revision


def _show(options: Namespace, found: Review) -> None:
    if options.output == "json":
        show_json(found.as_json())
        return
    show_review(found)
    version = found.version
    if version.status != "testing":
        print_lines(["", f"v{version.version} is {version.status}; there is nothing to decide"])
    elif options.dry_run:
        name = options.slug or version.tool_id
        gone = "" if found.definition.replaces is None else f", and {found.definition.replaces} would be retired"
        print_lines(["", f"would put {name} v{version.version} into service{gone}; nothing was changed"])
    else:
        print_lines(
            [
                "",
                f"yes:  twinraven approve {version.tool_id} --promote",
                f"no:   twinraven reject {version.tool_id} --reason WHY",
            ]
        )


def show_review(found: Review) -> None:
    """Print the review of a version, for the decision."""
    from twinraven.huginn import draw_chain
    from twinraven.registry import BRING_TOOLS, missing_text

    version, definition = found.version, found.definition
    title = f"{version.tool_id} v{version.version}: {definition.description}"
    print_lines([*prose(clean(title)), clean(draw_chain(definition)), ""])
    show_fields(
        "table",
        {
            "learned from": _chain_words(found),
            "can do": _effect_words(found),
            "verdict": _verdict_words(version.validation),
            "stands on": found.backing,
            "would have saved": _savings_words(version.savings),
            "replaces": definition.replaces,
            **({"cannot serve yet": f"{missing_text(found.missing)}: {BRING_TOOLS}"} if found.missing else {}),
            **advice_field(definition),
        },
    )
    print_lines(advice_lines(definition))
    print_lines([""])
    show_rows("table", list(_wiring_rows(found)), _WIRING)
    if found.diff:
        rest = len(found.diff) - _DIFF_LINES
        shown = [clean(line) for line in found.diff[2:_DIFF_LINES]]
        print_lines(["", f"different from v{found.compared_with}:", *shown])
        if rest > 0:
            print_lines([f"… {rest} more lines; see `twinraven registry show {version.tool_id} --version N`"])


def _effect_words(found: Review) -> str:
    entry = found.entry
    said_by = "nobody declared its tools" if entry.effect_origin == "none" else entry.effect_origin
    return f"{entry.effect} ({said_by}), sensitivity {entry.sensitivity}"


def _chain_words(found: Review) -> str:
    chain = found.chain
    if chain is None:
        return "a chain that is not stored here"
    tools = " → ".join(str(tool) for tool in chain["tools"])
    return (
        f"{tools}: in {chain['support']:.1%} of sessions, confidence {chain['confidence']:.2f}, "
        f"failure rate {chain['failure_rate']:.1%}, found {short_time(chain['discovered_at'])}"
    )


def _verdict_words(verdict: dict[str, Any]) -> str:
    score: dict[str, Any] = verdict.get("equivalence_score") or {}
    ratio = verdict.get("latency_ratio")
    parts = [
        "passed" if verdict.get("passed") else "not passed",
        f"{score.get('mean_similarity', 0):.3f} alike, at worst {score.get('min_similarity', 0):.3f}",
        f"{verdict.get('sessions_replayed', 0)} sessions replayed",
        f"{verdict.get('hits', 0)} of {verdict.get('uses', 0)} uses agree",
        f"error parity {'kept' if verdict.get('error_parity') else 'broken'}",
        "time not measured" if ratio is None else f"{ratio:.2f} of the time",
    ]
    return ", ".join(parts)


def _savings_words(savings: dict[str, Any] | None) -> str:
    if savings is None:
        return "not weighed"
    return (
        f"{savings.get('turns_saved', 0)} of {savings.get('assistant_turns', 0)} turns in {savings.get('uses', 0)} "
        f"uses, for {savings.get('extra_calls', 0)} extra calls; worth {savings.get('value', 0):.2f} $"
    )


def _wiring_rows(found: Review) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(found.steps):
        here = {"step": f"{number} {step.tool_id}", "effect": f"{step.effect}, {step.sensitivity}"}
        if not step.arguments:
            yield here
        for argument in step.arguments:
            yield {
                **here,
                "argument": argument.name,
                "source": argument.source,
                "for": argument.agreed,
                "against": argument.disagreed,
                "also": ", ".join(argument.rivals) or None,
            }
