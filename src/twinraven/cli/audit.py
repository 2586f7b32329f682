"""`twinraven audit`: who did what and why, and whether the record of it is what it was."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count, moment
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.audit import AuditRecord

_SHOWN = 8
"""How much of a subject's id a table shows."""
_COLUMNS = (
    TableColumn("sequence", "#", right=True),
    TableColumn("timestamp", "TIME", text=short_time),
    TableColumn("event_type", "EVENT"),
    TableColumn("actor", "ACTOR", shrinks=True),
    TableColumn("subject", "SUBJECT", shrinks=True),
    TableColumn("why", "WHY", shrinks=True),
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
    erase.add_argument("entry_ids", metavar="ID", nargs="+", help="an entry's id or number")
    erase.add_argument("--reason", required=True, metavar="TEXT", help="why, for the record")
    erase.add_argument("--user", metavar="ID", default="local", help='who does it (default: "local")')
    erase.takes_output("table", "json")
    erase.runs(erase_bodies, example="twinraven audit erase 3f2a9c1b5d7e8f90a1b2c3d4e5f60718 --reason request-17")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("entry_id", metavar="ID", nargs="?", help="one entry, by its id or number, with its details")
    parser.add_argument("--subject", metavar="ID", help="only entries about this")
    parser.add_argument("--event", metavar="TYPE", help="only this kind, such as secret.created")
    parser.add_argument("--actor", metavar="ID", help="only what this user did")
    parser.add_argument("--correlation", metavar="ID", help="only what belongs to this request")
    parser.add_argument("--since", type=moment, metavar="TIME", help="only from this time on")
    parser.add_argument("--until", type=moment, metavar="TIME", help="only before this time")
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
        since=options.since,
        until=options.until,
        before_sequence=options.before,
        limit=options.limit,
        newest_first=True,
    )
    with opened(options) as raven:
        if options.entry_id is not None:
            entry_id = asyncio.run(_whole_id(raven, options.tenant, options.entry_id))
            entry = asyncio.run(raven.audit.entry(options.tenant, entry_id))
            show_fields("json" if options.output == "json" else "table", entry.as_json())
            return
        found = asyncio.run(raven.audit.entries(options.tenant, where))
    rows = [record.as_json() for record in reversed(found)]
    for row in rows if options.output == "table" else ():
        row["subject"] = _subject(row)
        row["actor"] = row["actor_id"] or row["actor_type"]
        row["why"] = _reason(row)
    show_rows(options.output, rows, _COLUMNS, empty="no audit entries")


def _subject(row: dict[str, Any]) -> str:
    """Name what an entry is about: of a call its tool, else its name, or its kind and the beginning of its id."""
    from twinraven.cli.short_ids import is_whole

    tool_id, subject_id = row["data_json"].get("tool_id"), row["subject_id"]
    if tool_id:
        return f"{tool_id}"
    return f"{row['subject_type']} {subject_id[:_SHOWN]}" if is_whole(subject_id) else subject_id


def _reason(row: dict[str, Any]) -> str:
    """Say which rule or whose word allowed it, or with which code it failed."""
    data: dict[str, Any] = row["data_json"]
    policy: dict[str, Any] = data.get("policy") or {}
    approval: dict[str, Any] = data.get("approval") or {}
    parts = [
        f"{row['code']}: {row['message']}" if row["code"] else row["message"],
        f"policy {policy['rule']}" if policy.get("rule") else None,
        f"approved by {approval['granted_by']}" if approval.get("granted_by") else None,
    ]
    return "; ".join(part for part in parts if part) or "-"


async def _whole_id(raven: TwinRaven, tenant_id: str, given: str) -> str:
    """Complete what names an entry: its number, or the beginning of a recent one's id."""
    from twinraven.audit import AuditFilter
    from twinraven.cli.short_ids import LOOKED_AT, complete_id, is_whole

    if is_whole(given):
        return given
    if given.isascii() and given.isdigit():
        where = AuditFilter(after_sequence=int(given) - 1, before_sequence=int(given) + 1, limit=1)
        found = await raven.audit.entries(tenant_id, where)
        if found:
            return found[0].id
    newest = await raven.audit.entries(tenant_id, AuditFilter(limit=LOOKED_AT, newest_first=True))
    return complete_id(given, (entry.id for entry in newest), what="entry")


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

    async def erase(raven: TwinRaven) -> AuditRecord:
        entry_ids = [await _whole_id(raven, options.tenant, given) for given in options.entry_ids]
        return await raven.audit.erase(options.tenant, entry_ids, reason=options.reason, actor=person(options.user))

    with opened(options) as raven:
        record = asyncio.run(erase(raven))
    show_fields(options.output, {"erased": len(options.entry_ids), "entry": record.id})
