"""`twinraven templates`: blueprints of services and tools."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from twinraven.cli.definitions import add_user, in_catalogue
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.catalog import DefinedCatalog, Template
    from twinraven.tenancy import Principal

_COLUMNS = (
    TableColumn("kind", "OF"),
    TableColumn("name", "TEMPLATE"),
    TableColumn("description", "DESCRIPTION", shrinks=True),
    TableColumn("shared", "SHARED", spare=1),
    TableColumn("archived", "ARCHIVED", spare=2),
    TableColumn("created_at", "MADE", text=short_time, spare=3),
    TableColumn("id", "ID", spare=4),
)
_SWITCHES: tuple[tuple[str, str, str, bool], ...] = (
    ("archive", "take a template out of lists; what was made from it stays", "archived", True),
    ("unarchive", "bring an archived template back", "archived", False),
    ("share", "let everybody of the tenant use a template", "shared", True),
    ("unshare", "keep a template to oneself", "shared", False),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven templates list\ntwinraven services create shop --template web-shop")
    listing = parser.command("list", "one's own templates and those that are shared")
    listing.add_argument("--kind", choices=("service", "tool"), help="only templates of these")
    listing.add_argument("--include-archived", action="store_true", help="archived ones too")
    add_user(listing)
    listing.takes_output("table", "json", "csv")
    listing.runs(list_templates, example="twinraven templates list --include-archived")
    show = parser.command("show", "one template, archived or not")
    _add_template(show)
    show.runs(show_template, example="twinraven templates show service web-shop")
    rename = parser.command("rename", "give a template another name or description")
    _add_template(rename)
    rename.add_argument("--name", metavar="NAME", help="the new name")
    rename.add_argument("--description", metavar="TEXT", help="the new description")
    rename.runs(rename_template, example="twinraven templates rename service web-shop --name store")
    for word, summary, field, value in _SWITCHES:
        switch = parser.command(word, summary)
        _add_template(switch)
        example = f"twinraven templates {word} service web-shop"
        switch.runs(partial(change_template, field=field, value=value), example=example)


def _add_template(parser: CommandParser) -> None:
    parser.add_argument("kind", choices=("service", "tool"), help="what it is a template of")
    parser.add_argument("template", metavar="TEMPLATE", help="its id, or its name if it is one's own")
    add_user(parser)
    parser.takes_output("table", "json")


def list_templates(options: Namespace) -> None:
    async def work(catalogue: DefinedCatalog, who: Principal) -> list[Template]:
        services, tools = [
            await catalogue.templates.templates(who, kind, include_archived=options.include_archived)
            for kind in ("service", "tool")
        ]
        return [template for template in (*services, *tools) if options.kind in (None, template.kind)]

    found = in_catalogue(options, work)
    empty = "no templates; describe them in a file and run `twinraven services apply FILE`"
    show_rows(options.output, [template.as_json() for template in found], _COLUMNS, empty=empty)


def show_template(options: Namespace) -> None:
    found = in_catalogue(
        options, lambda catalogue, who: catalogue.templates.template(who, options.kind, options.template)
    )
    show_fields(options.output, found.as_json())


def rename_template(options: Namespace) -> None:
    stated = {"name": options.name, "description": options.description}
    _change(options, {name: value for name, value in stated.items() if value is not None})


def change_template(options: Namespace, *, field: str, value: bool) -> None:
    _change(options, {field: value})


def _change(options: Namespace, stated: dict[str, object]) -> None:
    from twinraven.catalog import TemplateChange

    change = TemplateChange.from_json(stated)
    changed = in_catalogue(
        options, lambda catalogue, who: catalogue.templates.update(who, options.kind, options.template, change)
    )
    show_fields(options.output, changed.as_json())
