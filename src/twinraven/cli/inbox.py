"""`twinraven inbox`: everything that waits for a person, and deciding it.

Whoever sits at the machine decides as the tenant's administrator, under the name they are logged in with.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twinraven.cli.output import Column, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.inbox import Inbox
    from twinraven.tenancy import Principal

T = TypeVar("T")

_KINDS = (
    "call", "question", "unknown_step", "learned_tool", "changed_tool", "duplicate", "judgement", "unknown_effect",
)  # fmt: skip
_COLUMNS = (
    Column("item_id", "ITEM"),
    Column("what", "WHAT WILL HAPPEN", shrinks=True),
    Column("why", "WHY YOU", shrinks=True),
    Column("asked_at", "ASKED", text=short_time),
    Column("expires_at", "EXPIRES", text=short_time),
    Column("hash", "HASH"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven inbox list\ntwinraven inbox decide ITEM approve --hash HASH")
    listing = parser.command("list", "what waits for a decision, the oldest first")
    listing.add_argument("--kind", choices=_KINDS, help="only items of this kind")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_inbox, example="twinraven inbox list --kind call")
    show = parser.command("show", "one item with its evidence and what can be decided")
    _add_item(show)
    show.runs(show_item, example="twinraven inbox show call:5f1c9e0b7a3d4c2e8f60719a2b3c4d5e --output json")
    decide = parser.command("decide", "decide an item exactly as it was shown")
    _add_item(decide)
    decide.add_argument("choice", metavar="CHOICE", help="one of the item's choices, such as approve")
    decide.add_argument(
        "--hash", metavar="HASH", required=True, help="at least 12 characters of the hash that was shown"
    )
    decide.add_argument("--note", metavar="TEXT", default="", help="why; it is kept with the decision")
    decide.add_argument("--answer", metavar="JSON", help="the answer, for choices that need one")
    decide.runs(
        decide_item,
        example="twinraven inbox decide call:5f1c9e0b7a3d4c2e8f60719a2b3c4d5e approve --hash 3fa9c1d2e4b5",
    )


def _add_item(parser: CommandParser) -> None:
    parser.add_argument("item", metavar="ITEM", help="the item's id, as `list` prints it")
    parser.takes_output("table", "json")


def list_inbox(options: Namespace) -> None:
    found = _asked(options, lambda inbox, by: inbox.list(by=by, kind=options.kind))
    rows = [item.as_json() for item in found]
    if options.output == "table":
        rows = [{**row, "hash": row["bound_to"][:12]} for row in rows]
    show_rows(options.output, rows, _COLUMNS, empty="nothing waits for a decision")


def show_item(options: Namespace) -> None:
    item = _asked(options, lambda inbox, by: inbox.get(options.item, by=by))
    show_fields(options.output, item.as_json())


def decide_item(options: Namespace) -> None:
    from twinraven.foundation.canonical import parse_json
    from twinraven.inbox import InboxAnswer

    answer = None if options.answer is None else parse_json(options.answer, field="answer")
    said = InboxAnswer(options.choice, options.hash, options.note, answer)
    item = _asked(options, lambda inbox, by: inbox.decide(options.item, said, by=by))
    show_fields(options.output, item.as_json())


def _asked(options: Namespace, ask: Callable[[Inbox, Principal], Coroutine[Any, Any, T]]) -> T:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name
    from twinraven.tenancy import Principal

    with opened(options) as raven:
        return asyncio.run(ask(raven.inbox, Principal(options.tenant, user_name(), "admin")))
