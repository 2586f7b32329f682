"""`twinraven keys`: API keys. One is printed once, when it is made; afterwards only its first characters are known."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import span
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.tenants import in_tenancy
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.tenancy import ApiKey, IssuedKey, Tenancy, User

_COLUMNS = (
    TableColumn("prefix", "BEGINS"),
    TableColumn("label", "LABEL", shrinks=True),
    TableColumn("user_id", "USER", spare=4),
    TableColumn("created_at", "MADE", text=short_time, spare=5),
    TableColumn("expires_at", "EXPIRES", text=short_time, spare=2),
    TableColumn("last_used_at", "USED", text=short_time, spare=3),
    TableColumn("revoked_at", "REVOKED", text=short_time, spare=1),
    TableColumn("key_id", "KEY"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven keys create alice --label laptop\ntwinraven keys create --agent planner")
    listing = parser.command("list", "which keys a tenant's users have, never the keys themselves")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_keys, example="twinraven keys list --output json")
    create = parser.command("create", "make a key for a user and print it, this once")
    create.add_argument("user", metavar="USER", nargs="?", help="whom it stands for, by id or by name")
    create.add_argument("--agent", metavar="NAME", help="an agent that it stands for, added if there is none")
    create.add_argument("--label", metavar="TEXT", default="", help="what it is for")
    create.add_argument("--expires-in", metavar="SPAN", type=span, help="how long it is good: 12h, 90d (default: ever)")
    create.takes_output("table", "json")
    create.runs(create_key, example="twinraven keys create alice --label laptop --expires-in 90d")
    revoke = parser.command("revoke", "make a key open nothing, from now on")
    revoke.add_argument("key", metavar="KEY", help="its id")
    revoke.takes_output("table", "json")
    revoke.runs(revoke_key, example="twinraven keys revoke 0198c0de-0000-7000-8000-000000000000")


def list_keys(options: Namespace) -> None:
    async def work(tenancy: Tenancy) -> list[ApiKey]:
        await tenancy.tenant(options.tenant)
        return await tenancy.keys(options.tenant)

    found = in_tenancy(options, work)
    show_rows(options.output, [key.as_json() for key in found], _COLUMNS, empty="no keys")


def create_key(options: Namespace) -> None:
    if (options.user is None) is (options.agent is None):
        raise InvalidInput("name either the USER or, with --agent, the agent that the key stands for", field="user")

    async def work(tenancy: Tenancy) -> IssuedKey:
        if options.agent is not None:
            user = await _find_agent(tenancy, options.tenant, options.agent)
        else:
            user = await _find_user(tenancy, options.tenant, options.user)
        return await tenancy.issue_key(options.tenant, user.user_id, label=options.label, expires_in=options.expires_in)

    issued = in_tenancy(options, work)
    show_fields(options.output, {"key": issued.clear, **issued.key.as_json()})
    if options.output == "table":
        print("keep it now: nobody can show this key again", file=sys.stderr)


def revoke_key(options: Namespace) -> None:
    in_tenancy(options, lambda tenancy: tenancy.revoke_key(options.tenant, options.key))
    show_fields(options.output, {"revoked": options.key})


async def _find_user(tenancy: Tenancy, tenant_id: str, ref: str) -> User:
    """By id, or by a name that only one user of the tenant has."""
    await tenancy.tenant(tenant_id)
    found = _named(await tenancy.users(tenant_id), ref)
    if found is None:
        raise NotFound(f"no user {ref!r}", id=ref, fix="twinraven users list")
    return found


async def _find_agent(tenancy: Tenancy, tenant_id: str, ref: str) -> User:
    """Find the agent of this id or name; one that is not there yet is added, as a member."""
    await tenancy.tenant(tenant_id)
    found = _named([user for user in await tenancy.users(tenant_id) if user.kind == "agent"], ref)
    return await tenancy.add_user(tenant_id, ref, kind="agent") if found is None else found


def _named(users: list[User], ref: str) -> User | None:
    found = [user for user in users if user.user_id == ref] or [user for user in users if user.name == ref]
    if len(found) > 1:
        raise InvalidInput(f"several users are named {ref!r}; use the id", field="user", fix="twinraven users list")
    return found[0] if found else None
