"""`twinraven tools`, for tools that are data: made from a template, looked at, switched, shared, deleted.

A tool that is described in full comes from a file: `twinraven services apply FILE`.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from twinraven.cli.definitions import add_user, in_catalogue, read_object
from twinraven.cli.output import show_fields
from twinraven.cli.parser import CommandParser

_SWITCHES: tuple[tuple[str, str, str, bool], ...] = (
    ("enable", "let a data-defined tool be called again", "enabled", True),
    ("disable", "keep every call away from a data-defined tool", "enabled", False),
    ("share", "show a data-defined tool to everybody of the tenant", "shared", True),
    ("unshare", "keep a data-defined tool to oneself", "shared", False),
)


def register(parser: CommandParser) -> None:
    """Add these to the commands of `twinraven tools`."""
    _register_create(parser.command("create", "make a data-defined tool from a template"))
    show = parser.command("definition", "how a data-defined tool is defined, and how it is")
    _add_tool(show)
    show.runs(show_definition, example="twinraven tools definition get_order --output json")
    for word, summary, field, value in _SWITCHES:
        switch = parser.command(word, summary)
        _add_tool(switch)
        switch.runs(partial(change_tool, field=field, value=value), example=f"twinraven tools {word} get_order")
    remove = parser.command("rm", "delete a data-defined tool that no step calls")
    _add_tool(remove)
    remove.runs(remove_tool, example="twinraven tools rm get_order")


def _register_create(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the key it will be called by")
    parser.add_argument("--template", metavar="TEMPLATE", required=True, help="the tool template to copy")
    parser.add_argument("--service", metavar="SERVICE", required=True, help="where it runs, by name or id")
    parser.add_argument("--params", metavar="JSON", default="{}", help="connection parameters, or @FILE")
    parser.add_argument("--secret", metavar="NAME", help="a secret of one's own")
    parser.add_argument("--name", metavar="NAME", help="a label for people (default: the key)")
    parser.add_argument("--shared", action="store_true", help="show it to everybody of the tenant")
    add_user(parser)
    parser.takes_output("table", "json")
    parser.runs(
        create_tool,
        example="twinraven tools create get_order --template order-reader --service shop --params @shop.json",
    )


def _add_tool(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="its key or id")
    add_user(parser)
    parser.takes_output("table", "json")


def create_tool(options: Namespace) -> None:
    from twinraven.catalog import ToolPlacement

    placement = ToolPlacement(
        options.tool,
        options.service,
        name=options.name,
        connection_params=read_object(options.params, "params"),
        secret=options.secret,
        shared=options.shared,
    )
    made = in_catalogue(options, lambda catalogue, who: catalogue.templates.make_tool(who, options.template, placement))
    show_fields(options.output, made.as_json())


def show_definition(options: Namespace) -> None:
    tool = in_catalogue(options, lambda catalogue, who: catalogue.tools.tool(who, options.tool))
    show_fields(options.output, tool.as_json())


def change_tool(options: Namespace, *, field: str, value: bool) -> None:
    from twinraven.catalog import ToolChange

    change = ToolChange.from_json({field: value})
    changed = in_catalogue(options, lambda catalogue, who: catalogue.tools.update(who, options.tool, change))
    show_fields(options.output, changed.as_json())


def remove_tool(options: Namespace) -> None:
    in_catalogue(options, lambda catalogue, who: catalogue.tools.delete(who, options.tool))
    show_fields(options.output, {"removed": options.tool})
