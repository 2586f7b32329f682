"""`twinraven knowledge`: find what was said."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count
from twinraven.cli.episodes import add_filters, filter_of
from twinraven.cli.output import TableColumn, encode_json, show_fields, show_json, show_rows, write_bytes
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import TwinRaven

_HITS = (
    TableColumn("score", "SCORE", right=True),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("valid_at", "SAID", text=short_time),
    TableColumn("speaker", "SPEAKER"),
    TableColumn("content", "CONTENT", shrinks=True),
    TableColumn("words", "WORDS", shrinks=True),
)
_FACTS = (
    TableColumn("fact", "FACT", shrinks=True),
    TableColumn("relation", "RELATION"),
    TableColumn("valid_at", "FROM", text=short_time),
    TableColumn("invalid_at", "UNTIL", text=short_time),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven knowledge search pottery --group dialogue-1")
    _register_search(parser.command("search", "the episodes that answer a question, each with its reasons"))
    _register_extract(parser.command("extract", "let spaCy or the model read a group's episodes from the beginning"))
    _register_graph(parser.command("graph", "what the knowledge graph holds of a group: entities and temporal facts"))


def _register_graph(parser: CommandParser) -> None:
    parser.add_argument("--group", required=True, metavar="GROUP", help="of which group")
    parser.takes_output("table", "json")
    parser.runs(show_graph, example="twinraven knowledge graph --group dialogue-1 --output json")


def _register_extract(parser: CommandParser) -> None:
    parser.add_argument("--group", required=True, metavar="GROUP", help="of which group")
    parser.add_argument("--by", choices=("spacy", "model"), help="only by this one (default: by all there are)")
    parser.takes_output("table", "json")
    parser.runs(extract_anew, example="twinraven knowledge extract --group dialogue-1 --by model")


def _register_search(parser: CommandParser) -> None:
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the question, or some words")
    parser.add_argument(
        "--queries",
        metavar="FILE",
        help="ask every line of a JSON Lines file: id, group_id, query; - reads standard input",
    )
    add_filters(parser)
    parser.add_argument("--limit", type=count, default=10, metavar="N", help="at most so many hits (default: 10)")
    parser.add_argument(
        "--neighbours", type=count, default=0, metavar="N", help="with so many episodes before and after each hit"
    )
    parser.takes_output("table", "json")
    parser.runs(
        search,
        example="twinraven knowledge search pottery --group dialogue-1 --limit 5 --output json\n"
        "twinraven knowledge search --queries questions.jsonl --limit 10",
    )


def search(options: Namespace) -> None:
    from twinraven.cli.home import opened

    if (options.text is None) == (options.queries is None):
        raise InvalidInput("give either TEXT or --queries FILE", field="text", fix="twinraven knowledge search --help")
    with opened(options) as raven:
        if options.queries is not None:
            _search_all(raven, options)
        else:
            _search_one(raven, options)


def extract_anew(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        chosen = asyncio.run(raven.extraction.read_anew(options.tenant, options.group, by=options.by))
    show_fields(options.output, {"group_id": options.group, "extractors": list(chosen)})


def show_graph(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        held = asyncio.run(raven.knowledge.graph_content(options.tenant, options.group)).as_json()
    if options.output == "json":
        show_json(held)
    else:
        show_rows("table", held["facts"], _FACTS, empty="no facts")


def _search_one(raven: TwinRaven, options: Namespace) -> None:
    import asyncio

    hits = asyncio.run(
        raven.knowledge.search(
            options.tenant,
            options.text,
            group_id=options.group,
            limit=options.limit,
            wanted=filter_of(options),
            neighbours=options.neighbours,
        )
    )
    rows = [hit.as_json() for hit in hits]
    if options.output == "table":
        rows = [{**row, "words": ", ".join([*row["why"]["words"], *row["why"]["related"]])} for row in rows]
    show_rows(options.output, rows, _HITS, empty="nothing found")


def _search_all(raven: TwinRaven, options: Namespace) -> None:
    import asyncio
    from pathlib import Path

    from twinraven.knowledge import read_questions
    from twinraven.muninn import open_lines

    with open_lines(None if options.queries == "-" else Path(options.queries)) as lines:
        asked = read_questions(lines)
    questions = [(each.group_id or options.group, each.query) for each in asked]
    answers = asyncio.run(
        raven.knowledge.search_all(options.tenant, questions, limit=options.limit, wanted=filter_of(options))
    )
    for each, names in zip(asked, answers, strict=True):
        write_bytes(encode_json({"id": each.id, "hits": names}, indent=False) + b"\n")
