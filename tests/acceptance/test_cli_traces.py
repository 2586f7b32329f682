"""Foreign traces in, spans and Parquet out, from a shell."""

from __future__ import annotations

import gzip
import json
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell, home_in
from tests.traces import GOLDEN

SAMPLES = {
    "openai.jsonl": (3, 8, 5),
    "otlp.jsonl": (2, 4, 2),
    "claude-code.jsonl": (2, 8, 2),
    "anthropic.jsonl": (2, 5, 0),
    "langfuse.jsonl": (1, 3, 0),
    "langsmith.jsonl": (1, 2, 0),
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return home_in(tmp_path)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_trace_is_imported_once_whether_or_not_its_format_is_named(shell: Shell, name: str) -> None:
    """Counts and broken lines are those of the sample, and the second import, with the format named, adds nothing."""
    sessions, events, errors = SAMPLES[name]
    first = shell.json("import", str(GOLDEN / name))
    assert (first["sessions"], first["events"], len(first["errors"])) == (sessions, events, errors)
    second = shell.json("import", str(GOLDEN / name), "--format", Path(name).stem)
    assert (second["events"], second["duplicates"], second["errors"]) == (0, events, first["errors"])


def test_documents_and_compressed_files_are_read_too(shell: Shell) -> None:
    """One JSON document over many lines, from a pipe or compressed, is a trace like any other."""
    document = (GOLDEN / "otlp-document.json").read_bytes()
    piped = shell.succeed("import", "-", "--output", "json", stdin=document).json
    assert (piped["events"], piped["errors"]) == (3, [])
    (shell.folder / "chat.json.gz").write_bytes(gzip.compress((GOLDEN / "openai-array.json").read_bytes()))
    assert shell.json("import", "chat.json.gz")["events"] == 2


def test_the_wrong_format_names_every_line(shell: Shell) -> None:
    """A trace read as something else understands nothing, says so and fails."""
    ended = shell.run("import", str(GOLDEN / "claude-code.jsonl"), "--format", "calls", "--output", "json")
    assert ended.code == 2
    assert ended.json["events"] == 0
    assert ended.json["not_understood"] == len(ended.json["errors"]) == 29


@pytest.mark.parametrize("command", ["import", "backtest"])
def test_a_file_without_calls_is_an_error_that_says_what_was_seen(shell: Shell, command: str) -> None:
    """Nothing understood is never a success: the message says what the file holds, or which formats there are."""
    spans = {
        "name": "POST",
        "traceId": "0" * 31 + "1",
        "spanId": "0" * 15 + "1",
        "startTimeUnixNano": "1760000000000000",
    }
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [spans]}]}]}
    (shell.folder / "spans.json").write_text(json.dumps(document))
    ended = shell.run(command, "spans.json")
    assert ended.code == 2
    assert "1 spans were read" in ended.err
    assert "none is a tool call" in ended.err
    for name, text in (("table.csv", "a,b\n1,2\n"), ("other.json", '{"hello": 1}'), ("empty", "")):
        (shell.folder / name).write_text(text)
        ended = shell.run(command, name)
        assert ended.code == 2
        assert "empty" in ended.err or "openai" in ended.err


def test_a_folder_without_traces_says_how_many_files_it_has_and_what_one_holds(shell: Shell) -> None:
    """Of many files that are none, the first is named, and stderr is not filled with all of them."""
    folder = shell.folder / "notes"
    folder.mkdir()
    (folder / "a.json").write_text('{"x": 1}')
    ended = shell.run("import", str(folder))
    assert ended.code == 2
    assert f"{folder / 'a.json'}: no known format" in ended.err
    for number in range(100):
        (folder / f"b{number:03}.json").write_text("{}")
    ended = shell.run("import", str(folder))
    assert ended.code == 2
    assert f"none of 101 files is a trace; in the first, {folder / 'a.json'}: no known format" in ended.err
    (folder / "c.jsonl").write_bytes((GOLDEN / "openai.jsonl").read_bytes())
    ended = shell.run("import", str(folder))
    assert ended.code == 0
    assert ended.err.count("was left out") == 60
    assert "41 more files were left out" in ended.err
    assert len(shell.run("import", str(folder), "--output", "json").json["left_out"]) == 101


