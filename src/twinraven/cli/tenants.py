"""`twinraven tenants`: isolated customers or teams. These commands are the operator's, above all tenants."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.tenancy import Tenancy

T = TypeVar("T")

_COLUMNS = (
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("created_at", "SINCE", text=short_time),
    TableColumn("tenant_id", "TENANT"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven tenants create acme\ntwinraven tenants list")
    listing = parser.command("list", "every tenant, with its id")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_tenants, example="twinraven tenants list --output json")
    create = parser.command("create", "make a tenant, without users yet")
    create.add_argument("name", metavar="NAME", help="a name for people; commands take the id that this prints")
    create.takes_output("table", "json")
    create.runs(create_tenant, example="twinraven tenants create acme")
    show = parser.command("show", "one tenant with the number of its users and keys in force")
    show.add_argument("id", metavar="TENANT", help="its id")
    show.takes_output("table", "json")
    show.runs(show_tenant, example="twinraven tenants show default")


def in_tenancy(options: Namespace, ask: Callable[[Tenancy], Coroutine[Any, Any, T]]) -> T:
    """Do something with the tenants, users and keys of the home."""
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        return asyncio.run(ask(raven.tenancy))


def list_tenants(options: Namespace) -> None:
    found = in_tenancy(options, lambda tenancy: tenancy.tenants())
    show_rows(options.output, [tenant.as_json() for tenant in found], _COLUMNS, empty="no tenants")


def create_tenant(options: Namespace) -> None:
    made = in_tenancy(options, lambda tenancy: tenancy.create_tenant(options.name))
    show_fields(options.output, made.as_json())


def show_tenant(options: Namespace) -> None:
    async def work(tenancy: Tenancy) -> dict[str, Any]:
        tenant = await tenancy.tenant(options.id)
        users, keys = await tenancy.users(options.id), await tenancy.keys(options.id)
        in_force = sum(tenancy.is_in_force(key) for key in keys)
        return {**tenant.as_json(), "users": sum(user.active for user in users), "keys": in_force}

    show_fields(options.output, in_tenancy(options, work))
