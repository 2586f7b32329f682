"""`twinraven summaries`: what stands for parts of dialogues."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, local_operator, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.knowledge import Compression, CompressionRequest

_LISTED = (
    TableColumn("summary_id", "ID"),
    TableColumn("group_id", "GROUP", shrinks=True, spare=1),
    TableColumn("level", "LEVEL", right=True),
    TableColumn("token_count", "TOKENS", right=True, spare=2),
    TableColumn("created_at", "MADE", text=short_time, spare=3),
    TableColumn("process_id", "BY", spare=4),
    TableColumn("content", "CONTENT", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven summaries compress --group dialogue-1\ntwinraven summaries list --group dialogue-1")
    _register_compress(parser.command("compress", "let the process that compresses sum episodes up"))
    _register_list(parser.command("list", "summaries in the order in which they were made"))
    _register_show(parser.command("show", "one summary with its sources and contents"))
    _register_write(parser.command("write", "write a summary by hand, where coverage is missing"))
    _register_repair(parser.command("repair", "bind a corrected content; the one before stays"))
    _register_cover(parser.command("cover", "state how far a summary covers, where that is missing"))
    _register_delete(parser.command("delete", "take a summary out of its dialogue"))


def _add_wish(parser: CommandParser) -> None:
    parser.add_argument("--group", metavar="GROUP", required=True, help="the dialogue")
    parser.add_argument(
        "--episode", metavar="ID", action="append", help="an episode to sum up; may be repeated (default: all turns)"
    )
    parser.add_argument("--turn", metavar="ID", help="the turn up to which the summary covers")
    parser.add_argument("--alternative", metavar="ID", help="the alternative of that turn")


def _register_compress(parser: CommandParser) -> None:
    _add_wish(parser)
    parser.takes_output("table", "json")
    parser.runs(compress, example="twinraven summaries compress --group dialogue-1 --output json")


def _register_list(parser: CommandParser) -> None:
    parser.add_argument("--group", metavar="GROUP", help="only of this dialogue")
    parser.add_argument("--deleted", action="store_true", help="also those that were deleted")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--after", metavar="ID", help="go on behind this summary id")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_summaries, example="twinraven summaries list --group dialogue-1")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("summary_id", metavar="ID", help="the summary's id")
    parser.takes_output("table", "json")
    parser.runs(show_summary, example="twinraven summaries show 5f0c…")


def _register_write(parser: CommandParser) -> None:
    parser.add_argument("content", metavar="TEXT", help="the summary")
    _add_wish(parser)
    parser.takes_output("table", "json")
    parser.runs(write_summary, example="twinraven summaries write 'Ann moved.' --group dialogue-1 --episode 77ab…")


def _register_repair(parser: CommandParser) -> None:
    parser.add_argument("summary_id", metavar="ID", help="the summary's id")
    parser.add_argument("content", metavar="TEXT", help="the corrected content")
    parser.takes_output("table", "json")
    parser.runs(repair_summary, example="twinraven summaries repair 5f0c… 'Ann moved to Porto.'")


def _register_cover(parser: CommandParser) -> None:
    parser.add_argument("summary_id", metavar="ID", help="the summary's id")
    parser.add_argument("turn", metavar="TURN", help="the turn up to which it covers")
    parser.add_argument("--alternative", metavar="ID", help="the alternative of that turn")
    parser.takes_output("table", "json")
    parser.runs(state_coverage, example="twinraven summaries cover 5f0c… 81aa…")


def _register_delete(parser: CommandParser) -> None:
    parser.add_argument("summary_id", metavar="ID", help="the summary's id")
    parser.add_argument("--recompress", action="store_true", help="sum its sources up again")
    parser.takes_output("table", "json")
    parser.runs(delete_summary, example="twinraven summaries delete 5f0c… --recompress")


def compress(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> Compression:
        begun = await raven.summaries.compress(await _wish(raven, options), by=local_caller(options))
        return await _ended(raven, options, begun)

    show_fields(options.output, with_home(options, work).as_json())


async def _ended(raven: TwinRaven, options: Namespace, begun: Compression) -> Compression:
    """Return the compression when it is done; this process works on it where no worker is heard."""
    import asyncio

    from twinraven.engine import somebody_working

    async with somebody_working(raven.runs, raven.working):
        while True:
            found = await raven.summaries.compression(options.tenant, begun.compression_id)
            if found.state != "running":
                return found
            await asyncio.sleep(0.05)


async def _wish(raven: TwinRaven, options: Namespace) -> CompressionRequest:
    from twinraven.knowledge import CompressionRequest

    chosen = options.episode
    if chosen is None:
        found = await raven.knowledge.episodes(options.tenant, group_id=options.group, limit=2_000)
        chosen = [each.episode_id for each in found if each.source not in ("summary", "introspection")]
    return CompressionRequest(options.group, tuple(chosen), options.turn, options.alternative)


def list_summaries(options: Namespace) -> None:
    found = with_home(
        options,
        lambda raven: raven.summaries.summaries(
            options.tenant,
            group_id=options.group,
            with_deleted=options.deleted,
            limit=options.limit,
            after=options.after,
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], _LISTED, empty="no summaries")


def show_summary(options: Namespace) -> None:
    found = with_home(options, lambda raven: raven.summaries.summary(options.tenant, options.summary_id))
    show_fields(options.output, found.as_json())


def write_summary(options: Namespace) -> None:
    async def work(raven: TwinRaven) -> dict[str, object]:
        wish = await _wish(raven, options)
        return (await raven.summaries.write(wish, options.content, by=local_operator(options))).as_json()

    show_fields(options.output, with_home(options, work))


def repair_summary(options: Namespace) -> None:
    found = with_home(
        options,
        lambda raven: raven.summaries.repair(options.summary_id, options.content, by=local_operator(options)),
    )
    show_fields(options.output, found.as_json())


def state_coverage(options: Namespace) -> None:
    found = with_home(
        options,
        lambda raven: raven.summaries.backfill(
            options.summary_id, options.turn, options.alternative, by=local_operator(options)
        ),
    )
    show_fields(options.output, found.as_json())


def delete_summary(options: Namespace) -> None:
    begun = with_home(
        options,
        lambda raven: raven.summaries.delete(
            options.summary_id, by=local_operator(options), recompress=options.recompress
        ),
    )
    show_fields(
        options.output,
        {"summary_id": options.summary_id, "deleted": True, "compression": begun and begun.compression_id},
    )
