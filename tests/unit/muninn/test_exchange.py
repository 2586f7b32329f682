"""Import and export: nothing twice, nothing lost, and every broken line named by its number."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.neighbours import settle_tenants
from tests.recording import assert_linked
from twinraven.foundation.errors import InvalidInput, StorageError
from twinraven.muninn import (
    Collector,
    Importer,
    MuninnEvent,
    Outcome,
    SqlEventStore,
    exchange,
    export_json,
    open_lines,
    parse_call,
)
from twinraven.storage import Database

TENANT = "default"


@pytest.fixture
def store(database: Database) -> SqlEventStore:
    return SqlEventStore(database)


@pytest.fixture
def importer(database: Database) -> Importer:
    return Importer(database)


def line(session: str = "s", seq: int = 0, **fields: Any) -> bytes:
    call = {"session_id": session, "seq": seq, "tool": "read", "params": {"n": seq}, "output": {"n": seq}, **fields}
    return json.dumps(call).encode() + b"\n"


async def events_of(store: SqlEventStore, session: str = "s") -> tuple[MuninnEvent, ...]:
    return (await store.session(TENANT, session)).events


async def test_a_line_becomes_an_event(importer: Importer, store: SqlEventStore) -> None:
    """Everything the format knows is kept; times are by sequence and marked as not known."""
    lines = [
        line(seq=0, user_before="hello", llm_turn=0, task_id=7, session_outcome="success", trial=1, source="x"),
        line(seq=1, ok=False, output="no such order", llm_turn=1, session_outcome="success"),
        line(seq=2, ok=False, output=None, params=[1, 2]),
        line(seq=3, params=None, task_id="t-1"),
    ]
    report = await importer.import_calls(TENANT, lines)
    assert report.as_json() == {
        "format": "calls",
        "sessions": 1,
        "events": 4,
        "duplicates": 0,
        "not_understood": 0,
        "reasons": [],
        "errors": [],
    }
    first, failed, silent, bare = await events_of(store)
    assert (first.input_params, first.output_summary, first.outside_input) == ({"n": 0}, '{"n":0}', "hello")
    assert (first.turn, first.task_id, first.outcome, first.time_known) == (0, "7", Outcome.SUCCESS, False)
    assert (failed.raised, failed.error_code, failed.outcome) == (True, "TOOL_FAILED", Outcome.SUCCESS)
    assert (silent.output_summary, silent.input_params, silent.outcome) == (None, {"input": [1, 2]}, Outcome.FAILURE)
    assert (bare.input_params, bare.task_id, bare.outcome) == ({}, "t-1", Outcome.PARTIAL)
    assert_linked((first, failed, silent, bare))
    assert [use.mean_latency_ms for use in await store.tool_uses(TENANT)] == [None]


BROKEN: list[tuple[bytes, str]] = [
    (b"{broken\n", "not JSON"),
    (b"[1]\n", "not a JSON object"),
    (b"\xff\xfe\n", "not JSON"),
    (line(session=""), "session_id"),
    (line(session="a\0b"), "session_id"),
    (line(session_id=7), "session_id must be a string"),
    (line(session_id=None), "session_id is missing"),
    (line(seq=-1), "seq"),
    (line(seq=10**9), "seq"),
    (line(seq="1"), "seq"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    (line(tool=None), "tool is missing"),
    (line(tool=["read"]), "tool must be a string"),
    (line(ok="false"), "ok must be true or false"),
    (line(session_outcome="great"), "session_outcome"),
    (line(session_outcome=["success"]), "session_outcome"),
    (line(llm_turn="2"), "llm_turn"),
    (line(task_id={"a": 1}), "task_id"),
    (line(params={"deep": json.loads("[" * 300 + "]" * 300)}), "input_params cannot be recorded"),
]


async def test_broken_lines_are_reported_by_number(importer: Importer, store: SqlEventStore) -> None:
    """A line that cannot be understood is named with its reason, blank lines count, and the rest is imported."""
    lines = [line(seq=0), b"\n", *(body for body, _ in BROKEN), b"  \n", line(seq=1)]
    report = await importer.import_calls(TENANT, lines)
    assert [error.line for error in report.errors] == list(range(3, 3 + len(BROKEN)))
    for error, (_, reason) in zip(report.errors, BROKEN, strict=True):
        assert reason in error.reason
    assert (report.events, len(await events_of(store))) == (2, 2)


async def test_complaints_are_counted_beyond_those_that_are_kept(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is of all complaints, and those that differ in details alone are one reason with its first line."""
    monkeypatch.setattr(exchange, "MAX_ERRORS", 10)
    bad = [line(seq=-number) for number in range(1, 31)]
    report = await importer.import_calls(TENANT, [line(seq=0), *bad, b"{broken\n"])
    assert (report.not_understood, len(report.errors)) == (31, 10)
    assert [(reason.count, reason.first_line) for reason in report.reasons.values()] == [(30, 2), (1, 32)]


