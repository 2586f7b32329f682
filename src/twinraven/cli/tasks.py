"""`twinraven tasks`: what is to be done, what was attempted, and what came of it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.governed import TASK_COLUMNS, read_document
from twinraven.cli.output import TableColumn, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.governance import Task, TaskDetail

_LOOK_EVERY_S = 0.1
_ID = "5f1c9e0b7a3d4c2e8f60719a2b3c4d5e"
_STATUSES = ("pending", "in_progress", "review", "escalated", "complete", "rejected", "failed", "cancelled")
_SPEC_COLUMNS = (
    TableColumn("spec_version", "VERSION"),
    TableColumn("spec_hash", "HASH", shrinks=True),
    TableColumn("created_by", "BY"),
    TableColumn("created_at", "SAVED", text=short_time),
)


def register(parser: CommandParser) -> None:
    parser.show_example(f"twinraven tasks list --status escalated\ntwinraven tasks show {_ID}")
    _register_looks(parser)
    work = parser.command("work", "work on tasks here until there is nothing left to do")
    work.add_argument("--goal", metavar="ID", help="only until the tasks of this goal rest")
    work.takes_output("table", "json", "csv")
    work.runs(work_on_tasks, example="twinraven tasks work")
    for word, what, act in (
        ("plan", "plan a task by a planner.task envelope", plan_task),
        ("report", "report an attempt by a worker.result envelope", report_result),
    ):
        command = parser.command(word, what)
        command.add_argument("file", metavar="FILE", help="the envelope as JSON or YAML; - reads stdin")
        command.takes_output("table", "json")
        command.runs(act, example=f"twinraven tasks {word} envelope.json")
    revise = parser.command("revise", "give a task the next version of its spec")
    _add_task(revise)
    revise.add_argument("file", metavar="FILE", help="the payload as JSON or YAML; - reads stdin")
    _add_version(revise)
    revise.runs(revise_task, example=f"twinraven tasks revise {_ID} spec.yaml")
    for word, what, act in (
        ("claim", "begin an attempt at a ready task, as a worker outside", claim_task),
        ("cancel", "end a task", cancel_task),
        ("retry", "let a task that failed or was rejected be attempted once more", retry_task),
    ):
        command = parser.command(word, what)
        _add_task(command)
        _add_version(command)
        command.runs(act, example=f"twinraven tasks {word} {_ID}")


def _register_looks(parser: CommandParser) -> None:
    listing = parser.command("list", "tasks, the oldest first")
    listing.add_argument("--goal", metavar="ID", help="only of this goal")
    listing.add_argument("--status", choices=_STATUSES, help="only those that stand so")
    listing.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_tasks, example="twinraven tasks list --status escalated")
    ready = parser.command("ready", "tasks that a worker outside may take now, the most urgent first")
    ready.takes_output("table", "json", "csv")
    ready.runs(list_ready, example="twinraven tasks ready")
    show = parser.command("show", "a task with its attempts, results and decisions")
    _add_task(show)
    show.runs(show_task, example=f"twinraven tasks show {_ID}")
    specs = parser.command("specs", "all versions of a task's spec")
    specs.add_argument("task_id", metavar="TASK", help="the task's id")
    specs.takes_output("table", "json", "csv")
    specs.runs(list_specs, example=f"twinraven tasks specs {_ID}")


def _add_task(parser: CommandParser) -> None:
    parser.add_argument("task_id", metavar="TASK", help="the task's id")
    parser.takes_output("table", "json")


def _add_version(parser: CommandParser) -> None:
    parser.add_argument("--state-version", type=count, metavar="N", help="refuse unless the task stands at N")


def list_tasks(options: Namespace) -> None:
    found: Any = with_home(
        options,
        lambda raven: raven.tasks.list(
            options.tenant, goal_id=options.goal, status=options.status, limit=options.limit
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], TASK_COLUMNS, empty="no tasks")


def list_ready(options: Namespace) -> None:
    found: Any = with_home(options, lambda raven: raven.tasks.ready(options.tenant))
    show_rows(options.output, [each.as_json() for each in found], TASK_COLUMNS, empty="nothing is ready")


def work_on_tasks(options: Namespace) -> None:
    """Work like `twinraven worker` until no attempt is queued or under way."""

    async def act(raven: TwinRaven) -> Any:
        async with raven.working():
            while await raven.tasks.are_moving(options.tenant, goal_id=options.goal):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY_S)
        return await raven.tasks.list(options.tenant, goal_id=options.goal, limit=1_000)

    found = with_home(options, act)
    show_rows(options.output, [each.as_json() for each in found], TASK_COLUMNS, empty="no tasks")


def show_task(options: Namespace) -> None:
    found: TaskDetail = with_home(options, lambda raven: raven.tasks.get(options.tenant, options.task_id))
    if options.output == "json":
        show_json(found.as_json())
    else:
        show_fields(options.output, {**found.as_json(), **_told(found)})


def _told(found: TaskDetail) -> dict[str, Any]:
    """Attempts and decisions in a line each."""
    return {
        "runs": [f"attempt {run.attempt_number}: {run.status} by {run.worker}" for run in found.runs],
        "results": [f"{each.result_id}: {each.status}, confidence {each.confidence_score:g}" for each in found.results],
        "decisions": [f"{each.decision_id}: {each.decision}, {each.reason_summary}" for each in found.decisions],
    }


def list_specs(options: Namespace) -> None:
    found: Any = with_home(options, lambda raven: raven.tasks.specs(options.tenant, options.task_id))
    show_rows(options.output, [each.as_json() for each in found], _SPEC_COLUMNS, empty="no specs")


def plan_task(options: Namespace) -> None:
    envelope = read_document(options.file)
    show_fields(
        options.output, with_home(options, lambda raven: raven.planner.submit(envelope, by=local_caller(options)))
    )


def report_result(options: Namespace) -> None:
    envelope = read_document(options.file)
    show_fields(
        options.output, with_home(options, lambda raven: raven.attempts.submit(envelope, by=local_caller(options)))
    )


def revise_task(options: Namespace) -> None:
    payload = read_document(options.file)
    _change(
        options,
        lambda raven, seen: raven.planner.revise(
            options.task_id, payload, by=local_caller(options), state_version=seen
        ),
    )


def cancel_task(options: Namespace) -> None:
    _change(
        options,
        lambda raven, seen: raven.tasks.cancel(options.task_id, by=local_caller(options), state_version=seen),
    )


def retry_task(options: Namespace) -> None:
    _change(
        options,
        lambda raven, seen: raven.tasks.retry(options.task_id, by=local_caller(options), state_version=seen),
    )


def claim_task(options: Namespace) -> None:
    async def claimed(raven: TwinRaven) -> dict[str, Any]:
        by = local_caller(options)
        run = await raven.attempts.claim(options.task_id, by=by, state_version=options.state_version)
        asked = await raven.attempts.required_actions(by.tenant_id, options.task_id)
        return {**run.as_json(), "required_actions": list(asked)}

    show_fields(options.output, with_home(options, claimed))


def _change(options: Namespace, act: Callable[[TwinRaven, int], Awaitable[Task]]) -> None:
    """Change a task as it stands, or as the options say that it was seen."""

    async def changed(raven: TwinRaven) -> Task:
        seen = options.state_version
        if seen is None:
            seen = (await raven.tasks.get(options.tenant, options.task_id)).task.state_version
        return await act(raven, seen)

    show_fields(options.output, with_home(options, changed).as_json())
