"""The first commands somebody types: help under headings, status, completion."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, call, calls_file, home_in
from twinraven.cli.parser import GROUPS


def test_status_counts_what_is_there_and_names_the_next_command(tmp_path: Path) -> None:
    """An empty home is told how to get traces, a filled one to learn from them."""
    shell = home_in(tmp_path)
    empty = shell.json("status")
    assert (empty["sessions"], empty["next"].startswith("twinraven import")) == (0, True)
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("a", 1), call("b", 1), call("b", 2)])))
    filled = shell.json("status")
    assert (filled["sessions"], filled["events"], filled["next"]) == (2, 3, "twinraven learn")


def test_help_shows_every_command_once_under_a_heading(tmp_path: Path) -> None:
    """`--help`, `help` and no argument at all list the groups; `help COMMAND` is that command's help."""
    shell = Shell(tmp_path)
    said = shell.succeed("--help").text
    assert shell.succeed("help").text == said
    lines = [line.split()[0] for line in said.splitlines() if line.startswith("  ") and line.split()]
    assert [lines.count(group.name) for group in GROUPS] == [1] * len(GROUPS)
    assert shell.succeed("help", "sessions", "list").text == shell.succeed("sessions", "list", "--help").text
    assert shell.succeed("version").text == shell.succeed("-V").text == shell.succeed("--version").text


@pytest.mark.parametrize(
    ("typed", "offered"), [("regis", ["registry"]), ("registry ro", ["rollback"]), ("sessions list --lim", ["--limit"])]
)
def test_bash_completes_commands_and_options(tmp_path: Path, typed: str, offered: list[str]) -> None:
    """The printed script, evaluated by a real bash, offers what fits the words so far."""
    script = Shell(tmp_path).succeed("completion", "bash").text
    words = ["twinraven", *typed.split(" ")]
    asked = (
        f"{script}\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _twinraven; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, check=True, text=True)
    assert done.stdout.split() == offered
