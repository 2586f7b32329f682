"""`twinraven events`: the log seen call by call."""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count, moment
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from uuid import UUID

    from twinraven.app import TwinRaven
    from twinraven.muninn import EventStore, MuninnEvent


def _took(latency_ms: int | None) -> str:
    return "-" if latency_ms is None else str(latency_ms)


def _listed(tags: list[str]) -> str:
    return ",".join(tags) or "-"


_COLUMNS = (
    TableColumn("timestamp", "TIME", text=short_time),
    TableColumn("session_id", "SESSION", shrinks=True, least=12),
    TableColumn("tool_id", "TOOL", shrinks=True, least=24, middle=True),
    TableColumn("latency_ms", "MS", right=True, text=_took, spare=1),
    TableColumn("error_code", "ERROR"),
    TableColumn("tags", "TAGS", text=_listed, spare=2),
    TableColumn("input_params", "PARAMS", shrinks=True, spare=3),
    TableColumn("event_id", "EVENT", short=8),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven events list --tool get_order --since 24h")
    _register_list(parser.command("list", "calls, the newest first"))
    _register_show(parser.command("show", "one call with everything that is known of it"))
    _register_correct(parser.command("correct", "state anew what was recorded wrongly; the wrong event stays"))


def _register_list(parser: CommandParser) -> None:
    parser.add_argument("--tool", metavar="ID", help="only calls of this tool")
    parser.add_argument("--session", metavar="ID", help="only calls of this session")
    parser.add_argument("--tag", metavar="TAG", help="only calls with this tag")
    parser.add_argument("--since", type=moment, metavar="TIME", help="from then on (2026-03-01, yesterday, 12h)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="before this time")
    parser.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    parser.add_argument("--oldest", action="store_true", help="oldest first")
    parser.add_argument("--newest", action="store_true", help=SUPPRESS)
    parser.takes_output("table", "json", "csv")
    parser.runs(list_events, example="twinraven events list --tag retry --since 7d --output csv")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("event_id", metavar="ID", help="the event's id, or the beginning of it")
    parser.takes_output("table", "json")
    parser.runs(show_event, example="twinraven events show 0b6f1f0e-3c52-4b1e-9a55-1d6f3f2c7a10 --output json")


def _register_correct(parser: CommandParser) -> None:
    parser.add_argument("event_id", metavar="ID", help="the wrong event's id, or the beginning of a recent one's")
    parser.add_argument("--tool", metavar="ID", help="which tool was called")
    parser.add_argument("--params", metavar="JSON", help="with which arguments, as an object")
    parser.add_argument("--result", metavar="JSON", help="what it gave back")
    parser.add_argument("--outcome", choices=("success", "failure", "partial"), help="how its task went")
    parser.takes_output("table", "json")
    parser.runs(correct_event, example="twinraven events correct 0b6f1f0e --outcome failure")


def list_events(options: Namespace) -> None:
    from twinraven.cli.home import ask
    from twinraven.muninn import EventFilter

    where = EventFilter(
        session_id=options.session,
        tool_id=options.tool,
        tag=options.tag,
        since=options.since,
        until=options.until,
        limit=options.limit,
        newest_first=not options.oldest,
    )
    found = ask(options, lambda store: store.events(options.tenant, where))
    rows = [event.as_json() for event in found]
    show_rows(options.output, _marked(rows) if options.output == "table" else rows, _COLUMNS, empty="no events")


def _marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out times and latencies that an import had to make up."""
    return [row if row["time_known"] else {**row, "timestamp": None, "latency_ms": None} for row in rows]


def _as_told(row: dict[str, Any]) -> dict[str, Any]:
    """Return an event for people: `partial` is what an event has of whose outcome nobody said anything."""
    return {**_marked([row])[0], "outcome": None if row["outcome"] == "partial" else row["outcome"]}


def show_event(options: Namespace) -> None:
    from twinraven.cli.home import ask

    async def look(store: EventStore) -> dict[str, Any]:
        event = await store.event(options.tenant, await _whole_id(store, options))
        kept = {} if event.output_hash is None else await store.outputs(options.tenant, [event.output_hash])
        return {**event.as_json(), "output_stored": bool(kept), "output": kept.get(event.output_hash or "")}

    found = ask(options, look)
    show_fields(options.output, _as_told(found) if options.output == "table" else found)


def correct_event(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.foundation.errors import InvalidInput

    if all(value is None for value in (options.tool, options.params, options.result, options.outcome)):
        raise InvalidInput("say what was wrong: --tool, --params, --result or --outcome", field="params")
    with opened(options) as raven:
        corrected = asyncio.run(_correct(raven, options))
    show_fields(options.output, corrected.as_json())


async def _correct(raven: TwinRaven, options: Namespace) -> MuninnEvent:
    """Record what is stated, and the rest as it was."""
    from twinraven.foundation.canonical import parse_json

    store, tenant_id = raven.events, options.tenant
    wrong = await store.event(tenant_id, await _whole_id(store, options))
    kept = {} if wrong.output_hash is None else await store.outputs(tenant_id, [wrong.output_hash])
    result = kept.get(wrong.output_hash or "") if options.result is None else parse_json(options.result, field="result")
    observer = raven.collector.observe(wrong.session_id, tenant_id=tenant_id, task_id=wrong.task_id, actor=wrong.actor)
    receipt = observer.record_correction(
        wrong,
        options.tool or wrong.tool_id,
        wrong.input_params if options.params is None else parse_json(options.params, field="params"),
        output=result,
        outcome=options.outcome or wrong.outcome,
        tags=wrong.tags,
        raised=wrong.raised and options.result is None,
        error_code=wrong.error_code if options.result is None else None,
    )
    await receipt
    return await store.event(tenant_id, receipt.event_id)


async def _whole_id(store: EventStore, options: Namespace) -> UUID:
    from uuid import UUID

    from twinraven.cli.short_ids import complete_id, is_whole
    from twinraven.foundation.errors import InvalidInput
    from twinraven.muninn import EventFilter

    whole: str = options.event_id
    if not is_whole(whole):
        alike = await store.events(options.tenant, EventFilter(starts_with=whole.removesuffix("…"), limit=3))
        whole = complete_id(whole.removesuffix("…"), (str(event.event_id) for event in alike), what="event")
    try:
        return UUID(whole)
    except ValueError:
        fix = "twinraven events list"
        raise InvalidInput(f"no event's id begins with {whole!r}", field="event_id", fix=fix) from None
