"""The log from a shell: import, list, show, judge, export."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import COMMAND, Shell, call, calls_file, home_in

SEED_FIELDS = [
    "event_id",
    "session_id",
    "tool_id",
    "input_hash",
    "input_params",
    "output_summary",
    "predecessor",
    "successor",
    "timestamp",
    "latency_ms",
    "outcome",
    "tags",
]
TWO_SESSIONS = [
    call("a", 1, "find_user", session_outcome="success"),
    call("a", 2, "get_order", session_outcome="success"),
    call("b", 1, "get_order", session_outcome="failure", ok=False),
]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with two sessions in its log."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", TWO_SESSIONS)), "--format", "calls")
    return shell


def test_a_second_import_of_the_same_file_only_counts_duplicates(tmp_path: Path) -> None:
    """Importing is idempotent, over several batches, and says so in the documented form."""
    shell = home_in(tmp_path)
    file = calls_file(tmp_path / "many.jsonl", [call(f"s{n // 5}", n % 5) for n in range(4500)])
    first = shell.json("import", str(file), "--format", "calls")
    second = shell.json("import", str(file), "--format", "calls")
    counts: dict[str, Any] = {"format": "calls", "sessions": 900, "not_understood": 0, "reasons": [], "errors": []}
    assert first == {**counts, "events": 4500, "duplicates": 0}
    assert second == {**counts, "events": 0, "duplicates": 4500}


def test_a_long_session_is_shown_whole(tmp_path: Path) -> None:
    """Commands that read without an event loop read any number of calls, which are made ready in slices."""
    shell = home_in(tmp_path)
    shell.succeed("import", str(calls_file(tmp_path / "long.jsonl", [call("long", n) for n in range(200)])))
    assert len(shell.json("sessions", "show", "long")) == 200
    assert len(shell.json("events", "list", "--limit", "150")) == 150


def test_broken_lines_are_reported_by_number_and_the_rest_is_imported(tmp_path: Path) -> None:
    """One bad line costs that line alone, and the command still succeeds with a warning."""
    shell = home_in(tmp_path)
    lines = [json.dumps(call("a", 1)), "{not json", "", json.dumps({"seq": 2}), json.dumps(call("a", 3))]
    ended = shell.succeed("import", "-", "--output", "json", stdin="\n".join(lines).encode())
    assert (ended.json["sessions"], ended.json["events"], ended.json["duplicates"]) == (1, 2, 0)
    assert [error["line"] for error in ended.json["errors"]] == [2, 4]
    assert all(set(error) == {"line", "reason"} and error["reason"] for error in ended.json["errors"])
    assert "2 lines or parts were not understood" in ended.err


def test_a_file_of_which_nothing_can_be_read_fails(tmp_path: Path) -> None:
    """An import that understood no line at all is bad input; what a line holds reaches no terminal as it is."""
    shell = home_in(tmp_path)
    ended = shell.run("import", "-", stdin=b"\x1b[2Jnonsense\nmore\n")
    assert ended.code == 2
    assert "no known format" in ended.err
    assert "\x1b" not in ended.err
    ended = shell.run("import", "-", "--format", "calls", stdin=b"nonsense\n\x1b[2Jmore\n")
    assert ended.code == 2
    assert "line 1:" in ended.err
    assert "2 lines were read (2 as one call each), none is a call" in ended.err
    assert "\x1b" not in ended.err


def test_gzip_is_recognised_by_content_and_damage_is_named(tmp_path: Path) -> None:
    """A compressed file is read as it is; one that was cut off is refused without a traceback."""
    shell = home_in(tmp_path)
    whole = gzip.compress("".join(json.dumps(call("a", n)) + "\n" for n in range(3000)).encode())
    (tmp_path / "calls.data").write_bytes(whole)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    assert shell.json("import", "calls.data")["events"] == 3000
    ended = shell.run("import", "cut.gz")
    assert ended.code == 2
    assert ended.err.startswith("twinraven: error:")
    assert "Traceback" not in ended.err


def test_a_file_that_is_not_there_is_named(shell: Shell) -> None:
    """A missing or unreadable input is bad input."""
    (shell.folder / "hollow").mkdir()
    for name in ("nowhere.jsonl", "hollow"):
        ended = shell.run("import", name)
        assert ended.code == 2
        assert name in ended.err


@pytest.mark.req("TR-07")
def test_sessions_are_listed_in_the_documented_form(shell: Shell) -> None:
    """A session's fields are projected from its events; the session of the last call comes first."""
    listed = shell.json("sessions", "list")
    fields = ["session_id", "event_count", "started_at", "ended_at", "outcome"]
    assert [list(session) for session in listed] == [
        [*fields, "failed", "turns", "tools", "first_words", "lasted_ms", "time_known", "is_judged"]
    ] * 2
    assert {item["session_id"]: (item["event_count"], item["outcome"], item["failed"]) for item in listed} == {
        "a": (2, "success", 0),
        "b": (1, "failure", 1),
    }
    assert listed == sorted(listed, key=lambda item: item["ended_at"], reverse=True)
    assert all(item["started_at"] <= item["ended_at"] and item["ended_at"].endswith("Z") for item in listed)


