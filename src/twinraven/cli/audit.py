"""`twinraven audit`: who did what and why, and whether the record of it is what it was."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from twinraven.cli.arguments import count
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import Column, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

_COLUMNS = (
    Column("sequence", "#", right=True),
    Column("timestamp", "TIME", text=short_time),
    Column("event_type", "EVENT"),
    Column("subject", "SUBJECT", shrinks=True),
    Column("actor", "ACTOR", shrinks=True),
    Column("code", "CODE"),
    Column("message", "MESSAGE", shrinks=True),
    Column("id", "ID"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven audit show --limit 20\ntwinraven audit verify --anchor /mnt/usb/anchors.jsonl")
    _register_show(parser.command("show", "entries of the audit log, or one of them with its details"))
    _register_verify(parser.command("verify", "check that nothing was changed, removed or reordered"))
    anchor = parser.command("anchor", "copy the signed head to a file that should lie elsewhere")
    anchor.add_argument("file", metavar="FILE", help="where to add it, as one line of JSON")
    anchor.takes_output("table", "json")
    anchor.runs(write_anchor, example="twinraven audit anchor /mnt/usb/anchors.jsonl")
    seal = parser.command("seal", "put the calls remembered since the last seal under the chain")
    seal.takes_output("table", "json")
    seal.runs(seal_reads, example="twinraven audit seal")
    erase = parser.command("erase", "remove the personal details of entries; the entries stay")
    erase.add_argument("entry_ids", metavar="ID", nargs="+", help="an entry's id")
    erase.add_argument("--reason", required=True, metavar="TEXT", help="why, for the record")
    erase.add_argument("--user", metavar="ID", default="local", help='who does it (default: "local")')
    erase.takes_output("table", "json")
    erase.runs(erase_bodies, example="twinraven audit erase 3f2a9c1b5d7e8f90a1b2c3d4e5f60718 --reason request-17")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("entry_id", metavar="ID", nargs="?", help="one entry, with its details")
    parser.add_argument("--subject", metavar="ID", help="only entries about this")
    parser.add_argument("--event", metavar="TYPE", help="only this kind, such as secret.created")
    parser.add_argument("--actor", metavar="ID", help="only what this user did")
    parser.add_argument("--correlation", metavar="ID", help="only what belongs to this request")
    parser.add_argument("--before", type=count, metavar="N", help="go on below this number")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="the newest so many (default: 50)")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_entries, example="twinraven audit show --event secret.rotated --output json")


def _register_verify(parser: CommandParser) -> None:
    parser.add_argument("--anchor", metavar="FILE", help="hold the log against what was anchored there")
    parser.add_argument("--no-reads", action="store_true", help="leave out the sealed calls, which takes longest")
    parser.takes_output("table", "json")
    parser.runs(verify_chain, example="twinraven audit verify --anchor /mnt/usb/anchors.jsonl")


def show_entries(options: Namespace) -> None:
    import asyncio

    from twinraven.audit import AuditFilter
    from twinraven.cli.home import opened

    where = AuditFilter(
        subject_id=options.subject,
        event_type=options.event,
        actor_id=options.actor,
        correlation_id=options.correlation,
        before_sequence=options.before,
        limit=options.limit,
        newest_first=True,
    )
    with opened(options) as raven:
        if options.entry_id is not None:
            entry = asyncio.run(raven.audit.entry(options.tenant, options.entry_id))
            show_fields("json" if options.output == "json" else "table", entry.as_json())
            return
        found = asyncio.run(raven.audit.entries(options.tenant, where))
    rows = [record.as_json() for record in reversed(found)]
    for row in rows if options.output == "table" else ():
        row["subject"] = f"{row['subject_type']} {row['subject_id']}"
        row["actor"] = row["actor_id"] or row["actor_type"]
    show_rows(options.output, rows, _COLUMNS, empty="no audit entries")


def verify_chain(options: Namespace) -> int:
    import asyncio

    from twinraven.cli.home import opened

    anchor = None if options.anchor is None else Path(options.anchor)
    with opened(options) as raven:
        report = asyncio.run(raven.audit.verify(options.tenant, anchor=anchor, reads=not options.no_reads))
    fields = report.as_json()
    if options.output == "json":
        show_fields("json", fields)
    else:
        result = {"result": "ok" if report.ok else "broken"}
        show_fields("table", result | {name: value for name, value in fields.items() if name != "ok"}, tinted=True)
    return DONE if report.ok else FAILED


def write_anchor(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        head = asyncio.run(raven.audit.anchor(options.tenant, Path(options.file))).head
    show_fields(options.output, {"file": options.file, "sequence": head.sequence, "entry_hash": head.entry_hash})


def seal_reads(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        audit = raven.audit

        async def work() -> tuple[int, int]:
            entries = calls = 0
            while record := await audit.seal_reads(options.tenant):
                entries, calls = entries + 1, calls + record.data["count"]
            return entries, calls

        entries, calls = asyncio.run(work())
    show_fields(options.output, {"entries": entries, "calls": calls})


def erase_bodies(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.foundation.actors import person

    with opened(options) as raven:
        erasing = raven.audit.erase(
            options.tenant, options.entry_ids, reason=options.reason, actor=person(options.user)
        )
        record = asyncio.run(erasing)
    show_fields(options.output, {"erased": len(options.entry_ids), "entry": record.id})
