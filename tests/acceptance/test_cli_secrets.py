"""`twinraven secrets` at the terminal: set, listed, rotated, removed, never shown."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND, Shell, call, calls_file, home_in

_VALUE = "correct-horse-battery"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return home_in(tmp_path)


def everything_under(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.req("AD-04")
def test_a_secret_lives_its_life_without_being_shown(shell: Shell) -> None:
    """Setting, listing, rotating, renewing the key and removing print everything but the value."""
    said = b""
    for arguments, stdin in (
        (("secrets", "set", "bank", "--type", "password"), f"{_VALUE}\n".encode()),
        (("secrets", "list"), b""),
        (("secrets", "rotate", "bank"), b"another-horse-altogether"),
        (("secrets", "rekey"), b""),
        (("secrets", "list", "--output", "csv"), b""),
        (("audit", "show"), b""),
        (("secrets", "rm", "bank"), b""),
    ):
        ended = shell.succeed(*arguments, stdin=stdin)
        said += ended.out + ended.err.encode()
    assert b"bank" in said
    for value in (_VALUE, "another-horse"):
        assert value.encode() not in said
        assert value.encode() not in everything_under(shell.folder)
    assert shell.json("secrets", "list") == []


@pytest.mark.req("AD-04")
def test_the_id_stays_when_the_value_is_rotated(shell: Shell, tmp_path: Path) -> None:
    """What refers to a secret goes on referring to it."""
    (tmp_path / "value").write_text(_VALUE + "\r\n")
    made = json.loads(shell.succeed("secrets", "set", "bank", "--file", "value", "--output", "json").out)
    turned = json.loads(shell.succeed("secrets", "rotate", "bank", "--output", "json", stdin=b"new-horse").out)
    assert (turned["id"], turned["version"]) == (made["id"], 2)
    assert [one["id"] for one in shell.json("secrets", "list")] == [made["id"]]


@pytest.mark.req("AD-04")
def test_what_is_imported_after_it_was_set_does_not_hold_it(shell: Shell) -> None:
    """A recorded call with the value in its arguments and output is kept with the same token in both."""
    shell.succeed("secrets", "set", "bank", stdin=_VALUE.encode())
    calls = [call("s", 1, params={"key": _VALUE}, output={"echo": f"used {_VALUE}"})]
    shell.succeed("import", str(calls_file(shell.folder.parent / f"{shell.folder.name}.jsonl", calls)))
    event = shell.json("events", "list")[0]
    token = event["input_params"]["key"]
    assert token.startswith("[secret:")
    assert token in event["output_summary"]
    assert _VALUE.encode() not in everything_under(shell.folder)


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("secrets", "rotate", "nothing"), b"value-of-nothing", "no secret 'nothing'"),
        (("secrets", "rm", "nothing"), b"", "no secret 'nothing'"),
        (("secrets", "set", "bank"), b"", "value must have"),
        (("secrets", "set", "bank"), b"\xff\xfe", "not text"),
        (("secrets", "set", "bank", "--file", "missing"), b"", "missing cannot be read"),
        (("secrets", "set", "bank", "--user", "nobody"), b"long-enough", "no user 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said(shell: Shell, arguments: tuple[str, ...], stdin: bytes, said: str) -> None:
    """Bad input ends with 2, a sentence, and not with the value."""
    ended = shell.run(*arguments, stdin=stdin)
    assert ended.code == 2
    assert said in ended.err
    assert "long-enough" not in ended.err


def test_a_name_that_is_taken_is_refused(shell: Shell) -> None:
    """Setting a secret again does not quietly replace it."""
    shell.succeed("secrets", "set", "bank", stdin=_VALUE.encode())
    again = shell.run("secrets", "set", "bank", stdin=b"something-else")
    assert again.code == 1
    assert "rotate it instead" in again.err


def test_on_a_terminal_the_value_is_asked_for_without_echo(shell: Shell) -> None:
    """A person types the value and nobody sees it, not even in the scroll-back."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "secrets", "set", "bank"],
        cwd=shell.folder,
        env=shell.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while b"value of bank: " not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, f"{_VALUE}\n".encode())
    try:
        while part := os.read(ours, 1000):
            shown += part
    except OSError:  # how Linux tells that the other side is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert b"bank" in shown
    assert _VALUE.encode() not in shown
