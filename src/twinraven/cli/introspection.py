"""`twinraven introspection`: the notes that an agent keeps of a user."""

from __future__ import annotations

from argparse import Namespace

from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, local_operator, with_home
from twinraven.cli.times import short_time

_LISTED = (
    TableColumn("position", "PLACE", right=True),
    TableColumn("introspection_id", "ID"),
    TableColumn("created_at", "MADE", text=short_time, spare=3),
    TableColumn("made_by", "BY", spare=1),
    TableColumn("archived_because", "ARCHIVED", spare=4),
    TableColumn("conversation_context", "CONTEXT", shrinks=True, spare=2),
    TableColumn("content", "CONTENT", shrinks=True),
)
_REFLECTED = (
    TableColumn("reflection_id", "ID"),
    TableColumn("group_id", "CONVERSATION", shrinks=True),
    TableColumn("first_compression", "FROM", right=True, spare=2),
    TableColumn("last_compression", "TO", right=True, spare=2),
    TableColumn("replaces", "REPLACES", right=True, spare=3),
    TableColumn("state", "STATE"),
    TableColumn("error", "ERROR", shrinks=True),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven introspection list\ntwinraven introspection add 'Prefers short answers.'")
    _register_list(parser.command("list", "the notes of a user's carousel"))
    _register_show(parser.command("show", "one note with all its contents"))
    _register_add(parser.command("add", "add a note by hand; what stood in its place is archived"))
    _register_correct(parser.command("correct", "bind a corrected content to a note"))
    _register_delete(parser.command("delete", "take a note out of its carousel; it is archived"))
    _register_reflections(parser.command("reflections", "what the reflective agent did for a user"))


def _add_user(parser: CommandParser) -> None:
    parser.add_argument("--user", metavar="USER", help="whose notes (default: the local user's)")


def _register_list(parser: CommandParser) -> None:
    _add_user(parser)
    parser.add_argument("--archived", action="store_true", help="also those that were replaced or deleted")
    parser.takes_output("table", "json", "csv")
    parser.runs(list_notes, example="twinraven introspection list --archived --output json")


def _register_show(parser: CommandParser) -> None:
    parser.add_argument("introspection_id", metavar="ID", help="the note's id")
    parser.takes_output("table", "json")
    parser.runs(show_note, example="twinraven introspection show 5f0c…")


def _register_add(parser: CommandParser) -> None:
    parser.add_argument("content", metavar="TEXT", help="the note")
    _add_user(parser)
    parser.add_argument("--position", type=int, metavar="N", help="its place (default: where the next one goes)")
    parser.add_argument("--context", metavar="TEXT", help="which conversation led to it")
    parser.takes_output("table", "json")
    parser.runs(add_note, example="twinraven introspection add 'Prefers short answers.' --position 3")


def _register_correct(parser: CommandParser) -> None:
    parser.add_argument("introspection_id", metavar="ID", help="the note's id")
    parser.add_argument("content", metavar="TEXT", help="the corrected content")
    parser.takes_output("table", "json")
    parser.runs(correct_note, example="twinraven introspection correct 5f0c… 'Prefers long answers.'")


def _register_delete(parser: CommandParser) -> None:
    parser.add_argument("introspection_id", metavar="ID", help="the note's id")
    parser.takes_output("table", "json")
    parser.runs(delete_note, example="twinraven introspection delete 5f0c…")


def _register_reflections(parser: CommandParser) -> None:
    _add_user(parser)
    parser.takes_output("table", "json", "csv")
    parser.runs(list_reflections, example="twinraven introspection reflections --output json")


def _user(options: Namespace) -> str:
    return options.user or local_caller(options).user_id


def list_notes(options: Namespace) -> None:
    found = with_home(
        options,
        lambda raven: raven.introspections.notes(options.tenant, _user(options), with_archived=options.archived),
    )
    show_rows(options.output, [each.as_json() for each in found], _LISTED, empty="no notes")


def show_note(options: Namespace) -> None:
    found = with_home(options, lambda raven: raven.introspections.note(options.tenant, options.introspection_id))
    show_fields(options.output, found.as_json())


def add_note(options: Namespace) -> None:
    made = with_home(
        options,
        lambda raven: raven.introspections.add(
            _user(options),
            options.content,
            by=local_operator(options),
            position=options.position,
            conversation_context=options.context,
        ),
    )
    show_fields(options.output, made.as_json())


def correct_note(options: Namespace) -> None:
    found = with_home(
        options,
        lambda raven: raven.introspections.correct(
            options.introspection_id, options.content, by=local_operator(options)
        ),
    )
    show_fields(options.output, found.as_json())


def delete_note(options: Namespace) -> None:
    found = with_home(
        options, lambda raven: raven.introspections.delete(options.introspection_id, by=local_operator(options))
    )
    show_fields(options.output, found.as_json())


def list_reflections(options: Namespace) -> None:
    found = with_home(options, lambda raven: raven.introspections.reflections(options.tenant, _user(options)))
    show_rows(options.output, [each.as_json() for each in found], _REFLECTED, empty="no reflections")
