"""`twinraven entities`: the people, places and things that episodes are about."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.people import user_name
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from datetime import datetime

    from twinraven.knowledge import Entities, TemporalFact

T = TypeVar("T")

_CATEGORIES = ("Person", "Organization", "Project", "Concept", "Object", "Event", "Place")
_LISTED = (
    TableColumn("entity_id", "ID"),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("category", "CATEGORY"),
    TableColumn("group_id", "GROUP", shrinks=True, spare=1),
    TableColumn("mentions", "MENTIONS", right=True, spare=2),
    TableColumn("inferred_by", "BY", spare=3),
    TableColumn("summary", "SUMMARY", shrinks=True, spare=4),
)
_PROPOSED = (
    TableColumn("similarity", "ALIKE", right=True),
    TableColumn("first_name", "FIRST", shrinks=True, spare=1),
    TableColumn("second_name", "SECOND", shrinks=True, spare=1),
    TableColumn("first_id", "FIRST ID"),
    TableColumn("second_id", "SECOND ID"),
)


_MERGED = (
    TableColumn("merge_id", "MERGE"),
    TableColumn("kept_name", "KEPT", shrinks=True),
    TableColumn("gone_name", "MERGED", shrinks=True),
    TableColumn("merged_at", "AT", text=short_time, spare=2),
    TableColumn("merged_by", "BY", spare=3),
    TableColumn("undone_at", "UNDONE", text=short_time, spare=1),
)
_FACTS = (
    TableColumn("relation", "RELATION"),
    TableColumn("value", "VALUE", shrinks=True),
    TableColumn("valid_at", "FROM", text=short_time),
    TableColumn("invalid_at", "UNTIL", text=short_time),
    TableColumn("source", "SOURCE", spare=1),
    TableColumn("confidence", "CONFIDENCE", right=True, spare=2),
    TableColumn("episode", "EPISODE", shrinks=True, spare=3),
)
_BESIDE = (
    TableColumn("entity_id", "ID"),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("shared_turns", "TURNS", right=True),
)
_ACTIVE = (
    TableColumn("entity_id", "ID"),
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("relevance", "RELEVANCE", right=True),
    TableColumn("why", "WHY", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven entities list --group dialogue-1\ntwinraven entities proposals")
    _register_list(parser.command("list", "entities, without those merged away"))
    _register_show(parser.command("show", "one entity with its sources, facts and relations"))
    _register_create(parser.command("create", "make an entity of your own"))
    _register_merge(parser.command("merge", "make one of two entities"))
    _register_undo(parser.command("undo", "put back what a merge moved"))
    _register_merges(parser.command("merges", "what was merged, the newest first"))
    _register_facts(parser.command("facts", "the facts and relations of an entity, also those that have ended"))
    _register_state(parser.command("state", "state a fact; one that it contradicts ends and stays as history"))
    _register_neighbours(parser.command("neighbours", "who shares an entity's turns, and how they are related"))
    _register_enrich(parser.command("enrich", "add what the episodes say of an entity now"))
    _register_active(parser.command("active", "the entities of a conversation by relevance, each with the reason"))
    _register_place(parser.command("place", "put an entity into a conversation, or take it out"))
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
    parser.add_argument("merge_id", metavar="MERGE", help="the merge's id, as `merge` and `merges` print it")
    parser.takes_output("table", "json")
    parser.runs(undo_merge, example="twinraven entities undo 9c1d…")


def _register_merges(parser: CommandParser) -> None:
    parser.add_argument("entity_id", nargs="?", metavar="ID", help="only those of this entity")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--after", metavar="MERGE", help="go on behind this merge")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_merges, example="twinraven entities merges --limit 5")


def _register_facts(parser: CommandParser) -> None:
    parser.add_argument("entity_id", metavar="ID", help="the entity's id")
    parser.add_argument("--relation", metavar="NAME", help="only this relation, such as lives_in")
    parser.add_argument("--at", metavar="TIME", help="only what was true at this time (ISO 8601)")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_facts, example="twinraven entities facts 5f0c… --relation lives_in --at 2023-05-08")


def _register_state(parser: CommandParser) -> None:
    parser.add_argument("entity_id", metavar="ID", help="the entity's id")
    parser.add_argument("relation", metavar="RELATION", help="such as lives_in")
    parser.add_argument("value", metavar="VALUE", help="such as Lisbon")
    parser.add_argument("--since", metavar="TIME", help="from when it is true (ISO 8601; default: now)")
    parser.add_argument("--object", metavar="OTHER", help="the entity that the value names")
    parser.add_argument("--several", action="store_true", help="other values of the relation go on being true")
    parser.takes_output("table", "json", "csv")
    parser.runs(state_fact, example="twinraven entities state 5f0c… lives_in Lisbon --since 2023-05-08")


def _register_neighbours(parser: CommandParser) -> None:
    parser.add_argument("entity_id", metavar="ID", help="the entity's id")
    parser.takes_output("table", "json")
    parser.runs(show_neighbours, example="twinraven entities neighbours 5f0c… --output json")


def _register_enrich(parser: CommandParser) -> None:
    parser.add_argument("entity_id", metavar="ID", help="the entity's id")
    parser.takes_output("table", "json")
    parser.runs(enrich_entity, example="twinraven entities enrich 5f0c…")


def _register_active(parser: CommandParser) -> None:
    parser.add_argument("--group", required=True, metavar="GROUP", help="the conversation")
    parser.takes_output("table", "json", "csv")
    parser.runs(show_active, example="twinraven entities active --group dialogue-1")


def _register_place(parser: CommandParser) -> None:
    parser.add_argument("entity_id", metavar="ID", help="the entity's id")
    parser.add_argument("--group", required=True, metavar="GROUP", help="the conversation")
    parser.add_argument("--out", action="store_true", help="take it out")
    parser.add_argument("--no-summary", action="store_true", help="leave its summary out of the working memory")
    parser.add_argument("--facets", action="store_true", help="with its facets")
    parser.add_argument("--relationships", action="store_true", help="with its relations")
    parser.takes_output("table", "json", "csv")
    parser.runs(place_entity, example="twinraven entities place 5f0c… --group dialogue-1 --relationships")


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


def show_merges(options: Namespace) -> None:
    found = _asked(
        options,
        lambda entities: entities.merges(
            options.tenant, entity_id=options.entity_id, limit=options.limit, after=options.after
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], _MERGED, empty="no merges")


def show_facts(options: Namespace) -> None:
    at = _moment(options.at, "at")
    found = _asked(
        options,
        lambda entities: entities.facts(options.tenant, options.entity_id, relation=options.relation, at=at),
    )
    show_rows(options.output, [each.as_json() for each in found], _FACTS, empty="no facts")


def state_fact(options: Namespace) -> None:
    since = _moment(options.since, "since")

    async def work(entities: Entities) -> list[TemporalFact]:
        await entities.state(
            options.tenant,
            options.entity_id,
            options.relation,
            options.value,
            valid_at=since,
            object_id=options.object,
            is_single=not options.several,
        )
        return await entities.facts(options.tenant, options.entity_id, relation=options.relation)

    show_rows(options.output, [each.as_json() for each in _asked(options, work)], _FACTS, empty="no facts")


def show_neighbours(options: Namespace) -> None:
    found = _asked(options, lambda entities: entities.neighbourhood(options.tenant, options.entity_id)).as_json()
    if options.output == "json":
        show_json(found)
    else:
        show_rows("table", found["neighbours"], _BESIDE, empty="nobody beside it")
        show_rows("table", found["relations"], _FACTS, empty="no relations")


def enrich_entity(options: Namespace) -> None:
    found = _asked(options, lambda entities: entities.enrich(options.tenant, options.entity_id))
    show_fields(options.output, found.as_json())


def show_active(options: Namespace) -> None:
    found = _asked(options, lambda entities: entities.active(options.tenant, options.group))
    show_rows(options.output, [each.as_json() for each in found], _ACTIVE, empty="no active entities")


def place_entity(options: Namespace) -> None:
    found = _asked(
        options,
        lambda entities: entities.place(
            options.tenant,
            options.group,
            options.entity_id,
            is_active=not options.out,
            include_summary=not options.no_summary,
            include_facets=options.facets,
            include_relationships=options.relationships,
        ),
    )
    show_rows(options.output, [each.as_json() for each in found], _ACTIVE, empty="no active entities")


def _moment(text: str | None, field: str) -> datetime | None:
    from twinraven.knowledge import parse_moment

    return None if text is None else parse_moment(text, field=field)


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
