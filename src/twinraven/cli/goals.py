"""`twinraven goals`: what is wanted, and the plan that it becomes."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, cast

from twinraven.cli.arguments import count
from twinraven.cli.governed import TASK_COLUMNS, read_document
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.governance import Goal

_ID = "5f1c9e0b7a3d4c2e8f60719a2b3c4d5e"
_COLUMNS = (
    TableColumn("goal_id", "GOAL"),
    TableColumn("status", "STATE", tinted=True),
    TableColumn("description", "DESCRIPTION", shrinks=True),
    TableColumn("campaign_id", "CAMPAIGN", shrinks=True, spare=2),
    TableColumn("created_at", "SET", text=short_time, spare=1),
)


def register(parser: CommandParser) -> None:
    parser.show_example(f"twinraven goals add {_ID} 'Announce the launch'\ntwinraven goals plan {_ID} plan.yaml")
    add = parser.command("add", "give a campaign a goal")
    add.add_argument("campaign_id", metavar="CAMPAIGN", help="the campaign's id")
    add.add_argument("description", metavar="TEXT", help="what is wanted")
    add.takes_output("table", "json")
    add.runs(add_goal, example=f"twinraven goals add {_ID} 'Announce the launch'")
    listing = parser.command("list", "goals, the oldest first")
    listing.add_argument("--campaign", metavar="ID", help="only of this campaign")
    listing.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_goals, example="twinraven goals list")
    show = parser.command("show", "one goal")
    _add_goal(show)
    show.runs(show_goal, example=f"twinraven goals show {_ID}")
    plan = parser.command("plan", "add the tasks of a file to a goal, all or none")
    plan.add_argument("goal_id", metavar="GOAL", help="the goal's id")
    plan.add_argument("file", metavar="FILE", help="the plan as YAML or JSON; - reads stdin")
    plan.add_argument("--key", metavar="KEY", help="planning twice under one key is planning once")
    plan.takes_output("table", "json", "csv")
    plan.runs(plan_goal, example=f"twinraven goals plan {_ID} plan.yaml")
    propose = parser.command("propose", "let the configured model plan a goal")
    propose.add_argument("goal_id", metavar="GOAL", help="the goal's id")
    propose.add_argument("--key", metavar="KEY", help="planning twice under one key is planning once")
    propose.takes_output("table", "json", "csv")
    propose.runs(propose_plan, example=f"twinraven goals propose {_ID}")
    cancel = parser.command("cancel", "cancel a goal and its tasks that have not ended")
    _add_goal(cancel)
    cancel.add_argument("--state-version", type=count, metavar="N", help="refuse unless it stands at N")
    cancel.runs(cancel_goal, example=f"twinraven goals cancel {_ID}")


def _add_goal(parser: CommandParser) -> None:
    parser.add_argument("goal_id", metavar="GOAL", help="the goal's id")
    parser.takes_output("table", "json")


def add_goal(options: Namespace) -> None:
    made: Goal = with_home(
        options,
        lambda raven: raven.campaigns.add_goal(options.campaign_id, options.description, by=local_caller(options)),
    )
    show_fields(options.output, made.as_json())


def list_goals(options: Namespace) -> None:
    found: Any = with_home(
        options, lambda raven: raven.campaigns.goals(options.tenant, campaign_id=options.campaign, limit=options.limit)
    )
    show_rows(options.output, [each.as_json() for each in found], _COLUMNS, empty="no goals")


def show_goal(options: Namespace) -> None:
    found: Goal = with_home(options, lambda raven: raven.campaigns.goal(options.tenant, options.goal_id))
    show_fields(options.output, found.as_json())


def plan_goal(options: Namespace) -> None:
    from twinraven.foundation.errors import InvalidInput

    plan = read_document(options.file)
    stated: Any = cast("dict[str, Any]", plan).get("tasks") if isinstance(plan, dict) else plan
    if not isinstance(stated, list):
        raise InvalidInput("a plan has a list of tasks", field="tasks")
    tasks = cast("list[dict[str, Any]]", stated)
    planned: Any = with_home(
        options, lambda raven: raven.planner.plan(options.goal_id, tasks, by=local_caller(options), key=options.key)
    )
    show_rows(options.output, [each.as_json() for each in planned], TASK_COLUMNS, empty="no tasks")


def propose_plan(options: Namespace) -> None:
    planned: Any = with_home(
        options, lambda raven: raven.planner.propose(options.goal_id, by=local_caller(options), key=options.key)
    )
    show_rows(options.output, [each.as_json() for each in planned], TASK_COLUMNS, empty="no tasks")


def cancel_goal(options: Namespace) -> None:
    async def act(raven: TwinRaven) -> Goal:
        seen = options.state_version
        if seen is None:
            seen = (await raven.campaigns.goal(options.tenant, options.goal_id)).state_version
        return await raven.campaigns.cancel_goal(options.goal_id, by=local_caller(options), state_version=seen)

    show_fields(options.output, with_home(options, act).as_json())
