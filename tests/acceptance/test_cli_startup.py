"""What starting a command may cost: nothing that the command does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli import home_in

FORBIDDEN = {
    "numpy",
    "pydantic",
    "pydantic_core",
    "psycopg",
    "jsonschema_rs",
    "cryptography",
    "rich",
    "dbos",
    "sqlalchemy",
    "openai",
    "anthropic",
    "pydantic_ai",
    "mcp",
    "httpx",
    "fastapi",
    "starlette",
    "granian",
    "jinja2",
    "opentelemetry",
}
_PROBE = """
import json, sys
from twinraven.cli import main
code = main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


def modules_of(folder: Path, *arguments: str) -> set[str]:
    """The modules a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("sessions", "list"), ("sessions", "list", "--output", "json"), ("events", "list"), ("db", "status")],
)
def test_reading_commands_import_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Help and the commands that only read import no model client, no engine, no web framework and no array library."""
    home_in(tmp_path)
    assert {name.partition(".")[0] for name in modules_of(tmp_path, *arguments)} & FORBIDDEN == set()


def test_listing_sessions_needs_no_event_loop(tmp_path: Path) -> None:
    """One question to the log is asked on the command's own thread, and asyncio is not even imported."""
    home_in(tmp_path)
    assert "asyncio" not in modules_of(tmp_path, "sessions", "list")


def test_help_reads_no_groups_file(tmp_path: Path) -> None:
    """The list of groups is a table: nothing of ours but the parser and the errors is imported to print it."""
    ours = {name for name in modules_of(tmp_path, "--help") if name.startswith("twinraven.")}
    assert ours == {
        "twinraven.cli",
        "twinraven.cli.exits",
        "twinraven.cli.interrupts",
        "twinraven.cli.output",
        "twinraven.cli.parser",
        "twinraven.cli.times",
        "twinraven.foundation",
        "twinraven.foundation.errors",
        "twinraven.foundation.lazy",
    }


def test_a_groups_help_reads_its_own_file_alone(tmp_path: Path) -> None:
    """Asking one group for help imports no other group and no part of the house."""
    ours = {name for name in modules_of(tmp_path, "sessions", "list", "--help") if name.startswith("twinraven.")}
    assert "twinraven.cli.sessions" in ours
    assert not ours & {"twinraven.cli.events", "twinraven.app", "twinraven.muninn", "twinraven.storage"}
