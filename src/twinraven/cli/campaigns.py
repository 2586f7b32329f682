"""`twinraven campaigns`: what goals belong to, and what may be spent on it."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.governance import Budget, Campaign

_ID = "5f1c9e0b7a3d4c2e8f60719a2b3c4d5e"
_COLUMNS = (
    TableColumn("campaign_id", "CAMPAIGN"),
    TableColumn("status", "STATE", tinted=True),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("persona_id", "PERSONA", shrinks=True, spare=3),
    TableColumn("state_version", "VERSION", spare=4),
    TableColumn("created_at", "BEGUN", text=short_time, spare=2),
)
_BUDGET_COLUMNS = (
    TableColumn("budget_id", "BUDGET"),
    TableColumn("status", "STATE", tinted=True),
    TableColumn("total", "TOTAL"),
    TableColumn("currency", "CURRENCY"),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("state_version", "VERSION", spare=2),
)
_STATUSES = {"pause": "paused", "resume": "active", "complete": "complete", "cancel": "cancelled"}


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven campaigns create 'Spring launch'\ntwinraven campaigns list")
    create = parser.command("create", "begin a campaign")
    create.add_argument("name", metavar="NAME", help="what people call it")
    create.add_argument("--persona", metavar="ID", help="in whose voice it speaks")
    create.takes_output("table", "json")
    create.runs(create_campaign, example="twinraven campaigns create 'Spring launch' --persona ann")
    listing = parser.command("list", "campaigns, the oldest first")
    listing.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_campaigns, example="twinraven campaigns list")
    show = parser.command("show", "one campaign")
    _add_campaign(show)
    show.runs(show_campaign, example=f"twinraven campaigns show {_ID}")
    for word, what in (
        ("pause", "let no attempt at its tasks begin"),
        ("resume", "let attempts begin again"),
        ("complete", "end a campaign"),
        ("cancel", "end a campaign with all tasks that have not ended"),
    ):
        command = parser.command(word, what)
        _add_campaign(command)
        command.add_argument("--state-version", type=count, metavar="N", help="refuse unless it stands at N")
        command.runs(change_campaign, example=f"twinraven campaigns {word} {_ID}")
        command.set_defaults(status=_STATUSES[word])
    _register_budgets(parser)


def _register_budgets(parser: CommandParser) -> None:
    budget = parser.command("budget", "give a campaign a budget, or change one")
    _add_campaign(budget)
    budget.add_argument("total", metavar="AMOUNT", help="decimal text such as 120.00")
    budget.add_argument("currency", metavar="CURRENCY", help="three letters such as EUR")
    budget.add_argument("--name", default="budget", metavar="NAME", help="what people call it (default: budget)")
    budget.add_argument("--change", metavar="BUDGET", help="change this budget in place of a new one")
    budget.add_argument("--state-version", type=count, metavar="N", help="refuse unless it stands at N")
    budget.runs(set_budget, example=f"twinraven campaigns budget {_ID} 120.00 EUR")
    budgets = parser.command("budgets", "the budgets of a campaign")
    budgets.add_argument("campaign_id", metavar="CAMPAIGN", help="the campaign's id")
    budgets.takes_output("table", "json", "csv")
    budgets.runs(list_budgets, example=f"twinraven campaigns budgets {_ID}")


def _add_campaign(parser: CommandParser) -> None:
    parser.add_argument("campaign_id", metavar="CAMPAIGN", help="the campaign's id")
    parser.takes_output("table", "json")


def create_campaign(options: Namespace) -> None:
    made: Campaign = with_home(
        options,
        lambda raven: raven.campaigns.create(options.name, by=local_caller(options), persona_id=options.persona),
    )
    show_fields(options.output, made.as_json())


def list_campaigns(options: Namespace) -> None:
    found: Any = with_home(options, lambda raven: raven.campaigns.list(options.tenant, limit=options.limit))
    show_rows(options.output, [each.as_json() for each in found], _COLUMNS, empty="no campaigns")


def show_campaign(options: Namespace) -> None:
    found: Campaign = with_home(options, lambda raven: raven.campaigns.get(options.tenant, options.campaign_id))
    show_fields(options.output, found.as_json())


def change_campaign(options: Namespace) -> None:
    async def act(raven: TwinRaven) -> Campaign:
        seen = options.state_version
        if seen is None:
            seen = (await raven.campaigns.get(options.tenant, options.campaign_id)).state_version
        return await raven.campaigns.change(
            options.campaign_id, by=local_caller(options), state_version=seen, status=options.status
        )

    show_fields(options.output, with_home(options, act).as_json())


def set_budget(options: Namespace) -> None:
    async def act(raven: TwinRaven) -> Budget:
        by = local_caller(options)
        if options.change is None:
            return await raven.campaigns.add_budget(
                options.campaign_id, total=options.total, currency=options.currency, by=by, name=options.name
            )
        seen = options.state_version
        if seen is None:
            seen = (await raven.campaigns.budget(options.tenant, options.change)).state_version
        return await raven.campaigns.change_budget(options.change, by=by, state_version=seen, total=options.total)

    show_fields(options.output, with_home(options, act).as_json())


def list_budgets(options: Namespace) -> None:
    found: Any = with_home(
        options, lambda raven: raven.campaigns.budgets(options.tenant, campaign_id=options.campaign_id)
    )
    show_rows(options.output, [each.as_json() for each in found], _BUDGET_COLUMNS, empty="no budgets")