async def test_a_trace_without_calls_says_what_it_holds(importer: Importer) -> None:
    """What was read instead of calls is told in words."""
    chat = json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]})
    report = await importer.import_trace(TENANT, [chat.encode()])
    assert (report.format, report.is_understood) == ("openai", False)
    assert report.seen == "1 conversations were read (1 with messages), none asks for a tool call"


async def test_importing_twice_adds_nothing(importer: Importer, store: SqlEventStore) -> None:
    """The same file again, or twice in one file, is all duplicates; a changed line is a further event."""
    lines = [line(f"s{number // 5}", number % 5) for number in range(20)]
    first = await importer.import_calls(TENANT, [*lines, *lines])
    assert (first.sessions, first.events, first.duplicates) == (4, 20, 20)
    before = await events_of(store, "s1")
    again = await importer.import_calls(TENANT, lines)
    assert (again.sessions, again.events, again.duplicates) == (4, 0, 20)
    assert await events_of(store, "s1") == before
    changed = await importer.import_calls(TENANT, [line("s1", 2, output="other")])
    assert (changed.events, changed.duplicates) == (1, 0)
    assert_linked(await events_of(store, "s1"))


async def test_two_imports_at_once_add_each_line_once(database: Database, store: SqlEventStore) -> None:
    """Importers that race over one file share the work and double nothing."""
    lines = [line(f"s{number // 5}", number % 5) for number in range(400)]
    reports = await asyncio.gather(*(Importer(database).import_calls(TENANT, lines) for _ in range(3)))
    assert sum(report.events for report in reports) == 400
    assert all(report.events + report.duplicates == 400 for report in reports)
    assert await store.counts(TENANT) == (400, 80)


def failing(lines: list[bytes], at: int) -> Iterator[bytes]:
    yield from lines[:at]
    raise OSError("the disk is gone")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 40), batch=st.integers(1, 17))
def test_an_import_that_broke_off_can_be_resumed(
    database: Database, monkeypatch: pytest.MonkeyPatch, at: int, batch: int
) -> None:
    """Wherever an import broke off, the next one completes it: same events, order, tags and times as in one go."""
    monkeypatch.setattr(exchange, "BATCH", batch)
    fails = {3, 4, 9, 17}
    lines = [
        line(f"s{number // 10}", number % 10, ok=number not in fails, params={"n": number - (number - 1 in fails)})
        for number in range(40)
    ]
    name = f"tenant-{at}-{batch}"
    whole, parts = f"{name}-whole", f"{name}-parts"
    settle_tenants(database, whole, parts)

    async def run() -> None:
        await Importer(database).import_calls(whole, lines)
        with pytest.raises(InvalidInput, match="cannot be read on: the disk is gone"):
            await Importer(database).import_calls(parts, failing(lines, at))
        await Importer(database).import_calls(parts, lines)
        for session in ("s0", "s1", "s3"):
            one, other = [await SqlEventStore(database).session(tenant, session) for tenant in (whole, parts)]
            assert_linked(other.events)
            assert [_content(event) for event in other.events] == [_content(event) for event in one.events]

    asyncio.run(run())


def _content(event: MuninnEvent) -> tuple[Any, ...]:
    return (event.tool_id, event.input_params, event.tags, event.raised, event.timestamp.microsecond, event.source_key)


