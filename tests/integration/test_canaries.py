"""Canaries: secrets sent everywhere a secret can go must be found nowhere a secret may not be."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, SkillInvocationRequest
from twinraven.catalog import tool
from twinraven.muninn import export_json

CANARY = 'canary-"Zq7/Wv+9\\kÄ3=plumage'
SPELLINGS = (
    CANARY,
    json.dumps(CANARY)[1:-1],
    json.dumps(CANARY, ensure_ascii=False)[1:-1],
    base64.b64encode(CANARY.encode()).decode(),
    quote(CANARY, safe=""),
)


@tool(effect="write", sensitivity="high")
async def echo(text: str) -> dict[str, Any]:
    """Say it back, in every spelling."""
    return {"said": text, "encoded": base64.b64encode(text.encode()).decode(), "url": quote(text, safe="")}


@tool(effect="read")
async def fail(text: str) -> None:
    """Fail with the secret in the message."""
    raise RuntimeError(f"could not log in with {text}")


@pytest.fixture
def raven(tmp_path: Path) -> TwinRaven:
    home = tmp_path / ".twinraven"
    home.mkdir()
    return open_home(home, functions=[echo, fail])


async def test_no_secret_reaches_a_column_a_file_or_a_log(
    raven: TwinRaven, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Through params, outputs, errors, tags, what the user said and imports: not one hit in the database or exports."""
    caplog.set_level(logging.DEBUG)
    await raven.vault.create("default", "local", name="canary", type="password", value=CANARY)
    context = CallContext("s1", outside_input=f"my password is {CANARY}", tags=(f"tag {CANARY}",))
    calls = raven.calls
    for number, tool_name in enumerate(("echo", "fail")):
        await calls.invoke(SkillInvocationRequest(tool_name, {"text": CANARY}, idempotency_key=f"k{number}"), context)
    line = {"session_id": "s2", "seq": 0, "tool": "echo", "params": {"a": CANARY}, "output": CANARY}
    line["user_before"] = CANARY
    await raven.importer.import_calls("default", [json.dumps(line).encode()])
    exported = tmp_path / "events.jsonl"
    with exported.open("wb") as out:
        await export_json(raven.events, "default", out)
    raven.close()
    assert _hits(tmp_path) == []
    assert not any(spelling in caplog.text for spelling in SPELLINGS)
    assert b"[secret:" in exported.read_bytes()


def _hits(folder: Path) -> list[str]:
    """Every place below a folder where a spelling of the canary stands, columns decoded."""
    found = [
        f"{path.name}: {spelling}"
        for path in folder.rglob("*")
        if path.is_file()
        for spelling in SPELLINGS
        if spelling.encode() in path.read_bytes()
    ]
    connection = sqlite3.connect(folder / ".twinraven" / "twinraven.db")
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            text = " ".join(_text(value) for value in row)
            found += [f"{table}: {spelling}" for spelling in SPELLINGS if spelling in text]
    connection.close()
    return found


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