def test_sessions_can_be_paged_and_chosen_by_outcome(shell: Shell) -> None:
    """`--limit`, `--after`, `--outcome`, `--tool`, `--failed` and times restrict the list."""

    def listed(*options: str) -> list[str]:
        return [item["session_id"] for item in shell.json("sessions", "list", *options)]

    newest, oldest = listed()
    assert (listed("--limit", "1"), listed("--after", newest), listed("--after", oldest)) == ([newest], [oldest], [])
    assert (listed("--outcome", "failure"), listed("--outcome", "success")) == (["b"], ["a"])
    assert (listed("--failed"), listed("--tool", "find_user")) == (["b"], ["a"])
    assert (listed("--until", "2000-01-01"), sorted(listed("--since", "2000-01-01"))) == ([], ["a", "b"])


def test_a_shown_beginning_of_an_id_is_enough(shell: Shell) -> None:
    """Sessions, events and audit entries are found by what a narrow table shows; an ambiguous beginning is refused."""
    longer = [call("task-2026-one", 1), call("task-2026-two", 1)]
    shell.succeed("import", str(calls_file(shell.folder / "more.jsonl", longer)), "--format", "calls")
    assert shell.json("sessions", "show", "task-2026-o")[0]["session_id"] == "task-2026-one"
    assert shell.json("sessions", "verdict", "task-2026-t…", "success")["session_id"] == "task-2026-two"
    ambiguous = shell.run("sessions", "show", "task-2026")
    assert (ambiguous.code, "give more of the id" in ambiguous.err) == (2, True)
    event = shell.json("events", "list", "--limit", "1")[0]["event_id"]
    assert shell.json("events", "show", event[:9])["event_id"] == event
    unknown = shell.run("events", "show", "zzz")
    assert (unknown.code, "twinraven events list" in unknown.err) == (2, True)


@pytest.mark.req("TR-07")
def test_a_session_shows_its_events_with_the_seeds_field_names(shell: Shell) -> None:
    """`sessions show` prints the events in order, linked, under the seed's names."""
    events = shell.json("sessions", "show", "a")
    assert [event["tool_id"] for event in events] == ["find_user", "get_order"]
    assert all(list(event)[:12] == SEED_FIELDS for event in events)
    assert events[0]["predecessor"] is None
    assert events[0]["successor"] == events[1]["event_id"]
    assert events[1]["predecessor"] == events[0]["event_id"]


def test_a_session_is_a_timeline_for_people(shell: Shell) -> None:
    """The table form names outcome, tools in order, and what failed."""
    text = shell.succeed("sessions", "show", "b").text
    assert "failure" in text
    assert "TOOL_FAILED" in text
    lines = shell.succeed("sessions", "show", "a").text.splitlines()
    assert [line.split()[2] for line in lines if line.split() and line.split()[0] in ("1", "2")] == [
        "find_user",
        "get_order",
    ]


@pytest.mark.req("TR-08")
def test_a_verdict_stated_later_changes_the_sessions_outcome_and_no_event(shell: Shell) -> None:
    """A verdict is a further record: the session's outcome follows it, the events stay as they were."""

    def outcome_of(session_id: str) -> str:
        return next(each["outcome"] for each in shell.json("sessions", "list") if each["session_id"] == session_id)

    before = shell.json("sessions", "show", "a")
    stated = shell.json("sessions", "verdict", "a", "failure", "--by", "reviewer")
    assert stated == {"session_id": "a", "outcome": "failure", "stated_by": "reviewer"}
    assert outcome_of("a") == "failure"
    assert shell.json("sessions", "show", "a") == before
    shell.succeed("sessions", "verdict", "a", "partial")
    assert outcome_of("a") == "partial"


def test_what_is_not_there_ends_with_two(shell: Shell) -> None:
    """An unknown session, event or tenant is not found, never empty output."""
    for arguments in (
        ("sessions", "show", "nobody"),
        ("sessions", "verdict", "nobody", "success"),
        ("events", "show", "0b6f1f0e-3c52-4b1e-9a55-1d6f3f2c7a10"),
        ("sessions", "show", "a", "--tenant", "other"),
    ):
        ended = shell.run(*arguments)
        assert (ended.code, ended.out) == (2, b"")
        assert ended.err.startswith("twinraven: error: no ")


