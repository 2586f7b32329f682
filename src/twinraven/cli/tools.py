"""`twinraven tools`: what can be called."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli import classify, defined_tools
from twinraven.cli.output import TableColumn, clean, encode_json, print_lines, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.people import user_name

if TYPE_CHECKING:
    from twinraven.connectors import PinnedTool, UpstreamTools

_COLUMNS = (
    TableColumn("tool_id", "TOOL"),
    TableColumn("effect", "EFFECT"),
    TableColumn("effect_origin", "SAID BY", spare=2),
    TableColumn("connector", "CONNECTOR", spare=3),
    TableColumn("callable", "CALLABLE"),
    TableColumn("reason", "WHY NOT", shrinks=True),
    TableColumn("description", "DESCRIPTION", shrinks=True),
)

_NONE = "no tools; name Python modules under tools.modules in twinraven.yaml, or MCP servers under mcpServers"


_ACCEPTED = (
    TableColumn("tool_id", "TOOL"),
    TableColumn("definition_hash", "DEFINITION", shrinks=True),
    TableColumn("effect", "EFFECT"),
)
_NOTHING_WAITS = "nothing waits to be accepted"


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven tools list")
    _register_list(parser.command("list", "every tool of the catalogue"))
    _register_show(parser.command("show", "one tool with its schemas"))
    classify.register(parser.command("classify", "say what an upstream server's tools do to the world"))
    _register_accept(parser.command("accept", "look at tools that describe themselves anew, and accept that"))
    defined_tools.register(parser)


def _register_list(parser: CommandParser) -> None:
    parser.takes_output("table", "json", "csv")
    parser.runs(list_tools, example="twinraven tools list --output json")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.takes_output("table", "json")
    parser.runs(show_tool, example="twinraven tools show get_order")


def _register_accept(parser: CommandParser) -> None:
    parser.add_argument(
        "tool", metavar="TOOL", nargs="?", help="the tool's id, may hold * and ?; without it, show what waits"
    )
    parser.add_argument("--by", metavar="NAME", help="who says so (default: your user name)")
    parser.takes_output("table", "json")
    parser.runs(accept_tools, example="twinraven tools accept\ntwinraven tools accept 'git__*'")


def list_tools(options: Namespace) -> None:
    from twinraven.cli.home import opened
    from twinraven.tenancy import LOCAL_USER

    with opened(options) as raven:
        rows = [
            _judged(entry.as_json(), raven.catalog.why_not(options.tenant, LOCAL_USER, entry))
            for entry in raven.catalog.visible(options.tenant, None)
        ]
    show_rows(options.output, rows, _COLUMNS, empty=_NONE)


def _judged(fields: dict[str, Any], why_not: str | None) -> dict[str, Any]:
    return {**fields, "callable": why_not is None, "reason": why_not}


def show_tool(options: Namespace) -> None:
    from twinraven.cli.home import opened
    from twinraven.tenancy import LOCAL_USER

    with opened(options) as raven:
        entry = raven.catalog.find(options.tenant, options.tool)
        fields = _judged(entry.as_json(), raven.catalog.why_not(options.tenant, LOCAL_USER, entry))
    if options.output == "json":
        show_json(fields)
        return
    schemas: dict[str, Any] = {name: fields.pop(name) for name in ("input_schema", "output_schema")}
    show_fields("table", fields)
    for name, schema in schemas.items():
        if schema is not None:
            print_lines(["", name, *encode_json(schema, indent=True).decode().splitlines()])


def accept_tools(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    async def accept(tools: UpstreamTools) -> list[PinnedTool]:
        listed = await tools.listed(options.tenant)
        wanted = classify.matching([tool.tool_id for tool in listed], options.tool)
        changed = {tool.tool_id for tool in listed if tool.changed is not None}
        by = options.by or user_name()
        return await tools.accept(options.tenant, [tool_id for tool_id in wanted if tool_id in changed], by=by)

    with opened(options) as raven:
        if options.tool is not None:
            done = asyncio.run(accept(raven.upstream_tools))
            if [tool.tool_id for tool in done] == [options.tool]:
                show_fields(options.output, done[0].as_json())
                return
            show_rows(options.output, [tool.as_json() for tool in done], _ACCEPTED, empty=_NOTHING_WAITS)
            return
        listed = asyncio.run(raven.upstream_tools.listed(options.tenant))
    waiting = [tool for tool in listed if tool.changed is not None]
    if options.output == "json":
        show_json([{**tool.as_json(), "before": tool.definition, "after": tool.changed} for tool in waiting])
        return
    print_lines([line for tool in waiting for line in _comparison(tool)] or [_NOTHING_WAITS])


def _comparison(tool: PinnedTool) -> list[str]:
    """Return what a tool said when it was accepted, and what it says now, line by line."""
    from difflib import unified_diff

    before, after = (encode_json(words, indent=True).decode().splitlines() for words in (tool.definition, tool.changed))
    changes = unified_diff(before, after, "accepted", "now", lineterm="")
    state = "in quarantine" if tool.is_quarantined else "offered with the accepted words"
    return [f"{tool.tool_id} ({state})", *(f"  {clean(line)}" for line in changes), ""]
