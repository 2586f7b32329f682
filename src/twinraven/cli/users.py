"""`twinraven users`: the people and programs inside a tenant, and what each may do there."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.output import Column, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.tenants import in_tenancy
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.tenancy import Tenancy, User

ROLES = ("member", "approver", "admin")
KINDS = ("person", "agent")

_COLUMNS = (
    Column("name", "NAME", shrinks=True),
    Column("kind", "KIND"),
    Column("role", "ROLE"),
    Column("active", "ACTIVE"),
    Column("created_at", "SINCE", text=short_time),
    Column("user_id", "USER"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven users add alice --role admin\ntwinraven users list")
    listing = parser.command("list", "who belongs to a tenant")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_users, example="twinraven users list --output json")
    add = parser.command("add", "let somebody into a tenant")
    add.add_argument("name", metavar="NAME", help="a name for people")
    add.add_argument("--role", choices=ROLES, default="member", help="what they may do (default: member)")
    add.add_argument(
        "--kind", choices=KINDS, default="person", help="as what their acts are recorded, for good (default: person)"
    )
    add.takes_output("table", "json")
    add.runs(add_user, example="twinraven users add alice --role admin --tenant default")


def list_users(options: Namespace) -> None:
    async def work(tenancy: Tenancy) -> list[User]:
        await tenancy.tenant(options.tenant)
        return await tenancy.users(options.tenant)

    found = in_tenancy(options, work)
    empty = "no users; add one with `twinraven users add NAME`"
    show_rows(options.output, [user.as_json() for user in found], _COLUMNS, empty=empty)


def add_user(options: Namespace) -> None:
    made = in_tenancy(
        options, lambda tenancy: tenancy.add_user(options.tenant, options.name, role=options.role, kind=options.kind)
    )
    show_fields(options.output, made.as_json())
