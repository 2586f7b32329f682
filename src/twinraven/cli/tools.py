"""`twinraven tools`: what can be called."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli import defined_tools
from twinraven.cli.output import Column, clean, encode_json, print_lines, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.people import user_name
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.connectors import PinnedTool, UpstreamTools

_COLUMNS = (
    Column("tool_id", "TOOL"),
    Column("effect", "EFFECT"),
    Column("effect_origin", "SAID BY"),
    Column("connector", "CONNECTOR"),
    Column("callable", "CALLABLE"),
    Column("reason", "WHY NOT", shrinks=True),
    Column("description", "DESCRIPTION", shrinks=True),
)

_SUGGESTED = (
    Column("tool_id", "TOOL"),
    Column("effect", "PROBABLY"),
    Column("because", "BECAUSE", shrinks=True),
)
_CLASSIFIED = (
    Column("tool_id", "TOOL"),
    Column("effect", "EFFECT"),
    Column("sensitivity", "SENSITIVITY"),
    Column("classified_by", "SAID BY"),
)

_NONE = "no tools; name the modules that declare them under tools.modules in twinraven.yaml"


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven tools list")
    _register_list(parser.command("list", "every tool of the catalogue"))
    _register_show(parser.command("show", "one tool with its schemas"))
    _register_classify(parser.command("classify", "say what an upstream server's tools do to the world"))
    _register_accept(parser.command("accept", "look at tools that describe themselves anew, and let them back in"))
    defined_tools.register(parser)


def _register_list(parser: CommandParser) -> None:
    parser.takes_output("table", "json", "csv")
    parser.runs(list_tools, example="twinraven tools list --output json")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.takes_output("table", "json")
    parser.runs(show_tool, example="twinraven tools show get_order")


def _register_classify(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the tool's id; names may hold * and ?")
    parser.add_argument("effect", choices=("read", "write"), nargs="?", help="whether it only reads")
    parser.add_argument("--sensitivity", choices=("low", "medium", "high"), help="how much harm its data could do")
    parser.add_argument("--suggest", action="store_true", help="show what unclassified tools probably do")
    parser.add_argument("--by", metavar="NAME", help="who says so (default: your user name)")
    parser.takes_output("table", "json", "csv")
    parser.runs(
        classify_tools, example="twinraven tools classify --suggest\ntwinraven tools classify git__git_log read"
    )


def _register_accept(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the tool's id; without it, show what waits")
    parser.add_argument("--by", metavar="NAME", help="who says so (default: your user name)")
    parser.takes_output("table", "json")
    parser.runs(accept_tool, example="twinraven tools accept\ntwinraven tools accept git__git_log")


def list_tools(options: Namespace) -> None:
    from twinraven.cli.home import opened
    from twinraven.tenancy import LOCAL_USER

    with opened(options) as raven:
        defined = raven.defined.source
        found = defined.visible(options.tenant, None)
        found |= {entry.tool_id: entry for entry in raven.catalog.entries(options.tenant)}
        rows = [
            _judged(found[tool_id].as_json(), defined.why_not(options.tenant, LOCAL_USER, tool_id))
            for tool_id in sorted(found)
        ]
    show_rows(options.output, rows, _COLUMNS, empty=_NONE)


def _judged(fields: dict[str, Any], why_not: str | None) -> dict[str, Any]:
    return {**fields, "callable": why_not is None, "reason": why_not}


def show_tool(options: Namespace) -> None:
    from twinraven.cli.home import opened
    from twinraven.tenancy import LOCAL_USER

    with opened(options) as raven:
        fields = _judged(
            raven.catalog.find(options.tenant, options.tool).as_json(),
            raven.defined.source.why_not(options.tenant, LOCAL_USER, options.tool),
        )
    if options.output == "json":
        show_json(fields)
        return
    schemas: dict[str, Any] = {name: fields.pop(name) for name in ("input_schema", "output_schema")}
    show_fields("table", fields)
    for name, schema in schemas.items():
        if schema is not None:
            print_lines(["", name, *encode_json(schema, indent=True).decode().splitlines()])


def classify_tools(options: Namespace) -> None:
    import asyncio

    from twinraven.catalog import Effect, Sensitivity
    from twinraven.cli.home import opened

    if options.suggest == (options.effect is not None):
        raise InvalidInput("give TOOL and read or write, or --suggest", field="arguments")
    sensitivity = None if options.sensitivity is None else Sensitivity(options.sensitivity)

    async def work(tools: UpstreamTools) -> list[dict[str, Any]]:
        if options.suggest:
            return [
                {"tool_id": found.tool_id, "effect": found.effect.value, "because": found.because}
                for found in await tools.suggestions(options.tenant)
            ]
        wanted = _matching([tool.tool_id for tool in await tools.listed(options.tenant)], options.tool)
        by = options.by or user_name()
        done = await tools.classify(options.tenant, wanted, Effect(options.effect), sensitivity=sensitivity, by=by)
        return [tool.as_json() for tool in done]

    with opened(options) as raven:
        rows = asyncio.run(work(raven.upstream_tools))
    show_rows(options.output, rows, _SUGGESTED if options.suggest else _CLASSIFIED, empty="nothing to classify")


def accept_tool(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        if options.tool is not None:
            by = options.by or user_name()
            done = asyncio.run(raven.upstream_tools.accept(options.tenant, options.tool, by=by))
            show_fields(options.output, done.as_json())
            return
        listed = asyncio.run(raven.upstream_tools.listed(options.tenant))
    waiting = [tool for tool in listed if tool.changed is not None]
    if options.output == "json":
        show_json([{**tool.as_json(), "before": tool.definition, "after": tool.changed} for tool in waiting])
        return
    print_lines([line for tool in waiting for line in _comparison(tool)] or ["nothing waits to be accepted"])


def _comparison(tool: PinnedTool) -> list[str]:
    """What a tool said when it was accepted, and what it says now, line by line."""
    from difflib import unified_diff

    before, after = (encode_json(words, indent=True).decode().splitlines() for words in (tool.definition, tool.changed))
    changes = unified_diff(before, after, "accepted", "now", lineterm="")
    return [tool.tool_id, *(f"  {clean(line)}" for line in changes), ""]


def _matching(known: list[str], pattern: str) -> list[str]:
    from fnmatch import fnmatchcase

    found = [tool_id for tool_id in known if fnmatchcase(tool_id, pattern)]
    if not found:
        raise NotFound(f"no upstream tool {pattern!r}", fix="twinraven tools list")
    return found
