"""`twinraven maintenance`: whether learned tools are still worth having."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.output import TableColumn, print_lines, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.registry import taken_text
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.registry import MaintenanceReport


def _share(value: Any) -> str:
    return "-" if value is None else f"{value:.2f}"


_MEASURES = (
    TableColumn("tool_id", "TOOL", shrinks=True),
    TableColumn("calls", "CALLS, 7 D", right=True),
    TableColumn("raised", "RAISED", right=True),
    TableColumn("expected_failure_rate", "PARTS FAIL", right=True, text=_share, spare=3),
    TableColumn("turns_saved", "TURNS SAVED", right=True),
    TableColumn("adoption", "TAKEN", right=True, text=taken_text),
    TableColumn("support", "SUPPORT", right=True, text=_share, spare=2),
    TableColumn("confidence", "CONFIDENCE", right=True, text=_share, spare=4),
    TableColumn("drift_ratio", "OF FIRST", right=True, text=_share, spare=1),
)
_ACTIONS = (
    TableColumn("tool_id", "TOOL", shrinks=True),
    TableColumn("verb", "DO"),
    TableColumn("name", "REASON"),
    TableColumn("why", "BECAUSE", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven maintenance run --dry-run")
    run = parser.command("run", "look at every tool in service: use, failures, drift, turns saved, adoption")
    run.add_argument("--dry-run", action="store_true", help="only say what would be done")
    run.add_argument("--if-due", action="store_true", help="only if registry.maintenance_schedule says so")
    run.takes_output("table", "json")
    run.runs(run_maintenance, example="twinraven maintenance run --dry-run --output json")


def run_maintenance(options: Namespace) -> None:
    import asyncio

    if options.if_due and options.dry_run:
        raise InvalidInput("a rehearsal is never due; give --dry-run or --if-due", field="if_due")
    report = asyncio.run(_run(options))
    if options.output == "json":
        show_json(None if report is None else report.as_json())
    elif report is None:
        print_lines(["not due yet"])
    else:
        _show(report)


async def _run(options: Namespace) -> MaintenanceReport | None:
    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name

    with opened(options) as raven:
        if options.if_due:
            return await raven.maintenance.run_if_due(options.tenant)
        return await raven.maintenance.run(options.tenant, dry_run=options.dry_run, by=user_name())


def _show(report: MaintenanceReport) -> None:
    body = report.as_json()
    show_rows("table", body["tools"], _MEASURES, empty="no learned tool is in service")
    if not body["tools"]:
        return
    print_lines(["", "would be done:" if report.rehearsed else "done:"])
    if body["actions"]:
        show_rows("table", body["actions"], _ACTIONS)
    else:
        print_lines(["nothing"])
