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

SAMPLES = {"openai.jsonl": (3, 8, 5), "otlp.jsonl": (2, 4, 2), "claude-code.jsonl": (2, 8, 2)}


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
    ended = shell.run("import", str(GOLDEN / "claude-code.jsonl"), "--format", "openai", "--output", "json")
    assert ended.code == 1
    assert ended.json["events"] == 0
    assert len(ended.json["errors"]) == 29


def test_spans_leave_and_come_back(shell: Shell) -> None:
    """What one tenant exports another imports, and the events are alike."""
    shell.succeed("import", str(GOLDEN / "claude-code.jsonl"))
    shell.succeed("export", "otlp", "spans.jsonl")
    file = shell.folder / "spans.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shell.succeed("export", "otlp", "-").out == file.read_bytes()
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
