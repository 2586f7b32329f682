"""`twinraven tools classify`: say what upstream tools do to the world, one by one or as it is suggested."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.output import TableColumn, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.people import user_name
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.catalog import Sensitivity
    from twinraven.connectors import Suggestion, UpstreamTools

_SUGGESTED = (
    TableColumn("tool_id", "TOOL"),
    TableColumn("effect", "PROBABLY"),
    TableColumn("because", "BECAUSE", shrinks=True),
)
_TAKEN = (
    TableColumn("tool_id", "TOOL"),
    TableColumn("effect", "PROBABLY"),
    TableColumn("result", "RESULT"),
    TableColumn("because", "BECAUSE", shrinks=True),
)
_CLASSIFIED = (
    TableColumn("tool_id", "TOOL"),
    TableColumn("effect", "EFFECT"),
    TableColumn("sensitivity", "SENSITIVITY"),
    TableColumn("classified_by", "SAID BY"),
)
_NONE = "nothing to classify"


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the tool's id; names may hold * and ?")
    parser.add_argument("effect", choices=("read", "write"), nargs="?", help="whether it only reads")
    parser.add_argument("--sensitivity", choices=("low", "medium", "high"), help="how much harm its data could do")
    parser.add_argument("--suggest", action="store_true", help="show what unclassified tools probably do")
    parser.add_argument(
        "--accept-suggestions", action="store_true", help="show which suggestions would be taken; with --yes, take them"
    )
    parser.add_argument("--yes", action="store_true", help="take the suggestions that are shown")
    parser.add_argument("--by", metavar="NAME", help="who says so (default: your user name)")
    parser.takes_output("table", "json", "csv")
    parser.runs(
        classify_tools,
        example="twinraven tools classify git__git_log read\n"
        "twinraven tools classify --accept-suggestions\n"
        "twinraven tools classify --accept-suggestions 'git__*' --yes",
    )


def classify_tools(options: Namespace) -> None:
    import asyncio

    from twinraven.catalog import Sensitivity
    from twinraven.cli.home import opened

    if [options.suggest, options.accept_suggestions, options.effect is not None].count(True) != 1:
        raise InvalidInput("give TOOL and read or write, or --suggest, or --accept-suggestions", field="arguments")
    if options.yes and not options.accept_suggestions:
        raise InvalidInput("--yes goes with --accept-suggestions", field="yes")
    sensitivity = None if options.sensitivity is None else Sensitivity(options.sensitivity)
    with opened(options) as raven:
        tools = raven.upstream_tools
        if options.accept_suggestions:
            rows, columns = asyncio.run(_accept(tools, options, sensitivity)), _TAKEN
        elif options.suggest:
            rows, columns = asyncio.run(_suggest(tools, options)), _SUGGESTED
        else:
            rows, columns = asyncio.run(_classify(tools, options, sensitivity)), _CLASSIFIED
    show_rows(options.output, rows, columns, empty=_NONE)
    if options.accept_suggestions and rows:
        _say_what_is_left(rows, done=options.yes)


async def _suggest(tools: UpstreamTools, options: Namespace) -> list[dict[str, Any]]:
    return [found.as_json() for found in await _suggestions(tools, options)]


async def _classify(tools: UpstreamTools, options: Namespace, sensitivity: Sensitivity | None) -> list[dict[str, Any]]:
    from twinraven.catalog import Effect

    wanted = matching([tool.tool_id for tool in await tools.listed(options.tenant)], options.tool)
    by = options.by or user_name()
    doubted = {one.tool_id: one for one in await tools.suggestions(options.tenant) if one.effect is Effect.WRITE}
    done = await tools.classify(options.tenant, wanted, Effect(options.effect), sensitivity=sensitivity, by=by)
    for tool_id in wanted if options.effect == "read" else ():
        if tool_id in doubted:
            told = f"{tool_id} is a read now, although {doubted[tool_id].because}"
            print(
                f"twinraven: warning: {told}; to take that back: twinraven tools classify {tool_id} write",
                file=sys.stderr,
            )
    return [tool.as_json() for tool in done]


async def _accept(tools: UpstreamTools, options: Namespace, sensitivity: Sensitivity | None) -> list[dict[str, Any]]:
    found = await _suggestions(tools, options)
    # Only a name without a wildcard is a decision about this very tool.
    wanted = [one for one in found if one.is_acceptable or (one.is_contradiction and one.tool_id == options.tool)]
    done = {one.tool_id for one in wanted}
    if options.yes and wanted:
        by = options.by or user_name()
        taken = await tools.accept_suggestions(options.tenant, wanted, sensitivity=sensitivity, by=by)
        done = {tool.tool_id for tool in taken}
    result = "classified" if options.yes else "would be classified"
    return [{**one.as_json(), "result": result if one.tool_id in done else "left out"} for one in found]


async def _suggestions(tools: UpstreamTools, options: Namespace) -> list[Suggestion]:
    found = await tools.suggestions(options.tenant)
    if options.tool is None:
        return found
    wanted = set(matching([tool.tool_id for tool in await tools.listed(options.tenant)], options.tool))
    return [one for one in found if one.tool_id in wanted]


def _say_what_is_left(rows: list[dict[str, Any]], *, done: bool) -> None:
    left = sum(row["result"] == "left out" for row in rows)
    words = [] if done else ["nothing was changed; add --yes to classify them"]
    if left:
        words.append(f"{left} left out: say of each what it does, as in: twinraven tools classify TOOL read")
    for line in words:
        print(line, file=sys.stderr)


def matching(known: list[str], pattern: str) -> list[str]:
    """Return the upstream tools that a name or a pattern with * and ? means."""
    from fnmatch import fnmatchcase

    found = [tool_id for tool_id in known if fnmatchcase(tool_id, pattern)]
    if not found:
        raise NotFound(f"no upstream tool {pattern!r}", fix="twinraven tools list")
    return found
