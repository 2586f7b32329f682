"""`twinraven wallets`: open and fund wallets, see what they hold, and check that the books add up."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.effects import asked
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

_COLUMNS = (
    TableColumn("wallet_id", "WALLET"),
    TableColumn("status", "STATUS", tinted=True),
    TableColumn("agent_or_campaign_id", "OF", shrinks=True),
    TableColumn("balance", "BALANCE", right=True),
    TableColumn("held", "HELD", right=True, spare=1),
    TableColumn("currency", "CURRENCY"),
    TableColumn("provider", "PROVIDER", spare=2),
)
_TRANSFERS = (
    TableColumn("posted_at", "POSTED", text=short_time),
    TableColumn("from_account", "FROM", shrinks=True),
    TableColumn("to_account", "TO", shrinks=True),
    TableColumn("amount", "AMOUNT", right=True),
    TableColumn("currency", "CURRENCY"),
    TableColumn("subject_id", "FOR", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven wallets open spring EUR\ntwinraven wallets fund WALLET 100.00 --key first")
    opening = parser.command("open", "open an empty wallet for an agent or a campaign")
    opening.add_argument("owner", metavar="OWNER", help="the agent or campaign whose money it is")
    opening.add_argument("currency", metavar="CURRENCY", help="three letters, such as EUR")
    opening.add_argument("--kind", choices=("commerce", "internal"), default="internal", help="(default: internal)")
    opening.add_argument("--provider", metavar="NAME", default="ledger", help="who pays (default: our own ledger)")
    opening.takes_output("table", "json")
    opening.runs(open_wallet, example="twinraven wallets open spring EUR --output json")
    fund = parser.command("fund", "put money from outside into a wallet, once under its key")
    _add_wallet(fund)
    fund.add_argument("amount", metavar="AMOUNT", help="decimal text, such as 100.00")
    fund.add_argument("--key", metavar="KEY", required=True, help="under which it happens once")
    fund.runs(fund_wallet, example="twinraven wallets fund 81aa… 100.00 --key first")
    listing = parser.command("list", "wallets, and what they hold")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_wallets, example="twinraven wallets list")
    for word, status in (("freeze", "frozen"), ("reopen", "open"), ("close", "closed")):
        change = parser.command(word, f"make a wallet {status}")
        _add_wallet(change)
        change.set_defaults(status=status)
        change.runs(change_wallet, example=f"twinraven wallets {word} 81aa…")
    statement = parser.command("statement", "the newest transfers into and out of a wallet")
    statement.add_argument("wallet", metavar="WALLET", help="its id")
    statement.takes_output("table", "json", "csv")
    statement.runs(show_statement, example="twinraven wallets statement 81aa…")
    verify = parser.command("verify", "check that every currency adds up to zero and no account is wrong")
    verify.takes_output("table", "json")
    verify.runs(verify_ledger, example="twinraven wallets verify")


def _add_wallet(parser: CommandParser) -> None:
    parser.add_argument("wallet", metavar="WALLET", help="its id")
    parser.takes_output("table", "json")


def open_wallet(options: Namespace) -> None:
    made = asked(
        options,
        lambda raven, by: raven.wallets.open(
            options.owner, options.currency, by=by, kind=options.kind, provider=options.provider
        ),
    )
    show_fields(options.output, made.as_json())


def fund_wallet(options: Namespace) -> None:
    found = asked(options, lambda raven, by: raven.wallets.fund(options.wallet, options.amount, key=options.key, by=by))
    show_fields(options.output, found.as_json())


def list_wallets(options: Namespace) -> None:
    found = asked(options, lambda raven, by: raven.wallets.list(by.tenant_id, limit=1_000))
    show_rows(options.output, [each.as_json() for each in found], _COLUMNS, empty="no wallets")


def change_wallet(options: Namespace) -> None:
    found = asked(options, lambda raven, by: raven.wallets.set_status(options.wallet, options.status, by=by))
    show_fields(options.output, found.as_json())


def show_statement(options: Namespace) -> None:
    found = asked(options, lambda raven, by: raven.ledger.statement(by.tenant_id, f"wallet:{options.wallet}"))
    show_rows(options.output, [each.as_json() for each in found], _TRANSFERS, empty="nothing moved yet")


def verify_ledger(options: Namespace) -> int:
    report = asked(options, lambda raven, by: raven.ledger.verify(by.tenant_id))
    show_fields(options.output, report.as_json())
    return DONE if report.ok else FAILED
