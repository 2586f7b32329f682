"""`twinraven retention`: sessions that are old enough leave the log, whole, and a signed note of it stays."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count
from twinraven.cli.output import Progress, TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.muninn import RetentionReport

_NOTES = (
    TableColumn("made_at", "REMOVED", text=short_time),
    TableColumn("sessions", "SESSIONS", right=True),
    TableColumn("events", "EVENTS", right=True),
    TableColumn("outputs", "OUTPUTS", right=True, spare=3),
    TableColumn("first_at", "FROM", text=short_time, spare=2),
    TableColumn("last_at", "TO", text=short_time, spare=1),
    TableColumn("genuine", "SIGNATURE", tinted=True),
    TableColumn("note_id", "NOTE", shrinks=True, spare=4),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven retention run --days 90 --dry-run")
    run = parser.command("run", "remove the sessions whose last call is old enough")
    run.add_argument("--days", type=count, metavar="N", help="how old, in days (default: retention.days)")
    run.add_argument("--dry-run", action="store_true", help="only say what would leave")
    run.add_argument(
        "--fast", action="store_true", help="do not write the SQLite file anew, which clears the last traces"
    )
    run.takes_output("table", "json")
    run.runs(run_retention, example="twinraven retention run --days 90 --output json")
    notes = parser.command("notes", "what left and when, and whether the notes are genuine")
    notes.add_argument("--limit", type=count, default=50, metavar="N", help="the newest so many (default: 50)")
    notes.takes_output("table", "json", "csv")
    notes.runs(list_notes, example="twinraven retention notes --output json")


async def _prune(raven: TwinRaven, options: Namespace, days: int, progress: Progress) -> RetentionReport:
    # Uses of learned tools are counted from the log, so they are counted before any of it leaves.
    await raven.registry.fold_usage(options.tenant)
    return await raven.retention.run(options.tenant, days=days, compact=not options.fast, progress=progress)


def run_retention(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven, Progress("events removed") as progress:
        days = _days(options, raven)
        if options.dry_run:
            report = asyncio.run(raven.retention.preview(options.tenant, days=days))
        else:
            report = asyncio.run(_prune(raven, options, days, progress))
    fields = report.as_json()
    if options.dry_run:
        fields = {name: fields[name] for name in ("cutoff", "sessions", "events", "spared")}
    if options.output == "json":
        show_fields("json", {**fields, "dry_run": options.dry_run})
        return
    shown = {"last call before": short_time(report.cutoff), **fields}
    for name in ("cutoff", "notes"):
        shown.pop(name, None)
    show_fields("table", {name.replace("_", " "): value for name, value in shown.items()})
    if options.dry_run:
        print("nothing was removed")


def list_notes(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        notes = asyncio.run(raven.retention.notes(options.tenant, limit=options.limit))
        rows = [{**note.as_json(), "genuine": raven.retention.fault_of(note) or "ok"} for note in notes]
    show_rows(options.output, rows, _NOTES, empty="nothing has left")


def _days(options: Namespace, raven: TwinRaven) -> int:
    days: int | None = options.days or raven.settings.retention.days
    if days is None:
        raise InvalidInput(
            "how old must a session be to leave? retention.days is not set", field="days", fix="give --days N"
        )
    return days
