"""How commands end, and what they show on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND, Shell, call, calls_file, home_in
from twinraven import __version__


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with enough in its log to fill a pipe."""
    shell = home_in(tmp_path)
    calls = [call(f"session-{n:04}", 1, output="x" * 200, session_outcome="success") for n in range(1500)]
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", calls)))
    return shell


def on_terminal(shell: Shell, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """What a command shows on a terminal, stdout and stderr together."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [COMMAND, *arguments],
        cwd=shell.folder,
        env=shell.environment({"TERM": "xterm", **(env or {})}),
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux tells that the other side is closed
                break
            if not part:
                break
            shown += part
        assert process.wait(60) == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_version_and_help_succeed(tmp_path: Path) -> None:
    """Both work without a home, on stdout; a bare command shows the help on stderr and is bad usage."""
    shell = Shell(tmp_path)
    assert shell.succeed("--version").text == f"twinraven {__version__}\n"
    assert "sessions" in shell.succeed("--help").text
    assert "example:" in shell.succeed("sessions", "list", "--help").text
    bare = shell.run()
    assert (bare.code, bare.out) == (2, b"")
    assert "usage: twinraven" in bare.err


def test_bad_usage_names_the_command_that_can_explain_itself(tmp_path: Path) -> None:
    """Unknown words are refused with the nearest known one and the command to ask for help."""
    shell = Shell(tmp_path)
    for arguments, words in {
        ("sesions", "list"): ("did you mean sessions?", "fix: twinraven --help"),
        ("sessions", "lst"): ("did you mean list?", "fix: twinraven sessions --help"),
        ("sessions", "list", "--limt", "3"): ("--limt", "fix: twinraven sessions list --help"),
        ("sessions", "list", "--lim", "3"): ("--lim", "fix: twinraven sessions list --help"),
        ("sessions", "list", "--limit", "-3"): ("whole number", "fix: twinraven sessions list --help"),
        ("events", "list", "--since", "lately"): ("2026-03-01T12:00:00Z", "fix: twinraven events list --help"),
        ("sessions",): ("COMMAND", "fix: twinraven sessions --help"),
    }.items():
        ended = shell.run(*arguments)
        assert (ended.code, ended.out) == (2, b"")
        assert ended.err.startswith("twinraven: error: ")
        assert all(word in ended.err for word in words), ended.err


def test_programs_get_errors_as_json(tmp_path: Path) -> None:
    """With --output json an error is one object on stderr, also when the usage is wrong."""
    shell = Shell(tmp_path)
    for arguments in (("sessions", "list", "--output", "json"), ("sessions", "list", "--output=json", "--nonsense")):
        ended = shell.run(*arguments)
        error = json.loads(ended.err)["error"]
        assert (ended.code, ended.out) == (2, b"")
        assert {"code", "message", "retryable", "details", "fix"} == set(error)


def test_trouble_with_the_store_ends_with_three(tmp_path: Path) -> None:
    """A damaged database is neither bad input nor a fault of the program."""
    shell = home_in(tmp_path)
    (tmp_path / ".twinraven" / "twinraven.db").write_bytes(b"not a database at all" * 100)
    ended = shell.run("sessions", "list", "--output", "json")
    assert ended.code == 3
    assert json.loads(ended.err)["error"]["code"] == "STORAGE_CORRUPT"


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    """When the pipe closes, the command stops without a word."""
    for arguments in (("export", "json", "-"), ("sessions", "list", "--limit", "1500")):
        with subprocess.Popen(
            [COMMAND, *arguments],
            cwd=shell.folder,
            env=shell.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(60) == 141


def test_output_that_cannot_be_written_is_an_error(shell: Shell) -> None:
    """A full disk behind stdout fails the command, without a traceback."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [COMMAND, "export", "json", "-"],
            cwd=shell.folder,
            env=shell.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"twinraven: error:")
    assert b"Traceback" not in done.stderr


def test_text_in_the_wrong_encoding_is_shown_as_well_as_it_can_be(tmp_path: Path) -> None:
    """A terminal that knows ASCII alone gets a table, and JSON is UTF-8 wherever it goes."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", [call("früh-三", 1)])))
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert b"fr?h-?" in shell.succeed("sessions", "list", env=ascii_only).out
    assert "früh-三".encode() in shell.succeed("sessions", "list", "--output", "json", env=ascii_only).out
    assert "früh-三".encode() in shell.succeed("sessions", "list", "--output", "csv", env=ascii_only).out


def test_a_terminal_gets_colours_and_lines_that_fit(shell: Shell) -> None:
    """Tables are cut to the terminal's width and coloured, unless NO_COLOR asks for none; JSON is indented."""
    coloured = on_terminal(shell, "sessions", "list", "--limit", "2", env={"COLUMNS": "60"})
    assert "\x1b[32msuccess" in coloured
    assert re.search(r"there may be more: --after session-[0-9]{4}", coloured)
    plain = on_terminal(shell, "sessions", "show", "session-0001", env={"COLUMNS": "60", "NO_COLOR": "1"})
    assert "\x1b" not in plain
    assert max(len(line) for line in plain.splitlines()) == 60
    assert "…" in plain
    assert on_terminal(shell, "sessions", "list", "--limit", "1", "--output", "json").startswith('[\n  {\n    "session')


def test_nothing_is_cut_or_coloured_in_a_pipe(shell: Shell) -> None:
    """Whoever reads a table from a pipe gets the whole of it."""
    text = shell.succeed("sessions", "show", "session-0001", env={"COLUMNS": "20"}).text
    assert "x" * 200 in text
    assert "\x1b" not in text


def test_progress_is_for_terminals_alone(shell: Shell) -> None:
    """An import shows how far it is where somebody watches, and nowhere else."""
    more = calls_file(shell.folder / "more.jsonl", [call(f"m{n}", 1) for n in range(20_000)])
    watched = on_terminal(shell, "import", str(more))
    assert "lines, " in watched
    assert shell.succeed("import", str(more)).err == ""
