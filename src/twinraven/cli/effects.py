"""`twinraven effects`: publish, send and pay for tasks that were approved, and see what became of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.tenancy import Principal

T = TypeVar("T")

_KINDS = ("publish", "message", "transaction")
_COLUMNS = (
    TableColumn("effect_id", "EFFECT"),
    TableColumn("status", "STATUS", tinted=True),
    TableColumn("to", "TO", shrinks=True),
    TableColumn("task_id", "TASK", shrinks=True, spare=3),
    TableColumn("idempotency_key", "KEY", shrinks=True, spare=5),
    TableColumn("attempts", "TRIES", right=True, spare=4),
    TableColumn("updated_at", "CHANGED", text=short_time, spare=2),
)


def register(parser: CommandParser) -> None:
    parser.show_example(
        "twinraven effects publish TASK blog 'Spring is here' --key post-1\ntwinraven effects list publish"
    )
    publish = parser.command("publish", "publish on a channel, for a task that was approved")
    _add_task(publish, "channel")
    publish.add_argument("text", metavar="TEXT", help="what is published")
    publish.add_argument("--asset", metavar="ASSET", help="a media asset that goes with it")
    publish.add_argument("--disclosure", metavar="TEXT", help="words that tell readers how it was made")
    _add_sending(publish)
    publish.runs(publish_text, example="twinraven effects publish 5f0c… blog 'Spring is here' --key post-1")
    message = parser.command("message", "send a message, for a task that was approved")
    _add_task(message, "channel")
    message.add_argument("recipient", metavar="RECIPIENT", help="to whom")
    message.add_argument("text", metavar="TEXT", help="what is said")
    _add_sending(message)
    message.runs(send_message, example="twinraven effects message 5f0c… mail ann@example.com Hello --key mail-1")
    pay = parser.command("pay", "pay out of a wallet, for a task that was approved")
    _add_task(pay, "wallet")
    pay.add_argument("amount", metavar="AMOUNT", help="decimal text, such as 12.50")
    pay.add_argument("currency", metavar="CURRENCY", help="three letters, such as EUR")
    pay.add_argument("counterparty", metavar="TO", help="who is paid")
    pay.add_argument("--description", metavar="TEXT", default="", help="what for")
    pay.add_argument("--budget", metavar="BUDGET", help="the budget it is spent from")
    pay.add_argument("--key", metavar="KEY", required=True, help="under which it happens once")
    pay.takes_output("table", "json")
    pay.runs(pay_amount, example="twinraven effects pay 5f0c… 81aa… 12.50 EUR printer --key invoice-7")
    _register_reading(parser)


def _register_reading(parser: CommandParser) -> None:
    listing = parser.command("list", "effects of a kind, and how they stand")
    listing.add_argument("kind", choices=_KINDS, help="which kind")
    listing.add_argument("--status", metavar="STATUS", help="only those that stand so")
    listing.add_argument("--task", metavar="TASK", help="only those of this task")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_effects, example="twinraven effects list transaction --status unknown")
    for word, summary, run in (
        ("show", "one effect with its provider's answer", show_effect),
        ("cancel", "cancel what was not sent", cancel_effect),
        ("reconcile", "ask the provider what became of an unknown one; nothing is sent", reconcile_effect),
    ):
        one = parser.command(word, summary)
        one.add_argument("kind", choices=_KINDS, help="which kind")
        one.add_argument("effect", metavar="EFFECT", help="its id")
        one.takes_output("table", "json")
        one.runs(run, example=f"twinraven effects {word} publish 9c1d…")
    reverse = parser.command("reverse", "take an executed payment of the local ledger back, once")
    reverse.add_argument("effect", metavar="TRANSACTION", help="its id")
    reverse.add_argument("--note", metavar="TEXT", required=True, help="why")
    reverse.takes_output("table", "json")
    reverse.runs(reverse_payment, example="twinraven effects reverse 9c1d… --note 'paid twice'")


def _add_task(parser: CommandParser, target: str) -> None:
    parser.add_argument("task", metavar="TASK", help="the task whose result was approved")
    parser.add_argument(target, metavar=target.upper(), help=f"the {target}")


def _add_sending(parser: CommandParser) -> None:
    parser.add_argument("--key", metavar="KEY", required=True, help="under which it happens once")
    parser.add_argument("--persona", metavar="ID", help="in whose voice it speaks (default: the campaign's)")
    parser.add_argument("--at", metavar="TIME", help="when, such as 2026-05-01T09:00:00Z (default: now)")
    parser.add_argument("--provider", metavar="NAME", help="through which provider (default: the first that can)")
    parser.takes_output("table", "json")


def _moment(text: str | None) -> Any:
    from twinraven.foundation.clock import parse_iso

    return None if text is None else parse_iso(text, field="at")


def publish_text(options: Namespace) -> None:
    from twinraven.effects import PublishRequest

    wish = PublishRequest(
        options.task,
        options.channel,
        options.text,
        options.key,
        media_asset_id=options.asset,
        disclosure=options.disclosure,
        persona_id=options.persona,
        scheduled_at=_moment(options.at),
        provider=options.provider,
    )
    _show(options, lambda raven, by: raven.effects.publish(wish, by=by))


def send_message(options: Namespace) -> None:
    from twinraven.effects import MessageRequest

    wish = MessageRequest(
        options.task,
        options.channel,
        options.recipient,
        options.text,
        options.key,
        persona_id=options.persona,
        scheduled_at=_moment(options.at),
        provider=options.provider,
    )
    _show(options, lambda raven, by: raven.effects.message(wish, by=by))


def pay_amount(options: Namespace) -> None:
    from twinraven.effects import PaymentRequest

    wish = PaymentRequest(
        options.task,
        options.wallet,
        options.amount,
        options.currency,
        options.counterparty,
        options.key,
        description=options.description,
        budget_id=options.budget,
    )
    _show(options, lambda raven, by: raven.effects.pay(wish, by=by))


def list_effects(options: Namespace) -> None:
    found = asked(
        options,
        lambda raven, by: raven.effects.list(
            options.kind, by=by, limit=options.limit, status=options.status, task_id=options.task
        ),
    )
    rows = [record.as_json() for record in found]
    if options.output == "table":
        rows = [{**row, "effect_id": _id_of(row), "to": _target_of(row)} for row in rows]
    show_rows(options.output, rows, _COLUMNS, empty=f"nothing of kind {options.kind}")


def _id_of(row: dict[str, Any]) -> str:
    return row.get("publish_id") or row.get("message_id") or row["transaction_id"]


def _target_of(row: dict[str, Any]) -> str:
    if "amount" in row:
        return f"{row['amount']} {row['currency']} to {row['counterparty']}"
    return row.get("recipient") or row["channel"]


def show_effect(options: Namespace) -> None:
    _show(options, lambda raven, by: raven.effects.get(options.kind, options.effect, by=by))


def cancel_effect(options: Namespace) -> None:
    _show(options, lambda raven, by: raven.effects.cancel(options.kind, options.effect, by=by))


def reconcile_effect(options: Namespace) -> None:
    _show(options, lambda raven, by: raven.effects.reconcile(options.kind, options.effect, by=by))


def reverse_payment(options: Namespace) -> None:
    _show(options, lambda raven, by: raven.effects.reverse(options.effect, by=by, note=options.note))


def _show(options: Namespace, ask: Callable[[TwinRaven, Principal], Coroutine[Any, Any, Any]]) -> None:
    show_fields(options.output, asked(options, ask).as_json())


def asked(options: Namespace, ask: Callable[[TwinRaven, Principal], Coroutine[Any, Any, T]]) -> T:
    """Run a request on an opened home as the local user, who administers the tenant."""
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name
    from twinraven.tenancy import Principal

    with opened(options) as raven:
        return asyncio.run(ask(raven, Principal(options.tenant, user_name(), "admin")))
