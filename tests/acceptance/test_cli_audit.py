"""`twinraven audit` at the terminal: shown, verified, anchored, erased."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, call, calls_file, home_in
from twinraven.storage.sqlite import library


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home where three things happened."""
    project = tmp_path / "project"
    project.mkdir()
    shell = home_in(project)
    for name in ("one", "two", "three"):
        shell.succeed("secrets", "set", name, stdin=f"value of {name}".encode())
    return shell


def tamper(shell: Shell, *statements: str) -> None:
    """Change the file with a program of one's own."""
    raw = library.connect(str(shell.folder / ".twinraven" / "twinraven.db"), isolation_level=None)
    triggers = raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for statement in (*(f"DROP TRIGGER {name}" for (name,) in triggers), *statements):
        raw.execute(statement)
    raw.close()


def test_entries_are_listed_and_shown(shell: Shell) -> None:
    """The list is narrowed by what one asks for, oldest first, and one entry is shown whole."""
    listed = shell.json("audit", "show")
    assert [entry["sequence"] for entry in listed] == [1, 2, 3]
    assert {entry["event_type"] for entry in listed} == {"secret.created"}
    about = listed[1]["subject_id"]
    assert [entry["sequence"] for entry in shell.json("audit", "show", "--subject", about)] == [2]
    assert [entry["sequence"] for entry in shell.json("audit", "show", "--limit", "1", "--before", "3")] == [2]
    assert shell.json("audit", "show", "--event", "nothing.happened") == []
    assert shell.json("audit", "show", listed[0]["id"])["data_json"] == {"name": "one", "type": "api_key"}
    assert "secret.created" in shell.succeed("audit", "show").text
    assert shell.run("audit", "show", "0" * 32).code == 2


@pytest.mark.req("CH-18")
def test_verify_says_whether_and_where(shell: Shell) -> None:
    """An untouched log ends with 0; a changed one with 1, the first bad entry and the reason."""
    assert shell.json("audit", "verify")["ok"] is True
    tamper(shell, "UPDATE audit_log SET actor_id = 'somebody else' WHERE sequence = 2")
    ended = shell.run("audit", "verify", "--output", "json")
    assert ended.code == 1
    assert (ended.json["first_bad_sequence"], ended.json["kind"]) == (2, "edited")
    assert "broken" in shell.run("audit", "verify").text


@pytest.mark.req("CH-18")
def test_an_older_file_is_found_with_an_anchor(shell: Shell) -> None:
    """Putting yesterday's database back contradicts what was anchored since."""
    database = shell.folder / ".twinraven" / "twinraven.db"
    outside = shell.folder.parent / "anchors.jsonl"
    yesterday = database.read_bytes()
    shell.succeed("secrets", "rm", "two")
    assert shell.json("audit", "anchor", str(outside))["sequence"] == 4
    assert shell.json("audit", "verify", "--anchor", str(outside))["ok"] is True
    database.write_bytes(yesterday)
    assert shell.json("audit", "verify")["ok"] is True
    ended = shell.run("audit", "verify", "--anchor", str(outside), "--output", "json")
    assert (ended.code, ended.json["kind"]) == (1, "truncated")
    assert shell.run("audit", "verify", "--anchor", "missing").code == 2


@pytest.mark.req("CH-18")
def test_remembered_calls_are_put_under_the_chain(shell: Shell) -> None:
    """After sealing, a call changed behind the log's back is found."""
    calls = [call("s", number) for number in range(5)]
    shell.succeed("import", str(calls_file(shell.folder / "calls.jsonl", calls)))
    assert shell.json("audit", "seal") == {"entries": 1, "calls": 5}
    assert shell.json("audit", "seal") == {"entries": 0, "calls": 0}
    assert shell.json("audit", "verify")["sealed_reads"] == 5
    tamper(shell, "UPDATE muninn_event_log SET tool_id = 'another' WHERE arrival = 3")
    ended = shell.run("audit", "verify", "--output", "json")
    assert (ended.code, ended.json["kind"]) == (1, "reads")
    assert shell.json("audit", "verify", "--no-reads")["ok"] is True


def test_erasing_nothing_is_refused(shell: Shell) -> None:
    """An entry without personal details has none to erase, and a reason must be given."""
    entry = shell.json("audit", "show")[0]["id"]
    assert shell.run("audit", "erase", entry, "--reason", "asked for").code == 2
    assert shell.run("audit", "erase", entry).code == 2
