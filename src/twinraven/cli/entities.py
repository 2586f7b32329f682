"""`twinraven entities`: the people, places and things that episodes are about."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twinraven.cli.arguments import count
from twinraven.cli.output import Column, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.people import user_name

if TYPE_CHECKING:
    from twinraven.knowledge import Entities

T = TypeVar("T")

_CATEGORIES = ("Person", "Organization", "Project", "Concept", "Object", "Event", "Place")
_LISTED = (
    Column("entity_id", "ID"),
    Column("name", "NAME", shrinks=True),
    Column("category", "CATEGORY"),
    Column("group_id", "GROUP", shrinks=True),
    Column("mentions", "MENTIONS", right=True),
    Column("inferred_by", "BY"),
    Column("summary", "SUMMARY", shrinks=True),
)
_PROPOSED = (
    Column("similarity", "ALIKE", right=True),
    Column("first_name", "FIRST", shrinks=True),
    Column("second_name", "SECOND", shrinks=True),
    Column("first_id", "FIRST ID"),
    Column("second_id", "SECOND ID"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven entities list --group dialogue-1\ntwinraven entities proposals")
    _register_list(parser.command("list", "entities, without those merged away"))
    _register_show(parser.command("show", "one entity with its sources, facts and relations"))
    _register_create(parser.command("create", "make an entity of your own"))
    _register_merge(parser.command("merge", "make one of two entities"))
    _register_undo(parser.command("undo", "put back what a merge moved"))
    _register_proposals(parser.command("proposals", "entities that may be one, with the evidence"))


def _register_list(parser: CommandParser) -> None:
    parser.add_argument("--group", metavar="GROUP", help="only of this group")
    parser.add_argument("--category", choices=_CATEGORIES, help="only of this category")
    parser.add_argument("--name", metavar="TEXT", help="only those whose name holds this text")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--after", metavar="ID", help="go on behind this entity id")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_entities, example="twinraven entities list --category Person --output json")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("entity_id", metavar="ID", help="the entity's id")
    parser.takes_output("table", "json")
    parser.runs(show_entity, example="twinraven entities show 5f0c…")


def _register_create(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what it is called")
    parser.add_argument("--summary", metavar="TEXT", required=True, help="what it is, in a sentence")
    parser.add_argument("--category", choices=_CATEGORIES, help="what kind of thing it is")
    parser.add_argument("--group", metavar="GROUP", default="default", help='its group (default: "default")')
    parser.takes_output("table", "json")
    parser.runs(
        create_entity,
        example="twinraven entities create Ann --summary baker --category Person --group dialogue-1",
    )


def _register_merge(parser: CommandParser) -> None:
    parser.add_argument("first", metavar="ID", help="the entity that stays, unless only the other is a user's own")
    parser.add_argument("second", metavar="OTHER", help="the entity that goes into it")
    parser.takes_output("table", "json")
    parser.runs(merge_entities, example="twinraven entities merge 5f0c… 81aa…")


def _register_undo(parser: CommandParser) -> None:
    parser.add_argument("merge_id", metavar="MERGE", help="the merge's id, as `merge` printed it")
    parser.takes_output("table", "json")
    parser.runs(undo_merge, example="twinraven entities undo 9c1d…")


def _register_proposals(parser: CommandParser) -> None:
    parser.add_argument("--group", metavar="GROUP", help="only compare entities of this group")
    parser.add_argument(
        "--merge-certain", action="store_true", help="merge those whose names, digits and category agree"
    )
    parser.add_argument("--reject", nargs=2, metavar="ID", help="say that these two are not one")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_proposals, example="twinraven entities proposals --merge-certain --output json")


def list_entities(options: Namespace) -> None:
    found = _asked(
        options,
        lambda entities: entities.entities(
            options.tenant,
            group_id=options.group,
            category=options.category,
            text=options.name,
            limit=options.limit,
            after=options.after,
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], _LISTED, empty="no entities")


def show_entity(options: Namespace) -> None:
    found = _asked(options, lambda entities: entities.details(options.tenant, options.entity_id))
    show_fields(options.output, found.as_json())


def create_entity(options: Namespace) -> None:
    made = _asked(
        options,
        lambda entities: entities.create(
            options.tenant,
            options.name,
            options.summary,
            category=options.category,
            group_id=options.group,
            created_by=user_name(),
        ),
    )
    show_fields(options.output, made.as_json())


def merge_entities(options: Namespace) -> None:
    merged = _asked(
        options, lambda entities: entities.merge(options.tenant, options.first, options.second, by=user_name())
    )
    show_fields(options.output, merged.as_json())


def undo_merge(options: Namespace) -> None:
    undone = _asked(options, lambda entities: entities.undo(options.tenant, options.merge_id))
    show_fields(options.output, undone.as_json())


def show_proposals(options: Namespace) -> None:
    if options.reject is not None:
        first, second = options.reject
        _asked(options, lambda entities: entities.reject(options.tenant, first, second, by=user_name()))
    found = _asked(
        options,
        lambda entities: entities.find_proposals(
            options.tenant, group_id=options.group, merges_certain=options.merge_certain
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], _PROPOSED, empty="no proposals")


def _asked(options: Namespace, question: Callable[[Entities], Coroutine[Any, Any, T]]) -> T:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        return asyncio.run(question(raven.entities))