def test_tenants_do_not_see_each_other(shell: Shell) -> None:
    """`--tenant` before or behind the command chooses whose log is read."""
    shell.succeed("tenants", "create", "other")
    shell.succeed("--tenant", "other", "import", "calls.jsonl")
    shell.succeed("sessions", "verdict", "a", "partial", "--tenant", "other")
    assert [item["outcome"] for item in shell.json("sessions", "list")] == ["success", "failure"]
    assert [item["outcome"] for item in shell.json("--tenant", "other", "sessions", "list")] == ["partial", "failure"]


def test_events_can_be_filtered(shell: Shell) -> None:
    """Each filter of `events list` restricts what is listed."""

    def tools(*filters: str) -> list[str]:
        return [event["tool_id"] for event in shell.json("events", "list", *filters)]

    assert sorted(tools()) == ["find_user", "get_order", "get_order"]
    assert tools("--tool", "find_user") == ["find_user"]
    assert tools("--session", "a") == ["get_order", "find_user"]
    assert tools("--session", "a", "--oldest") == ["find_user", "get_order"]
    assert tools("--session", "a", "--limit", "1") == ["get_order"]
    assert tools("--since", "2001-01-01T00:00:00Z", "--until", "2001-01-02T00:00:00Z") == []
    assert len(tools("--since", "52w")) == 3
    assert tools("--tag", "no-such-tag") == []


def test_an_event_is_shown_with_its_stored_output(shell: Shell) -> None:
    """`events show` adds the output, and whether it was kept, to the event's own fields."""
    event = shell.json("events", "list", "--tool", "find_user")[0]
    shown = shell.json("events", "show", event["event_id"])
    assert {name: shown[name] for name in event} == event
    assert shown["output"] == {"ok": True}
    assert shown["output_stored"] is True
    assert "find_user" in shell.succeed("events", "show", event["event_id"]).text


def test_listings_are_csv_with_a_header(shell: Shell) -> None:
    """CSV has the JSON's field names, also when there is nothing to list, and JSON inside a cell."""
    header, *rows = shell.succeed("events", "list", "--oldest", "--output", "csv").text.splitlines()
    assert header.split(",")[:12] == SEED_FIELDS
    assert len(rows) == 3
    assert '"{""n"":1}"' in rows[0]
    nothing = shell.succeed("sessions", "list", "--after", "z", "--output", "csv").text
    assert nothing == "session_id,ended_at,event_count,failed,outcome,tools\n"


@pytest.mark.req("TR-03")
def test_export_writes_one_event_a_line_whole_and_private(shell: Shell) -> None:
    """The file replaces what was there, holds what `sessions show` prints, and only its owner may read it."""
    file = shell.folder / "events.jsonl"
    file.write_text("old")
    shell.succeed("export", "json", "events.jsonl")
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    assert exported == shell.json("sessions", "show", "a") + shell.json("sessions", "show", "b")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shell.succeed("export", "json", "-").out == file.read_bytes()
    assert not list(shell.folder.glob(".events*"))


def test_export_goes_to_a_pipe_without_replacing_it(shell: Shell) -> None:
    """A named pipe is written to, not renamed over."""
    pipe = shell.folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [COMMAND, "export", "json", "pipe"], cwd=shell.folder, env=shell.environment(), stdout=subprocess.DEVNULL
    ) as writing:
        assert len(pipe.read_text().splitlines()) == 3
        assert writing.wait(60) == 0
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_export_into_a_folder_that_is_not_there_is_refused(shell: Shell) -> None:
    """An export that cannot be written names the place and leaves nothing behind."""
    ended = shell.run("export", "json", "nowhere/events.jsonl")
    assert ended.code == 2
    assert "nowhere/events.jsonl" in ended.err


@pytest.mark.req("TR-25")
def test_a_call_is_corrected_from_a_shell(shell: Shell) -> None:
    """What is stated anew stands in the place of the wrong call, with all of it that was right; the wrong one stays."""
    wrong, other = shell.json("events", "list", "--session", "a", "--oldest")
    corrected = shell.json("events", "correct", wrong["event_id"][:8], "--tool", "find_customer")
    changed = {"event_id", "tool_id", "corrects", "arrival", "predecessor", "source_key"}
    assert (corrected["tool_id"], corrected["corrects"]) == ("find_customer", wrong["event_id"])
    assert {name for name in corrected if corrected[name] != wrong[name]} == changed
    listed = shell.json("events", "list", "--session", "a", "--oldest")
    assert [each["event_id"] for each in listed] == [wrong["event_id"], corrected["event_id"], other["event_id"]]
    answered = shell.json("events", "correct", corrected["event_id"], "--result", '{"id": 7}', "--outcome", "success")
    assert shell.json("events", "show", answered["event_id"])["output"] == {"id": 7}
    assert shell.run("events", "correct", wrong["event_id"]).code == 2
