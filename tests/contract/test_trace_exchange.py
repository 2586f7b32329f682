"""Foreign traces into the log and the log out again, on both stores."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.traces import GOLDEN
from twinraven.foundation.actors import SYSTEM, agent, person
from twinraven.muninn import (
    Collector,
    Importer,
    MuninnEvent,
    SqlEventStore,
    export_json,
    export_otlp,
    export_parquet,
)
from twinraven.muninn.model import EVENT_FIELDS
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("t", "u")

SAMPLES = ["openai.jsonl", "otlp.jsonl", "claude-code.jsonl"]
# pyarrow has no types of its own.
PARQUET: Any = import_module("pyarrow.parquet")
START = datetime(2026, 3, 1, 10, tzinfo=UTC)


def sample(name: str) -> list[bytes]:
    return (GOLDEN / name).read_bytes().splitlines(keepends=True)


async def events_of(database: Database, tenant_id: str) -> list[MuninnEvent]:
    found: list[MuninnEvent] = []
    await SqlEventStore(database).scan(tenant_id, found.extend)
    return found


@pytest.fixture
async def recorded(database: Database) -> AsyncGenerator[Database]:
    """A store with events that use every field."""
    collector = Collector(database)
    with collector.observe("visit", tenant_id="t", task_id="task-1", actor=person("ada")) as session:
        outer = uuid4()
        inner = session.record("look", {"n": 1}, output="17", parent_event_id=outer, latency_ms=3, timestamp=START)
        session.record(
            "sum up",
            {"text": 'quote " and umlaut ü', "big": 2**70, "none": None},
            output={"deep": [1, 2.5, {"x": None}], "text": '{"not": "decoded"}'},
            latency_ms=1234,
            timestamp=START - timedelta(seconds=1),
            event_id=outer,
            outcome="success",
            tags=["night", "tag two"],
            turn=3,
            outside_input="please\nhurry",
            correlation_id="corr-1",
            actor=agent("planner"),
        )
        later = START + timedelta(seconds=1)
        session.record("text", {}, output='["looks like JSON"]', timestamp=later, actor=person("urn:a:b"))
        session.record("nothing", {}, timestamp=START + timedelta(seconds=2), actor=SYSTEM)
        session.record_failure("fail", {}, error="it broke", timestamp=START + timedelta(seconds=3), latency_ms=9)
        await inner
    collector.flush()
    yield database
    collector.close()


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_trace_read_twice_adds_nothing(database: Database, name: str) -> None:
    """A second import counts duplicates alone, and the log stays as it was."""
    first = await Importer(database).import_trace("t", sample(name), format="auto")
    before = await events_of(database, "t")
    second = await Importer(database).import_trace("t", sample(name), format="auto")
    assert (first.events, first.duplicates) == (len(before), 0)
    assert (second.events, second.duplicates) == (0, first.events)
    assert await events_of(database, "t") == before
    assert [error.line for error in second.errors] == [error.line for error in first.errors]


@pytest.mark.req("TR-01")
async def test_what_an_import_knows_arrives_in_the_log(database: Database) -> None:
    """Times, latencies, turns, outside input and failures of a transcript are those of its events."""
    await Importer(database).import_trace("t", sample("claude-code.jsonl"), format="claude-code")
    main = [event for event in await events_of(database, "t") if "/" not in event.session_id]
    assert [(event.tool_id, event.turn, event.latency_ms, event.time_known) for event in main] == [
        ("Grep", 1, 900, True),
        ("Read", 1, 500, True),
        ("Bash", 2, 5250, True),
        ("Task", 3, 2500, True),
        ("AskUserQuestion", 4, 26000, True),
        ("Edit", 5, 0, False),
        ("Bash", 6, 2000, True),
    ]
    assert main[0].timestamp == datetime(2026, 3, 1, 10, 0, 1, 500_000, tzinfo=UTC)
    assert [event.tool_id for event in main if event.outside_input is not None] == ["Grep", "Task", "Edit", "Bash"]
    assert [event.error_code for event in main if event.raised] == ["TOOL_FAILED"]


async def test_a_parent_found_later_links_the_events(database: Database) -> None:
    """An inner call names the event of the call around it, which the log holds."""
    await Importer(database).import_trace("t", sample("otlp.jsonl"), format="otlp")
    by_tool = {event.tool_id: event for event in await events_of(database, "t")}
    assert by_tool["read_stock"].parent_event_id == by_tool["reserve"].event_id


async def exported(database: Database, tenant_id: str) -> bytes:
    out = io.BytesIO()
    written = await export_otlp(database, tenant_id, out)
    assert written == sum(
        len(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]) for line in out.getvalue().splitlines()
    )
    return out.getvalue()


def comparable(event: MuninnEvent) -> MuninnEvent:
    """An event without what belongs to the log it lies in."""
    return replace(event, tenant_id="", arrival=0, source_key=None)


async def test_spans_read_back_are_the_same_events(recorded: Database) -> None:
    """What leaves as OTLP and enters another log is equal to what was there, field by field."""
    spans = await exported(recorded, "t")
    report = await Importer(recorded).import_trace("u", spans.splitlines(keepends=True), format="otlp")
    assert (report.events, report.errors) == (5, [])
    before, after = await events_of(recorded, "t"), await events_of(recorded, "u")
    assert {event.actor for event in after} == {agent("planner"), person("urn:a:b"), SYSTEM, person("ada")}
    assert [comparable(event) for event in after] == [comparable(event) for event in before]
    store = SqlEventStore(recorded)
    hashes = [event.output_hash for event in before if event.output_hash]
    assert await store.outputs("u", hashes) == await store.outputs("t", hashes)


async def nested(database: Database, *, between: int) -> tuple[list[UUID], bytes]:
    """A call inside one inside another, the innermost first in the log of `t`, and that log as lines of JSON."""
    collector = Collector(database)
    ids = [uuid4() for _ in range(3)]
    with collector.observe("visit", tenant_id="t") as session:
        for place, (event_id, parent) in enumerate(zip(ids, [*ids[1:], None], strict=True)):
            when = START + timedelta(seconds=place)
            session.record("call", {"n": place}, event_id=event_id, parent_event_id=parent, timestamp=when)
            for number in range(between):
                session.record("other", {"n": number}, timestamp=when + timedelta(milliseconds=1 + number / 1000))
    collector.flush()
    collector.close()
    out = io.BytesIO()
    await export_json(SqlEventStore(database), "t", out)
    return ids, out.getvalue()


@pytest.mark.parametrize("between", [0, 1100])
async def test_outer_calls_are_stored_before_inner_ones(database: Database, between: int) -> None:
    """One tenant's log enters another's though inner calls come first in it, in one batch or several apart."""
    ids, lines = await nested(database, between=between)
    report = await Importer(database).import_trace("u", lines.splitlines(keepends=True))
    assert (report.events, report.duplicates, report.errors) == (3 + 3 * between, 0, [])
    found = {event.event_id: event for event in await events_of(database, "u")}
    assert [found[event_id].parent_event_id for event_id in ids] == [*ids[1:], None]
    again = await Importer(database).import_trace("u", lines.splitlines(keepends=True))
    assert (again.events, again.duplicates) == (0, report.events)


async def test_calls_whose_outer_call_stays_away_are_reported(database: Database) -> None:
    """Of a part of another tenant's log, what lies inside a call that is not in it is told, and the rest is stored."""
    ids, lines = await nested(database, between=3)
    part = [line for line in lines.splitlines(keepends=True) if json.loads(line)["event_id"] != str(ids[1])]
    report = await Importer(database).import_trace("u", part)
    assert (report.events, report.not_understood) == (10, 1)
    assert str(ids[0]) in report.errors[0].reason
    assert {event.parent_event_id for event in await events_of(database, "u")} == {None}