async def test_a_missing_line_finds_its_place_later(
    importer: Importer, store: SqlEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line imported an hour after its neighbours stands where its number says."""
    await importer.import_calls(TENANT, [line(seq=0), line(seq=2)])
    later = exchange.now_micros() + 3_600_000_000
    monkeypatch.setattr(exchange, "now_micros", lambda: later)
    await importer.import_calls(TENANT, [line(seq=1), line("other", 0)])
    assert [event.input_params["n"] for event in await events_of(store)] == [0, 1, 2]


async def test_tags_look_across_batches(
    importer: Importer, store: SqlEventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry is recognised though the failure stood in the batch before it, and a second import invents none."""
    monkeypatch.setattr(exchange, "BATCH", 1)
    lines = [line(seq=0, params={}, ok=False), line(seq=1, params={}), line(seq=2, params={})]
    await importer.import_calls(TENANT, lines)
    await importer.import_calls(TENANT, [*lines, line("t", 0, params={}, ok=False)])
    assert [event.tags for event in await events_of(store)] == [[], ["retry"], []]
    assert [event.tags for event in await events_of(store, "t")] == [[]]


async def test_progress_is_told_and_the_loop_goes_on(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Lines done are reported after each batch, and neither reading nor parsing blocks the loop."""
    monkeypatch.setattr(exchange, "BATCH", 10)
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"".join(line(seq=number) for number in range(25)))
    done: list[int] = []
    lines = open_lines(path)
    with blockbuster_ctx("twinraven"):
        await importer.import_calls(TENANT, lines, progress=done.append)
    lines.close()
    assert done == [10, 20, 25]


@pytest.mark.tenants("a", "b")
async def test_tenants_may_import_the_same_file(importer: Importer, store: SqlEventStore) -> None:
    """What one tenant has imported is no duplicate for another, and an unreadable tenant is refused."""
    for tenant in ("a", "b"):
        assert (await importer.import_calls(tenant, [line()])).events == 1
        assert await store.counts(tenant) == (1, 1)
    with pytest.raises(InvalidInput, match="tenant_id"):
        await importer.import_calls("a\0", [line()])


class TestFiles:
    """Where lines come from and go to; the store does not matter."""

    @pytest.fixture
    def database(self, sqlite_database: Database) -> Database:
        return sqlite_database

    @pytest.fixture
    def collector(self, database: Database) -> Generator[Collector]:
        collector = Collector(database)
        yield collector
        collector.close()

    async def test_gzip_and_plain_files_are_read_alike(self, importer: Importer, tmp_path: Path) -> None:
        """A file is recognised by its content, whatever it is called."""
        plain, packed = tmp_path / "a.gz", tmp_path / "b.jsonl"
        plain.write_bytes(line())
        packed.write_bytes(gzip.compress(line()))
        for path, events in ((plain, 1), (packed, 0)):
            with open_lines(path) as lines:
                assert (await importer.import_calls(TENANT, lines)).events == events

    async def test_a_pipe_is_read_like_a_file(self, importer: Importer, tmp_path: Path) -> None:
        """What cannot be rewound is read all the same, packed or not."""
        for number, body in enumerate((line(seq=0), gzip.compress(line(seq=1)))):
            pipe = tmp_path / f"pipe-{number}"
            os.mkfifo(pipe)
            writing = asyncio.to_thread(pipe.write_bytes, body)
            reading = asyncio.to_thread(open_lines, pipe)
            _, lines = await asyncio.gather(writing, reading)
            with lines:
                assert (await importer.import_calls(TENANT, lines)).events == 1

    async def test_a_damaged_archive_is_a_clear_error(self, importer: Importer, tmp_path: Path) -> None:
        """A gzip file that breaks off, or whose checksum is wrong, names the file as the fault."""
        whole = gzip.compress(b"".join(line(seq=number, output=str(number) * 50) for number in range(500)))
        for damaged in (whole[: len(whole) // 2], whole[:-8] + b"\0" * 8, whole[:200] + b"\0" * 100 + whole[300:]):
            path = tmp_path / "damaged.gz"
            path.write_bytes(damaged)
            with open_lines(path) as lines, pytest.raises(InvalidInput, match="cannot be read on"):
                await importer.import_calls(TENANT, lines)

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        """A missing file or a folder is refused with its name."""
        for path in (tmp_path / "nothing", tmp_path):
            with pytest.raises(InvalidInput, match=str(path)):
                open_lines(path)

    async def test_an_export_is_one_event_a_line(self, collector: Collector, store: SqlEventStore) -> None:
        """Every event is a line of its own with the fields by name, also where numbers are huge."""
        session = collector.observe("s")
        for number in (1, 2**70):
            await session.record("f", {"n": number}, output="line\nbreak")
        out = io.BytesIO()
        assert await export_json(store, TENANT, out) == 2
        bodies = [json.loads(text) for text in out.getvalue().splitlines()]
        assert bodies == [event.as_json() for event in await events_of(store)]
        assert [body["input_params"]["n"] for body in bodies] == [1, 2**70]

    async def test_a_source_with_an_error_of_ours_fails_the_import(self, importer: Importer) -> None:
        """The error reaches the caller as it is, and the import can be run again."""
        lines = [line(seq=number) for number in range(10)]

        def breaking() -> Iterable[bytes]:
            yield from lines[:5]
            raise StorageError("lost")

        with pytest.raises(StorageError, match="lost"):
            await importer.import_calls(TENANT, breaking())
        assert (await importer.import_calls(TENANT, lines)).events == 10

    @given(st.binary(max_size=200))
    def test_no_line_can_break_the_parser(self, body: bytes) -> None:
        """Any bytes are either a call or a clear refusal."""
        try:
            parse_call(body, TENANT)
        except InvalidInput as error:
            assert error.message
