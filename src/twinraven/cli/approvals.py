"""`twinraven approvals`: lists calls that wait for an approval, and decides them.

Whoever sits at the machine decides as the tenant's administrator, under the name they are logged in with.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.tenancy import Principal

_STATES = ("pending", "granted", "denied", "expired", "used")
_COLUMNS = (
    TableColumn("approval_id", "APPROVAL"),
    TableColumn("state", "STATE", tinted=True),
    TableColumn("tool_id", "TOOL", shrinks=True),
    TableColumn("arguments", "ARGUMENTS", shrinks=True),
    TableColumn("requested_by", "ASKED BY", shrinks=True, spare=3),
    TableColumn("requested_at", "ASKED", text=short_time, spare=2),
    TableColumn("expires_at", "EXPIRES", text=short_time, spare=4),
    TableColumn("reason", "WHY", shrinks=True, spare=5),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven approvals list --state pending\ntwinraven approvals grant APPROVAL --note checked")
    listing = parser.command("list", "what was asked for, the newest first")
    listing.add_argument("--state", choices=_STATES, help="only those in this state")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_approvals, example="twinraven approvals list --state pending")
    show = parser.command("show", "one request with all that is known of it")
    _add_id(show)
    show.runs(show_approval, example="twinraven approvals show 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e --output json")
    grant = parser.command("grant", "let the call run, once")
    _add_id(grant)
    _add_note(grant)
    grant.runs(grant_approval, example="twinraven approvals grant 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e --note checked")
    deny = parser.command("deny", "refuse the call; who makes it again reads the note")
    _add_id(deny)
    _add_note(deny)
    deny.runs(deny_approval, example="twinraven approvals deny 5f1c9e0b7a3d4c2e8f60719a2b3c4d5e --note duplicate")


def _add_id(parser: CommandParser) -> None:
    parser.add_argument("approval", metavar="APPROVAL", help="the request's id, or the beginning of it")
    parser.takes_output("table", "json")


def _add_note(parser: CommandParser) -> None:
    parser.add_argument("--note", metavar="TEXT", default="", help="why; it is kept with the decision")


def list_approvals(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        found = asyncio.run(raven.approvals.list(options.tenant, state=options.state, limit=options.limit))
    show_rows(options.output, [approval.as_json() for approval in found], _COLUMNS, empty="no approvals")


def show_approval(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        approval = asyncio.run(raven.approvals.get(options.tenant, _whole_id(raven, options)))
    show_fields(options.output, approval.as_json())


def grant_approval(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        approval_id = _whole_id(raven, options)
        granting = raven.approvals.grant(options.tenant, approval_id, by=_operator(options), note=options.note)
        approval = asyncio.run(granting)
    show_fields(options.output, approval.as_json())


def deny_approval(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        approval_id = _whole_id(raven, options)
        denying = raven.approvals.deny(options.tenant, approval_id, by=_operator(options), note=options.note)
        approval = asyncio.run(denying)
    show_fields(options.output, approval.as_json())


def _whole_id(raven: TwinRaven, options: Namespace) -> str:
    import asyncio

    from twinraven.cli.short_ids import LOOKED_AT, complete_id, is_whole

    if is_whole(options.approval):
        return options.approval
    newest = asyncio.run(raven.approvals.list(options.tenant, limit=LOOKED_AT))
    return complete_id(options.approval, (each.approval_id for each in newest), what="approval")


def _operator(options: Namespace) -> Principal:
    from twinraven.cli.people import user_name
    from twinraven.tenancy import Principal

    return Principal(options.tenant, user_name(), "admin")
