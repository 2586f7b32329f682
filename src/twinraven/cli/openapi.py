"""`twinraven services import-openapi`: an OpenAPI description becomes one service and a tool for each operation."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.definitions import add_user, read_text
from twinraven.cli.output import TableColumn, show_rows
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven

_COLUMNS = (
    TableColumn("action", "WHAT"),
    TableColumn("kind", "KIND"),
    TableColumn("name", "NAME"),
    TableColumn("effect", "EFFECT"),
    TableColumn("detail", "OPERATION OR REASON", shrinks=True),
)


def register_import(parser: CommandParser) -> None:
    parser.add_argument("source", metavar="FILE|URL", help="the description, in JSON or YAML; - reads it from stdin")
    parser.add_argument("--name", metavar="NAME", help="the service's name (default: the description's title)")
    parser.add_argument("--endpoint", metavar="URL", help="where to call it (default: what the description says)")
    parser.add_argument("--secret", metavar="NAME", help="a secret of one's own that opens it")
    parser.add_argument("--prefix", metavar="TEXT", default="", help="what to put before each tool's key")
    parser.add_argument("--dry-run", action="store_true", help="say what it would make, and make nothing")
    add_user(parser)
    parser.takes_output("table", "json", "csv")
    parser.runs(
        import_openapi, example="twinraven services import-openapi shop.yaml --name shop --prefix shop_ --dry-run"
    )


def import_openapi(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    is_address = options.source.startswith(("http://", "https://"))
    text = None if is_address else read_text(options.source)
    with opened(options) as raven:
        rows = asyncio.run(_import(raven, options, text))
    show_rows(options.output, told_as_trial(options, rows), _COLUMNS)


def told_as_trial(options: Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let a trial speak of what would be; programs get the plain action."""
    if not options.dry_run:
        return rows
    print("twinraven: note: a trial (--dry-run): nothing was changed", file=sys.stderr)
    if options.output != "table":
        return rows
    made = ("created", "updated")
    return [{**row, "action": f"would be {row['action']}"} if row["action"] in made else row for row in rows]


async def _import(raven: TwinRaven, options: Namespace, text: str | None) -> list[dict[str, Any]]:
    from twinraven.connectors import read_openapi
    from twinraven.tenancy import Principal

    document = await raven.services.fetch(options.tenant, options.source) if text is None else text
    found_at = options.source if text is None else None
    found = read_openapi(document, endpoint=options.endpoint, found_at=found_at)
    file = found.as_file(name=options.name, secret=options.secret, prefix=options.prefix)
    who = Principal(options.tenant, options.user, "member")
    done = await raven.defined.files.apply_file(who, file, is_new=True, is_trial=options.dry_run)
    told = {("service", str(file.services[0]["name"])): (None, found.connection_params["endpoint"])}
    told |= {("tool", str(body["key"])): _tool_told(body) for body in file.tools}
    rows = [_row(one.action, one.kind, one.name, *told[one.kind, one.name]) for one in done]
    rows += [_row("skipped", "tool", one.operation, None, one.reason) for one in found.skipped]
    parts = [_row("left out", "part", one.operation, None, f"{one.part} {one.reason}") for one in found.left_out]
    return rows + parts


def _tool_told(body: dict[str, Any]) -> tuple[str, str]:
    """Return what a tool does to the world, and its request."""
    from twinraven.catalog import read_operation

    operation = body["operation"]
    return read_operation(operation).effect.value, f"{operation['method']} {operation['path']}"


def _row(action: str, kind: str, name: str, effect: str | None, detail: str) -> dict[str, Any]:
    return {"action": action, "kind": kind, "name": name, "effect": effect, "detail": detail}