def test_folders_and_several_files_are_read_at_once(shell: Shell) -> None:
    """All traces of a folder are imported, whatever they are called, and files that hold none are named."""
    folder = shell.folder / "traces" / "deep"
    folder.mkdir(parents=True)
    for number, name in enumerate(("anthropic.jsonl", "langfuse.jsonl", "tau-bench.json")):
        (folder / f"file-{number}").write_bytes((GOLDEN / name).read_bytes())
    (folder / "README.md").write_text("# nothing")
    ended = shell.succeed("import", "traces", str(GOLDEN / "mlflow.json"), "--output", "json")
    assert (ended.json["events"], len(ended.json["files"])) == (14, 4)
    assert [Path(each["file"]).name for each in ended.json["left_out"]] == ["README.md"]
    again = shell.succeed("import", "traces", "--output", "json")
    assert (again.json["events"], again.json["duplicates"]) == (0, 12)


def test_events_of_one_file_each_are_one_trace(shell: Shell) -> None:
    """The numbered files that OpenHands keeps of a run are read as one run, in the order of their numbers."""
    folder = shell.folder / "run" / "events"
    folder.mkdir(parents=True)
    for number, event in enumerate(json.loads((GOLDEN / "openhands.json").read_bytes())):
        (folder / f"{number}.json").write_text(json.dumps(event, indent=2))
    report = shell.json("import", "run")
    assert (report["format"], report["sessions"], report["events"]) == ("openhands", 1, 3)


def test_the_log_reads_its_own_export(shell: Shell) -> None:
    """What `export json` wrote is recognised; in the same log it adds nothing."""
    shell.succeed("import", str(GOLDEN / "anthropic.jsonl"))
    shell.succeed("export", "json", "events.jsonl")
    report = shell.json("import", "events.jsonl")
    assert (report["format"], report["events"], report["duplicates"]) == ("events", 0, 5)


def test_spans_leave_and_come_back(shell: Shell) -> None:
    """What one tenant exports another imports, and the events are alike."""
    shell.succeed("import", str(GOLDEN / "claude-code.jsonl"))
    shell.succeed("export", "otlp", "spans.jsonl")
    file = shell.folder / "spans.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shell.succeed("export", "otlp", "-").out == file.read_bytes()
    shell.succeed("tenants", "create", "other")
    assert shell.json("import", "spans.jsonl", "--tenant", "other")["events"] == 8
    mine, theirs = (shell.json("events", "list", *tenant) for tenant in ((), ("--tenant", "other")))
    unlike = {"tenant_id", "arrival", "source_key"}
    assert [{k: v for k, v in event.items() if k not in unlike} for event in theirs] == [
        {k: v for k, v in event.items() if k not in unlike} for event in mine
    ]


def test_a_parquet_file_has_every_event(shell: Shell) -> None:
    """The file replaces what was there once it is whole, and other programs read it."""
    parquet: Any = import_module("pyarrow.parquet")
    shell.succeed("import", str(GOLDEN / "claude-code.jsonl"))
    (shell.folder / "events.parquet").write_text("old")
    assert "8 events" in shell.succeed("export", "parquet", "events.parquet").text
    rows: list[dict[str, Any]] = parquet.read_table(shell.folder / "events.parquet").to_pylist()
    exported = [json.loads(line) for line in shell.succeed("export", "json", "-").out.splitlines()]
    assert [row["event_id"] for row in rows] == [event["event_id"] for event in exported]
    assert json.loads(rows[0]["output"]) == {"matches": ["stock.py"]}


def test_without_pyarrow_the_fix_is_named(shell: Shell) -> None:
    """A missing optional part is bad input with the command that installs it, and no file appears."""
    program = (
        "import sys; sys.modules['pyarrow'] = None; from twinraven.cli import main; "
        "raise SystemExit(main(['export', 'parquet', 'events.parquet']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=shell.folder, env=shell.environment(), capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"pip install 'twinraven[parquet]'" in done.stderr
    assert not list(shell.folder.glob("*events.parquet*"))
