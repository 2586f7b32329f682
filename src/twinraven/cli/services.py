"""`twinraven services`: the endpoints that data-defined tools reach, and whole catalogues from files."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Any

from twinraven.cli.definitions import add_user, in_catalogue, read_object, read_text
from twinraven.cli.openapi import register_import, told_as_trial
from twinraven.cli.output import TableColumn, print_lines, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.catalog import DefinedCatalog, Service
    from twinraven.tenancy import Principal


def _listed(fields: list[str]) -> str:
    return ", ".join(fields) or "-"


_COLUMNS = (
    TableColumn("name", "SERVICE", shrinks=True),
    TableColumn("type", "TYPE"),
    TableColumn("protocol", "PROTOCOL", spare=1),
    TableColumn("status", "STATUS"),
    TableColumn("last_health_check", "CHECKED", text=short_time, spare=3),
    TableColumn("enabled", "ENABLED"),
    TableColumn("shared", "SHARED", spare=2),
    TableColumn("id", "ID", spare=4),
)
_APPLIED = (
    TableColumn("action", "WHAT"),
    TableColumn("kind", "KIND"),
    TableColumn("name", "NAME"),
    TableColumn("fields", "FIELDS", shrinks=True, text=_listed),
)
_SWITCHES: tuple[tuple[str, str, str, bool], ...] = (
    ("enable", "let tools use a service again", "enabled", True),
    ("disable", "keep every call away from a service", "enabled", False),
    ("share", "let everybody of the tenant use a service", "shared", True),
    ("unshare", "keep a service to oneself; tools of others on it stop", "shared", False),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven services apply catalogue.yaml\ntwinraven services list")
    _register_apply(parser.command("apply", "make the catalogue say what a file says"))
    register_import(parser.command("import-openapi", "make a service and its tools from an OpenAPI description"))
    export = parser.command("export", "write one's own services, tools and templates as a file")
    add_user(export)
    export.runs(export_file, example="twinraven services export")
    listing = parser.command("list", "list your services and shared ones")
    add_user(listing)
    listing.takes_output("table", "json", "csv")
    listing.runs(list_services, example="twinraven services list --output json")
    show = parser.command("show", "one service with its schema")
    _add_service(show)
    show.runs(show_service, example="twinraven services show shop")
    _register_create(parser.command("create", "make a service, from a template or from parts"))
    check = parser.command("check", "look whether services are there, now")
    check.add_argument("service", metavar="SERVICE", nargs="?", help="its name or id (default: all one's own)")
    add_user(check)
    check.takes_output("table", "json", "csv")
    check.runs(check_services, example="twinraven services check shop")
    for word, summary, field, value in _SWITCHES:
        switch = parser.command(word, summary)
        _add_service(switch)
        switch.runs(partial(change_service, field=field, value=value), example=f"twinraven services {word} shop")
    remove = parser.command("rm", "delete a service that no tool uses")
    _add_service(remove)
    remove.runs(remove_service, example="twinraven services rm shop")


def _register_apply(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML or JSON; - reads it from stdin")
    parser.add_argument("--dry-run", action="store_true", help="say what it would do, and change nothing")
    add_user(parser)
    parser.takes_output("table", "json", "csv")
    parser.runs(apply_file, example="twinraven services apply catalogue.yaml --dry-run")


def _register_create(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the service's name")
    parser.add_argument("--template", metavar="TEMPLATE", help="copy everything from this service template")
    parser.add_argument("--type", metavar="TYPE", help="neo4j_graph, rest_api, llm_provider or mcp_server")
    parser.add_argument("--protocol", metavar="PROTOCOL", help="bolt, bolt+s, http, https, stdio or sse")
    parser.add_argument("--schema", metavar="JSON", help="the connection schema, or @FILE")
    parser.add_argument("--requires-secret", action="store_true", help="whether tools need a secret")
    parser.add_argument("--shared", action="store_true", help="let everybody of the tenant use it")
    add_user(parser)
    parser.takes_output("table", "json")
    parser.runs(
        create_service,
        example="twinraven services create shop --type rest_api --protocol https --schema @connection.json",
    )


def _add_service(parser: CommandParser) -> None:
    parser.add_argument("service", metavar="SERVICE", help="its name or id")
    add_user(parser)
    parser.takes_output("table", "json")


def apply_file(options: Namespace) -> None:
    from twinraven.catalog import read_file

    file = read_file(read_text(options.file))
    done = in_catalogue(options, lambda catalogue, who: catalogue.files.apply_file(who, file, is_trial=options.dry_run))
    rows = told_as_trial(options, [one.as_json() for one in done])
    show_rows(options.output, rows, _APPLIED, empty="the file defines nothing")


def export_file(options: Namespace) -> None:
    file = in_catalogue(options, lambda catalogue, who: catalogue.files.export_file(who))
    print_lines(file.dump().splitlines())


def list_services(options: Namespace) -> None:
    found = in_catalogue(options, lambda catalogue, who: catalogue.services.services(who))
    empty = "no services; describe them in a file and run `twinraven services apply FILE`"
    show_rows(options.output, [service.as_json() for service in found], _COLUMNS, empty=empty)


def show_service(options: Namespace) -> None:
    service = in_catalogue(options, lambda catalogue, who: catalogue.services.service(who, options.service))
    show_fields(options.output, service.as_json())


def create_service(options: Namespace) -> None:
    stated = {"type": options.type, "protocol": options.protocol, "connection_schema": options.schema}
    if options.template is not None and any(value is not None for value in stated.values()):
        raise InvalidInput("a template fixes type, protocol and schema; leave them out", field="template")

    async def work(catalogue: DefinedCatalog, who: Principal) -> Service:
        from twinraven.catalog import ServiceSpec

        if options.template is not None:
            return await catalogue.templates.make_service(who, options.template, options.name, shared=options.shared)
        body: dict[str, Any] = {name: value for name, value in stated.items() if value is not None}
        if options.schema is not None:
            body["connection_schema"] = read_object(options.schema, "schema")
        flags = {"requires_secret": options.requires_secret, "shared": options.shared}
        return await catalogue.services.create(who, ServiceSpec.from_json({"name": options.name, **body, **flags}))

    show_fields(options.output, in_catalogue(options, work).as_json())


def check_services(options: Namespace) -> int:
    """Ends with 1 where something is down."""

    async def work(catalogue: DefinedCatalog, who: Principal) -> list[Service]:
        if options.service is not None:
            return [await catalogue.health.check_health(who, options.service)]
        own = [service for service in await catalogue.services.services(who) if service.owner_id == who.user_id]
        return [await catalogue.health.check_health(who, service.service_id) for service in own]

    found = in_catalogue(options, work)
    columns = (*_COLUMNS[:5], TableColumn("error_message", "WHY", shrinks=True))
    show_rows(options.output, [service.as_json() for service in found], columns, empty="no services to check")
    return int(any(service.status == "down" for service in found))


def change_service(options: Namespace, *, field: str, value: bool) -> None:
    from twinraven.catalog import ServiceChange

    change = ServiceChange.from_json({field: value})
    changed = in_catalogue(options, lambda catalogue, who: catalogue.services.update(who, options.service, change))
    show_fields(options.output, changed.as_json())


def remove_service(options: Namespace) -> None:
    in_catalogue(options, lambda catalogue, who: catalogue.services.delete(who, options.service))
    show_fields(options.output, {"removed": options.service})
