"""On whose behalf a session ran, as learning reads it: from a file and from the log, on both stores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from twinraven.huginn.traces import load_traces, read_traces
from twinraven.muninn import Importer, SqlEventStore
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("t", "u")


def line(session_id: str, seq: int, **more: Any) -> bytes:
    return json.dumps({"session_id": session_id, "seq": seq, "tool": "look", "params": {"n": seq}, **more}).encode()


LINES = [
    line("late", 1, actor="agent:second"),
    line("late", 0, actor="agent:planner"),
    line("plain", 0, user_id="ada"),
    line("named", 0, principal="node:warehouse"),
    line("first wins", 0, actor="agent:a", principal="b", user_id="c"),
    line("none", 0),
    line("none", 1, actor="agent:later"),
]
PRINCIPALS = {
    "late": "agent:planner",
    "plain": "person:ada",
    "named": "node:warehouse",
    "first wins": "agent:a",
    "none": None,
}


def test_a_file_names_the_principal_of_the_first_call() -> None:
    """The actor of the call with the lowest place counts, however the lines are ordered."""
    log = read_traces(LINES)
    assert {session.session_id: session.principal for session in log.sessions} == PRINCIPALS
    assert log.errors == []


async def test_the_log_names_the_same_principals(database: Database) -> None:
    """What an import kept is what learning reads from the log."""
    report = await Importer(database).import_calls("t", [each + b"\n" for each in LINES])
    assert (report.events, report.errors) == (len(LINES), [])
    log = await load_traces(SqlEventStore(database), "t", idle_gap_s=1800)
    assert {session.session_id: session.principal for session in log.sessions} == PRINCIPALS


async def test_an_actor_that_cannot_be_one_is_reported_by_line(database: Database) -> None:
    """A number, an empty text and an API key are refused for that line alone, and the key is not repeated."""
    key = "tr_" + "a" * 43
    lines = [line("s", 0, actor=7), line("s", 1, user_id=""), line("s", 2, principal=key), line("s", 3, actor="ada")]
    report = await Importer(database).import_calls("t", [each + b"\n" for each in lines])
    assert report.events == 1
    assert [error.line for error in report.errors] == [1, 2, 3]
    assert ["actor" in report.errors[0].reason, "user_id" in report.errors[1].reason] == [True, True]
    assert key not in str(report.as_json())