async def test_a_log_that_reads_its_own_spans_stays_the_same(recorded: Database) -> None:
    """Events that are there under their own ids are duplicates."""
    before = await events_of(recorded, "t")
    spans = await exported(recorded, "t")
    report = await Importer(recorded).import_trace("t", spans.splitlines(keepends=True), format="otlp")
    assert (report.events, report.duplicates) == (0, len(before))
    assert await events_of(recorded, "t") == before


async def test_spans_are_written_as_the_protocol_says(recorded: Database) -> None:
    """Ids are hexadecimal, 64-bit numbers are texts, enumerations are numbers, names are those of the conventions."""
    (line,) = (await exported(recorded, "t")).splitlines()
    spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    by_name = {span["name"]: span for span in spans}
    outer, inner, failed = (by_name[f"execute_tool {name}"] for name in ("sum up", "look", "fail"))
    assert {len(span["traceId"]) for span in spans} == {32}
    assert inner["parentSpanId"] == outer["spanId"]
    assert (outer["kind"], type(outer["startTimeUnixNano"])) == (1, str)
    assert int(outer["endTimeUnixNano"]) - int(outer["startTimeUnixNano"]) == 1234 * 10**6
    assert (outer["status"], failed["status"]) == ({}, {"code": 2, "message": "it broke"})
    attributes = {pair["key"]: pair["value"] for pair in outer["attributes"]}
    assert attributes["gen_ai.operation.name"] == {"stringValue": "execute_tool"}
    assert attributes["gen_ai.tool.name"] == {"stringValue": "sum up"}
    assert attributes["gen_ai.conversation.id"] == {"stringValue": "visit"}
    assert attributes["twinraven.turn"] == {"intValue": "3"}


async def test_parquet_holds_every_field_and_the_output(recorded: Database) -> None:
    """A row says what the event says, with its output, in session order and in row groups."""
    out = io.BytesIO()
    assert await export_parquet(recorded, "t", out, group_rows=2) == 5
    file = PARQUET.ParquetFile(io.BytesIO(out.getvalue()))
    rows: list[dict[str, Any]] = file.read().to_pylist()
    events = await events_of(recorded, "t")
    assert file.num_row_groups == 3
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert [UUID(row["event_id"]) for row in rows] == [event.event_id for event in events]
    outputs = await SqlEventStore(recorded).outputs("t", [event.output_hash for event in events if event.output_hash])
    for row, event in zip(rows, events, strict=True):
        assert json.loads(row.pop("input_params")) == event.input_params
        assert row.pop("timestamp") == event.timestamp
        output = row.pop("output")
        assert (None if output is None else json.loads(output)) == outputs.get(event.output_hash or "")
        plain = event.as_json()
        assert row == {name: plain[name] for name in row}
        assert set(plain) - set(row) == {"input_params", "timestamp"}


async def test_an_empty_log_is_an_empty_file(database: Database) -> None:
    """Nothing to export is no error, and the Parquet file still has its columns."""
    out, spans = io.BytesIO(), io.BytesIO()
    assert await export_parquet(database, "t", out) == 0
    assert await export_otlp(database, "t", spans) == 0
    assert len(PARQUET.read_table(io.BytesIO(out.getvalue())).column_names) == len(EVENT_FIELDS) + 1
    assert spans.getvalue() == b""
