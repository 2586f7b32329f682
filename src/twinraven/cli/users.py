"""`twinraven users`: the people and programs inside a tenant, and what each may do there."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser, Run
from twinraven.cli.tenants import in_tenancy
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.tenancy import Role, Tenancy, User

ROLES = ("member", "viewer", "approver", "admin")
KINDS = ("person", "agent")

_COLUMNS = (
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("kind", "KIND", spare=1),
    TableColumn("role", "ROLE"),
    TableColumn("active", "ACTIVE"),
    TableColumn("created_at", "SINCE", text=short_time, spare=2),
    TableColumn("user_id", "USER"),
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
    role = parser.command("role", "give a user another role")
    _register_change(role, change_role, example="twinraven users role alice approver")
    role.add_argument("role", choices=ROLES, help="what they may do from now on")
    disable = parser.command("disable", "shut a user out: their keys open nothing; what they did stays recorded")
    _register_change(disable, disable_user, example="twinraven users disable alice")
    enable = parser.command("enable", "let a user in again who was shut out")
    _register_change(enable, enable_user, example="twinraven users enable alice")


def _register_change(parser: CommandParser, run: Run, *, example: str) -> None:
    parser.add_argument("user", metavar="USER", help="the name or the id, or the beginning of the id")
    parser.takes_output("table", "json")
    parser.runs(run, example=example)


def change_role(options: Namespace) -> None:
    _change(options, role=options.role)


def disable_user(options: Namespace) -> None:
    _change(options, active=False)


def enable_user(options: Namespace) -> None:
    _change(options, active=True)


def _change(options: Namespace, *, role: Role | None = None, active: bool | None = None) -> None:
    async def work(tenancy: Tenancy) -> User:
        user = _named(await tenancy.users(options.tenant), options.user)
        return await tenancy.change_user(options.tenant, user.user_id, role=role, active=active)

    show_fields(options.output, in_tenancy(options, work).as_json())


def _named(users: list[User], given: str) -> User:
    """Return the user with this name or id; a name that several have is refused."""
    from twinraven.cli.short_ids import complete_id

    called = [user for user in users if user.name == given]
    if len(called) > 1:
        ids = ", ".join(user.user_id for user in called)
        raise InvalidInput(f"{len(called)} users are called {given!r}: {ids}; give the id", field="user")
    if called:
        return called[0]
    known = {user.user_id: user for user in users}
    whole = complete_id(given, known, what="user")
    if whole not in known:
        raise NotFound(f"no user {given!r}", fix="twinraven users list", user_id=given)
    return known[whole]


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
