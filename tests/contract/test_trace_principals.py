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


BEGAN = 1_760_000_000_000_000_000
KEY = "tr_" + "a" * 43


def spans(trace: str, *, agent: dict[str, str], tool: dict[str, str]) -> bytes:
    """A call of a tool, and the span of the agent around it, which ends later."""
    kinds = {"2": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", **tool}, "1": agent}
    listed = [
        {
            "traceId": trace * 32,
            "spanId": span * 16,
            "parentSpanId": "1" * 16 if span == "2" else "",
            "name": "look",
            "startTimeUnixNano": BEGAN,
            "endTimeUnixNano": BEGAN + 1_000_000,
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in stated.items()],
        }
        for span, stated in kinds.items()
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}).encode()


def langfuse(**trace: str) -> bytes:
    times = {"startTime": "2026-11-01T10:00:00.000Z", "endTime": "2026-11-01T10:00:01.000Z"}
    call = {"id": "o1", "traceId": "t1", "type": "TOOL", "name": "look", "input": {"n": 1}, "output": {}, **times}
    return json.dumps({"id": "t1", **trace, "observations": [call]}).encode()


def langsmith(**metadata: str) -> bytes:
    times = {"start_time": "2026-11-01T10:00:00.000", "end_time": "2026-11-01T10:00:01.000"}
    run = {"id": "r1", "trace_id": "t1", "run_type": "tool", "name": "look", "inputs": {"n": 1}, "outputs": {}, **times}
    return json.dumps({**run, "extra": {"metadata": metadata}}).encode()


def mlflow(**metadata: str) -> bytes:
    attributes = {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"n": 1}', "mlflow.spanOutputs": "{}"}
    times = {"start_time_unix_nano": BEGAN, "end_time_unix_nano": BEGAN + 1000}
    span = {"span_id": "s1", "name": "look", "attributes": attributes, **times}
    return json.dumps({"info": {"trace_id": "t1", "trace_metadata": metadata}, "data": {"spans": [span]}}).encode()


@pytest.mark.parametrize(
    ("line", "principal"),
    [
        (spans("a", agent={"user.id": "ada"}, tool={}), "person:ada"),
        (spans("a", agent={"user.id": "ada"}, tool={"twinraven.actor.type": "system"}), "system"),
        (spans("a", agent={}, tool={"traceloop.association.properties.user_id": "ada"}), "person:ada"),
        (spans("a", agent={"enduser.id": "ada", "langfuse.user.id": "bob"}, tool={}), "person:ada"),
        (spans("a", agent={"user.id": KEY}, tool={}), None),
        (spans("a", agent={}, tool={}), None),
        (langfuse(userId="ada"), "person:ada"),
        (langfuse(), None),
        (langsmith(user_id="ada", thread_id="s"), "person:ada"),
        (langsmith(), None),
        (mlflow(**{"mlflow.trace.user": "ada"}), "person:ada"),
        (mlflow(), None),
    ],
)
async def test_the_user_of_a_trace_is_whom_its_calls_ran_for(
    database: Database, line: bytes, principal: str | None
) -> None:
    """Wherever an instrumentation names the user, every call of the trace has it; a key in its place is left out."""
    report = await Importer(database).import_trace("t", [line + b"\n"])
    assert (report.events, report.errors) == (1, [])
    (session,) = (await load_traces(SqlEventStore(database), "t", idle_gap_s=1800)).sessions
    assert session.principal == principal
    assert read_traces([line]).sessions[0].principal == principal
