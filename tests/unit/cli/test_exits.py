"""From errors to exit codes."""

from __future__ import annotations

import json

import pytest

from twinraven.cli.exits import LISTS, exit_code, guarded, wants_json
from twinraven.cli.parser import build_parser
from twinraven.foundation.errors import (
    AppendOnly,
    CallInProgress,
    InvalidDefinition,
    InvalidInput,
    InvalidSetting,
    NotFound,
    PolicyViolation,
    SchemaOutdated,
    StorageBusy,
    ToolTimeout,
    TwinRavenError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput, 2),
        (InvalidSetting, 2),
        (InvalidDefinition, 2),
        (NotFound, 2),
        (StorageBusy, 3),
        (SchemaOutdated, 3),
        (AppendOnly, 3),
        (ToolTimeout, 1),
        (PolicyViolation, 1),
        (CallInProgress, 1),
        (TwinRavenError, 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: type[TwinRavenError], code: int) -> None:
    """Scripts can tell bad input, trouble with the store and failure apart."""
    assert exit_code(error.code) == code


def fail_with(error: BaseException) -> int:
    raise error


def test_an_error_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """What went wrong, and the fix where one is known."""
    assert guarded([], lambda: fail_with(SchemaOutdated("too old"))) == 3
    assert capsys.readouterr().err == "twinraven: error: too old\nfix: twinraven db upgrade\n"
    assert guarded([], lambda: fail_with(NotFound("no tool 'x'"))) == 2
    assert capsys.readouterr().err == "twinraven: error: no tool 'x'\n"


@pytest.mark.parametrize(
    ("details", "lists"),
    [
        ({"run_id": "x"}, "runs"),
        ({"field": "entity_id"}, "entities"),
        ({"subject": "goal", "subject_id": "x"}, "goals"),
    ],
)
def test_what_is_not_there_names_the_command_that_lists_what_is(
    capsys: pytest.CaptureFixture[str], details: dict[str, str], lists: str
) -> None:
    """An id that nothing has is answered with where the ids are."""
    assert guarded([], lambda: fail_with(NotFound("nothing of that id", **details))) == 2
    assert capsys.readouterr().err == f"twinraven: error: nothing of that id\nfix: twinraven {lists} list\n"


def test_every_list_that_is_named_can_be_typed() -> None:
    """The commands of those fixes need nothing more."""
    parse = build_parser().parse_args
    assert all(parse(command.split()).run for command in LISTS.values())


def test_a_fault_of_ours_is_a_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug ends with 1 and without a traceback, which is there for those who ask."""
    assert guarded([], lambda: fail_with(ZeroDivisionError("by zero"))) == 1
    assert "a fault inside TwinRaven: ZeroDivisionError: by zero\nfix: " in capsys.readouterr().err
    monkeypatch.setenv("TWINRAVEN_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        guarded([], lambda: fail_with(ZeroDivisionError("by zero")))


def test_an_error_for_programs_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """Code, words and fields, with values that are no JSON as text."""
    assert guarded(["--output", "json"], lambda: fail_with(NotFound("gone", ids={1, 2}))) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["code"], error["message"], error["details"]) == ("NOT_FOUND", "gone", {"ids": "{1, 2}"})


def test_ctrl_c_and_early_ends_have_their_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """130 for an interruption; argparse's own exits pass."""
    assert guarded([], lambda: fail_with(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "twinraven: interrupted\n"
    assert guarded([], lambda: fail_with(SystemExit(0))) == 0
    assert guarded([], lambda: fail_with(SystemExit())) == 0


def test_programs_are_recognised_before_the_arguments_are_understood() -> None:
    """Both spellings of --output json count, and nothing else."""
    assert wants_json(["x", "--output", "json"])
    assert wants_json(["--output=json"])
    assert not wants_json(["--output", "table", "json"])
    assert not wants_json([])
