"""`twinraven episodes`: import, list and show what was said."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count, moment
from twinraven.cli.exits import BAD_INPUT, DONE
from twinraven.cli.output import Progress, TableColumn, clean, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.knowledge import EpisodeFilter, EpisodeImport

_SHOWN_REASONS = 20
_LISTED = (
    TableColumn("group_id", "GROUP", shrinks=True),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("valid_at", "SAID", text=short_time),
    TableColumn("speaker", "SPEAKER"),
    TableColumn("source", "SOURCE"),
    TableColumn("content", "CONTENT", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven episodes import dialogue.jsonl\ntwinraven episodes list --group dialogue-1")
    _register_import(parser.command("import", "remember the episodes of a JSON Lines file"))
    _register_list(parser.command("list", "episodes in their order"))
    _register_show(parser.command("show", "one episode, whole"))


def _register_import(parser: CommandParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="an episode a line: group_id, name, content, and source, speaker, valid_at if known; - is standard input",
    )
    parser.takes_output("table", "json")
    parser.runs(import_episodes, example="twinraven episodes import dialogue.jsonl --output json")


def _register_list(parser: CommandParser) -> None:
    add_filters(parser)
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--after", metavar="ID", help="go on behind this episode id")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_episodes, example="twinraven episodes list --group dialogue-1 --speaker Ann")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="ID", help="the episode's id or, with --group, its name")
    parser.add_argument("--group", metavar="GROUP", help="the group whose episode has this name")
    parser.takes_output("table", "json")
    parser.runs(show_episode, example="twinraven episodes show D1:3 --group dialogue-1")


def add_filters(parser: CommandParser) -> None:
    """Let the caller choose episodes by group, speaker, source and time."""
    parser.add_argument("--group", metavar="GROUP", help="only of this group")
    parser.add_argument("--speaker", metavar="NAME", help="only what this speaker said")
    parser.add_argument("--source", metavar="SOURCE", help="only of this source")
    parser.add_argument("--since", type=moment, metavar="TIME", help="only from this time on")
    parser.add_argument("--until", type=moment, metavar="TIME", help="only before this time")


def filter_of(options: Namespace) -> EpisodeFilter:
    from twinraven.knowledge import EpisodeFilter

    return EpisodeFilter(options.speaker, options.source, options.since, options.until)


def import_episodes(options: Namespace) -> int:
    import asyncio
    from pathlib import Path

    from twinraven.cli.home import opened
    from twinraven.muninn import open_lines

    path = None if options.file == "-" else Path(options.file)
    with open_lines(path) as lines, opened(options) as raven, Progress("episodes") as progress:
        report = asyncio.run(raven.knowledge.import_lines(options.tenant, lines, progress=progress))
    found = report.as_json()
    if options.output == "json":
        show_json(found)
    else:
        show_fields("table", {name: found[name] for name in ("added", "present", "conflicts", "refused")})
        _warn(report)
    understood = report.done.added + report.done.present + len(report.done.conflicts)
    return BAD_INPUT if report.refused and not understood else DONE


def _warn(report: EpisodeImport) -> None:
    for name in report.done.conflicts[:_SHOWN_REASONS]:
        print(f"twinraven: warning: {clean(name)} exists with other content, which stays", file=sys.stderr)
    for each in report.refusals[:_SHOWN_REASONS]:
        print(f"twinraven: warning: line {each.line}: {clean(each.reason)}", file=sys.stderr)


def list_episodes(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        found = asyncio.run(
            raven.knowledge.episodes(
                options.tenant,
                group_id=options.group,
                wanted=filter_of(options),
                limit=options.limit,
                after=options.after,
            )
        )
    show_rows(options.output, [each.as_json() for each in found], _LISTED, empty="no episodes")


def show_episode(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        knowledge = raven.knowledge
        found = asyncio.run(
            knowledge.episode(options.tenant, options.name)
            if options.group is None
            else knowledge.named_episode(options.tenant, options.group, options.name)
        )
    show_fields(options.output, found.as_json())
