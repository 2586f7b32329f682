"""`twinraven registry`: learned tools, their versions, and whether files and rows agree."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twinraven.cli import registry_export
from twinraven.cli.advice import advice_field, advice_lines
from twinraven.cli.arguments import count
from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import TableColumn, clean, print_lines, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time
from twinraven.foundation.errors import NotFound

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.registry import Adoption, Disagreement, RebuildReport, RegisteredTool, ToolRecord


def taken_text(adoption: Any) -> str:
    """Sessions that took a tool, of those it fitted in."""
    return "-" if not adoption else f"{adoption['taken']}/{adoption['fitted']}"


def saved_text(adoption: Any) -> str:
    """Turns that a tool saved; - where nothing can be said."""
    return "-" if not adoption or adoption["turns_saved"] is None else f"{adoption['turns_saved']:g}"


_TOOLS = (
    TableColumn("tool_id", "TOOL", shrinks=True, least=46, middle=True),
    TableColumn("state", "STATE", tinted=True),
    TableColumn("current_version", "VERSION", right=True, spare=2),
    TableColumn("invocation_count", "USES", right=True),
    TableColumn("adoption", "TAKEN", right=True, text=taken_text, spare=1),
    TableColumn("adoption", "SAVED", right=True, text=saved_text),
    TableColumn("last_used_at", "LAST USED", text=short_time, spare=4),
    TableColumn("marks", "MARKS", shrinks=True, spare=3),
)
_VERSIONS = (
    TableColumn("version", "VERSION", right=True),
    TableColumn("status", "STATUS"),
    TableColumn("score", "SCORE", right=True, spare=1),
    TableColumn("created_at", "MADE", text=short_time, spare=2),
    TableColumn("promoted_at", "PROMOTED", text=short_time),
    TableColumn("superseded_at", "SUPERSEDED", text=short_time, spare=3),
    TableColumn("retired_at", "RETIRED", text=short_time),
)
_DISAGREEMENTS = (
    TableColumn("kind", "KIND"),
    TableColumn("path", "WHERE", shrinks=True),
    TableColumn("what", "WHAT", shrinks=True),
    TableColumn("settled_by", "REBUILD"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven registry list")
    listing = parser.command("list", "every learned tool, its state and its use")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_tools, example="twinraven registry list --output json")
    _register_show(parser.command("show", "one learned tool and its versions"))
    _register_verify(parser.command("verify", "where files and rows disagree"))
    _register_rollback(parser.command("rollback", "put an earlier version back into service"))
    registry_export.register(parser.command("export", "a learned tool as code or a definition for other programs"))


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--version", dest="number", type=count, metavar="N", help="print that version's definition")
    parser.takes_output("table", "json")
    parser.runs(show_tool, example="twinraven registry show search_read_summarize --version 2")


def _register_verify(parser: CommandParser) -> None:
    parser.add_argument(
        "--rebuild",
        choices=("files", "rows"),
        help="make these from the others; rows are rebuilt only where they are not newer",
    )
    parser.takes_output("table", "json")
    parser.runs(verify, example="twinraven registry verify --rebuild files")


def _register_rollback(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--to-version", type=count, required=True, metavar="N", help="the version that serves again")
    parser.takes_output("table", "json")
    parser.runs(roll_back, example="twinraven registry rollback search_read_summarize --to-version 1")


def list_tools(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        records, adoption = asyncio.run(_with_adoption(raven, options.tenant))
    rows = [
        {
            **record.as_json(),
            "adoption": _adoption_json(adoption.get(record.tool_id)),
            "state": state_of(record),
            "marks": _marks(record),
        }
        for record in records
    ]
    show_rows(options.output, rows, _TOOLS, empty="nothing was learned yet; run `twinraven learn`")


async def _with_adoption(raven: TwinRaven, tenant_id: str) -> tuple[list[ToolRecord], Mapping[str, Adoption]]:
    return await raven.registry.tools(tenant_id), await raven.maintenance.adoption(tenant_id)


def _adoption_json(found: Adoption | None) -> Any:
    return None if found is None else found.as_json()


def show_tool(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        tool, adoption = asyncio.run(_tool_with_adoption(raven, options.tenant, options.tool))
    if options.number is not None:
        _show_definition(tool, options.number)
    elif options.output == "json":
        versions = [version.as_json() for version in tool.versions]
        show_json({**tool.record.as_json(), "adoption": _adoption_json(adoption), "versions": versions})
    else:
        _show_tool(tool, adoption)


async def _tool_with_adoption(raven: TwinRaven, tenant_id: str, tool_id: str) -> tuple[RegisteredTool, Adoption | None]:
    tool = await raven.registry.tool(tenant_id, tool_id)
    return tool, (await raven.maintenance.adoption(tenant_id)).get(tool_id)


def _show_definition(tool: RegisteredTool, number: int) -> None:
    found = tool.version(number)
    if found is None:
        raise NotFound(f"{tool.record.tool_id!r} has no version {number}", tool_id=tool.record.tool_id)
    show_json(found.definition.as_json())


def _show_tool(tool: RegisteredTool, adoption: Adoption | None) -> None:
    fields = {**tool.record.as_json(), "state": state_of(tool.record), "marks": _marks(tool.record) or None}
    for name in ("status", "flags", "quarantine", "revision"):
        fields.pop(name)
    for name in ("registered_at", "last_used_at", "in_service_since"):
        fields[name] = short_time(fields[name])
    show_fields("table", {**fields, **_adoption_fields(adoption), **advice_field(tool.current.definition)})
    advice = tool.record.flags.get("not_taken", {}).get("advice")
    print_lines([] if advice is None else [clean(f"not taken: {advice}")])
    print_lines([*advice_lines(tool.current.definition), ""])
    show_rows(
        "table", [{**each.as_json(), "score": f"{each.equivalence_score:.3f}"} for each in tool.versions], _VERSIONS
    )


def _adoption_fields(found: Adoption | None) -> dict[str, str]:
    """Adoption in words, for a person."""
    if found is None:
        return {}
    body = found.as_json()
    interval = "" if found.share is None else f" ({found.share:.0%}, {found.share_low:.0%} to {found.share_high:.0%})"
    return {
        "adoption_since": short_time(body["since"]),
        "offered": f"{found.offered} sessions",
        "fitted": f"{found.fitted} sessions",
        "taken": f"{found.taken} sessions{interval}",
        "uses": f"{found.uses}, {_turns(found.turns_per_use)} each; {found.raised} calls raised",
        "by_hand": f"{found.by_hand}, {_turns(found.turns_by_hand)} each",
        "turns_saved": saved_text(body),
    }


def _turns(mean: float | None) -> str:
    return "- turns" if mean is None else f"{mean:.2g} turns"


def verify(options: Namespace) -> int:
    import asyncio

    rebuilt, found = asyncio.run(_verify(options))
    rows = [each.as_json() for each in found]
    if options.output == "json":
        show_json({"disagreements": rows, "rebuilt": list(rebuilt.tools), "left": rebuilt.left})
    else:
        if rebuilt.tools:
            print_lines([f"rebuilt the {options.rebuild} of {', '.join(rebuilt.tools)}"])
        print_lines(clean(f"left {name}: {why}") for name, why in rebuilt.left.items())
        show_rows("table", rows, _DISAGREEMENTS, empty="files and rows agree")
    return FAILED if rows else DONE


async def _verify(options: Namespace) -> tuple[RebuildReport, list[Disagreement]]:
    """Return what was rebuilt, and what disagrees now."""
    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name
    from twinraven.registry import RebuildReport

    with opened(options) as raven:
        rebuilt = RebuildReport((), {})
        if options.rebuild == "files":
            await raven.registry.recover(options.tenant)
            rebuilt = await raven.verification.rebuild_files(options.tenant)
        elif options.rebuild == "rows":
            rebuilt = await raven.verification.rebuild_rows(options.tenant, by=user_name())
        return rebuilt, await raven.verification.verify(options.tenant)


def roll_back(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.cli.people import user_name

    with opened(options) as raven:
        record = asyncio.run(
            raven.registry.rollback(options.tenant, options.tool, to_version=options.to_version, by=user_name())
        )
    tell(options, record, f"{record.tool_id} v{record.current_version} is in service again")


def tell(options: Namespace, record: ToolRecord, words: str) -> None:
    """Print what became of a tool, as a sentence or as JSON."""
    if options.output == "json":
        show_json(record.as_json())
    else:
        print_lines([words])


def state_of(record: ToolRecord) -> str:
    """Return one word for where a tool is."""
    if record.retirement_reason is not None:
        return f"retired ({record.retirement_reason})"
    return "quarantined" if record.quarantine is not None else record.status.value


def _marks(record: ToolRecord) -> str:
    words = [name.replace("_", " ") for name in record.flags]
    if record.quarantine is not None:
        words.append(record.quarantine.reason)
    return ", ".join(words)
