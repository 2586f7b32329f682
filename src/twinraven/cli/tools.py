"""`twinraven tools`: what can be called."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from twinraven.cli.output import Column, encode_json, print_lines, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser

_COLUMNS = (
    Column("tool_id", "TOOL"),
    Column("effect", "EFFECT"),
    Column("effect_origin", "SAID BY"),
    Column("connector", "CONNECTOR"),
    Column("description", "DESCRIPTION", shrinks=True),
)

_NONE = "no tools; name the modules that declare them under tools.modules in twinraven.yaml"


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven tools list")
    _register_list(parser.command("list", "every tool of the catalogue"))
    _register_show(parser.command("show", "one tool with its schemas"))


def _register_list(parser: CommandParser) -> None:
    parser.takes_output("table", "json", "csv")
    parser.runs(list_tools, example="twinraven tools list --output json")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.takes_output("table", "json")
    parser.runs(show_tool, example="twinraven tools show get_order")


def list_tools(options: Namespace) -> None:
    from twinraven.cli.home import opened

    with opened(options) as raven:
        rows = [entry.as_json() for entry in raven.catalog.entries(options.tenant)]
    show_rows(options.output, rows, _COLUMNS, empty=_NONE)


def show_tool(options: Namespace) -> None:
    from twinraven.cli.home import opened

    with opened(options) as raven:
        fields = raven.catalog.find(options.tenant, options.tool).as_json()
    if options.output == "json":
        show_json(fields)
        return
    schemas: dict[str, Any] = {name: fields.pop(name) for name in ("input_schema", "output_schema")}
    show_fields("table", fields)
    for name, schema in schemas.items():
        if schema is not None:
            print_lines(["", name, *encode_json(schema, indent=True).decode().splitlines()])
