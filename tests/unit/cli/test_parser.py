"""The shape of the command line, command by command."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from twinraven.cli.parser import GROUPS, CommandParser, build_parser
from twinraven.cli.reference import render_reference
from twinraven.foundation.errors import InvalidInput

COMMANDS = list(build_parser().walk())


@pytest.mark.parametrize("parser", COMMANDS, ids=lambda parser: parser.prog)
def test_every_command_explains_itself(parser: CommandParser) -> None:
    """Each command has a sentence, an example of itself, and a word on each of its arguments."""
    text = parser.format_help()
    assert parser.description
    assert parser.description.endswith(".")
    assert "example:\n  " in text
    assert parser.prog in parser.example
    actions = parser._actions  # pyright: ignore[reportPrivateUsage]
    assert [action.dest for action in actions if not action.help and action.metavar != "COMMAND"] == []


@pytest.mark.parametrize("parser", COMMANDS, ids=lambda parser: parser.prog)
def test_every_command_either_runs_or_has_commands(parser: CommandParser) -> None:
    """What can be typed can be carried out, in any home and for any tenant."""
    runs = callable(parser.get_default("run"))
    assert runs or parser.children
    if runs:
        assert {"--home", "--tenant"} < set(parser._option_string_actions)  # pyright: ignore[reportPrivateUsage]


def test_every_example_parses() -> None:
    """The examples in the help texts are commands that the parser accepts."""
    parse = build_parser().parse_args
    for parser in COMMANDS:
        for line in parser.example.splitlines():
            words = shlex.split(line.partition(" | ")[0])
            assert words[0] == "twinraven"
            parse(words[1:])


def test_every_help_text_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands above the examples is wrapped, also where an argument has many choices, and all of them are named."""
    monkeypatch.setattr("twinraven.cli.parser._help_width", lambda: 78)
    for parser in COMMANDS:
        text = parser.format_help()
        wide = [line for line in text.partition("\nexample:\n")[0].splitlines() if len(line) > 80]
        assert not wide, parser.prog
    reads = next(parser for parser in COMMANDS if parser.prog == "twinraven import").format_help()
    assert "pydantic-ai, chat, otlp" in " ".join(reads.split())


def test_groups_are_named_once() -> None:
    """A group's name leads to one file."""
    assert len({group.name for group in GROUPS}) == len({group.module for group in GROUPS}) == len(GROUPS)


def test_every_listing_can_be_read_by_programs() -> None:
    """A command called `list` prints tables, JSON and CSV."""
    for parser in COMMANDS:
        if parser.prog.endswith(" list"):
            output = parser._option_string_actions["--output"]  # pyright: ignore[reportPrivateUsage]
            assert list(output.choices or ()) == ["table", "json", "csv"]


def test_options_for_every_command_may_stand_on_either_side() -> None:
    """--home and --tenant mean the same before and behind the command, and the nearer one wins."""
    parse = build_parser().parse_args
    assert parse(["sessions", "list"]).tenant == "default"
    assert parse(["--tenant", "a", "sessions", "list"]).tenant == "a"
    assert parse(["--tenant", "a", "sessions", "list", "--tenant", "b", "--home", "x"]).tenant == "b"


def test_words_are_not_guessed_from_their_beginnings() -> None:
    """An option must be written out, so that a new one never changes what an old script means."""
    with pytest.raises(InvalidInput, match="--out"):
        build_parser().parse_args(["sessions", "list", "--out", "json"])


def test_the_reference_is_what_the_parser_says() -> None:
    """docs/cli.md is up to date; `python -m twinraven.cli.reference > docs/cli.md` makes it so."""
    page = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == render_reference()
    assert argparse.SUPPRESS not in render_reference()
