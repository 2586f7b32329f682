"""`twinraven inbox`: everything that waits for a person, and deciding it.

Whoever sits at the machine decides as the tenant's administrator, under the name they are logged in with.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twinraven.cli.nested import show_nested
from twinraven.cli.output import TableColumn, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.inbox import Inbox, InboxItem
    from twinraven.tenancy import Principal

T = TypeVar("T")

_KINDS = (
    "call", "question", "unknown_step", "learned_tool", "changed_tool", "duplicate", "judgement", "unknown_effect",
)  # fmt: skip
_COLUMNS = (
    TableColumn("item_id", "ITEM"),
    TableColumn("what", "WHAT WILL HAPPEN", shrinks=True),
    TableColumn("why", "WHY YOU", shrinks=True, spare=2),
    TableColumn("asked_at", "ASKED", text=short_time, spare=4),
    TableColumn("expires_at", "EXPIRES", text=short_time, spare=3),
    TableColumn("hash", "HASH"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven inbox list\ntwinraven inbox decide call:5f1c9e0b approve --hash 3fa9c1d2e4b5")
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
        "--hash",
        type=_shown_hash,
        metavar="HASH",
        required=True,
        help="at least 12 characters of its hash: HASH of `list`, bound_to of `show`",
    )
    decide.add_argument("--note", metavar="TEXT", default="", help="why; it is kept with the decision")
    decide.add_argument("--answer", metavar="JSON", help="the answer, for choices that need one")
    decide.runs(
        decide_item,
        example="twinraven inbox decide call:5f1c9e0b approve --hash 3fa9c1d2e4b5",
    )


def _add_item(parser: CommandParser) -> None:
    parser.add_argument("item", metavar="ITEM", help="the item's id, or the beginning of it, with or without its kind")
    parser.takes_output("table", "json")


def _shown_hash(text: str) -> str:
    """Check that a decision repeats enough of the hash, before anything is opened."""
    from argparse import ArgumentTypeError

    from twinraven.inbox import SHORTEST_HASH

    if len(text) < SHORTEST_HASH:
        raise ArgumentTypeError(f"repeat at least {SHORTEST_HASH} characters of the hash that `inbox list` shows")
    return text


def list_inbox(options: Namespace) -> None:
    found = _asked(options, lambda inbox, by: inbox.list(by=by, kind=options.kind))
    rows = [item.as_json() for item in found]
    if options.output == "table":
        rows = [{**row, "hash": row["bound_to"][:12]} for row in rows]
    show_rows(options.output, rows, _COLUMNS, empty="nothing waits for a decision")


def show_item(options: Namespace) -> None:

    async def get(inbox: Inbox, by: Principal) -> InboxItem:
        return await inbox.get(await _whole_id(inbox, options.item, by), by=by)

    item = _asked(options, get)
    show_nested(options.output, item.as_json())


def decide_item(options: Namespace) -> None:
    from twinraven.foundation.canonical import parse_json
    from twinraven.inbox import InboxAnswer

    answer = None if options.answer is None else parse_json(options.answer, field="answer")
    said = InboxAnswer(options.choice, options.hash, options.note, answer)

    async def decide(inbox: Inbox, by: Principal) -> InboxItem:
        return await inbox.decide(await _whole_id(inbox, options.item, by), said, by=by)

    show_nested(options.output, _asked(options, decide).as_json())


async def _whole_id(inbox: Inbox, given: str, by: Principal) -> str:
    """Complete the beginning of an item's id, or of what stands behind its kind, among what waits."""
    from twinraven.cli.short_ids import complete_id, is_whole

    if is_whole(given.partition(":")[2]):
        return given
    waiting = await inbox.list(by=by)
    refs = {item.ref: item.item_id for item in waiting}
    whole = complete_id(given, [*refs, *refs.values()], what="item")
    return refs.get(whole, whole)


def _asked(options: Namespace, ask: Callable[[Inbox, Principal], Coroutine[Any, Any, T]]) -> T:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name
    from twinraven.tenancy import Principal

    with opened(options) as raven:
        return asyncio.run(ask(raven.inbox, Principal(options.tenant, user_name(), "admin")))
