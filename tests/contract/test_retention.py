"""Retention on both stores: what leaves, what stays, and what is written down about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.neighbours import settle_tenants
from tests.postgres import PostgresLogin
from tests.pruning import DAYS, loose_outputs, remember, retention_of, session_sizes
from tests.records import add_events, all_rows
from twinraven.audit import AuditFilter, AuditLog, AuditRecord, KeyRing, NewAuditEntry, Signer
from twinraven.foundation.errors import AppendOnly, InvalidInput, InvalidSetting, StorageError
from twinraven.muninn import SqlEventStore
from twinraven.muninn.retention import Retention
from twinraven.muninn.retention.model import hash_events
from twinraven.storage import Database, Transaction, Work, maintained, open_database

pytestmark = pytest.mark.tenants("t", "u")

OLD = 40


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "audit.json"


@pytest.fixture
def retention(database: Database, keys: Path) -> Retention:
    return retention_of(database, keys)


def sampling(tenant_id: str, *event_ids: str) -> Work[int]:
    """Store a chain that names these events as its samples."""
    return lambda tx: tx.execute(
        "INSERT INTO candidate_chains (tenant_id, chain_id, tools, support, confidence, avg_latency_ms, failure_rate, "
        "sample_event_ids, discovered_at, mining_config, detail) "
        "VALUES (:tenant, 'c', '[]', 0.5, 0.5, 1, 0, :samples, 0, '{}', '{}')",
        tenant=tenant_id,
        samples="[" + ", ".join(f'"{event_id}"' for event_id in event_ids) + "]",
    )


async def sizes(database: Database, tenant_id: str = "t") -> dict[str, int]:
    return await database.read(tenant_id, lambda tx: session_sizes(tx, tenant_id))


async def event_ids(database: Database, session_id: str) -> list[str]:
    return [str(event.event_id) for event in (await SqlEventStore(database).session("t", session_id)).events]


@pytest.mark.req("TR-02")
async def test_whole_sessions_leave_by_their_last_call(database: Database, retention: Retention) -> None:
    """A session leaves with all its calls when its last one is old enough; one that went on stays with all of its."""
    remember(
        database,
        [
            ("old", [OLD + 2, OLD + 1, OLD], ["a", "b", None]),
            ("went on", [OLD, DAYS - 1], ["c", "d"]),
            ("new", [0], ["e"]),
        ],
    )
    preview = await retention.preview("t", days=DAYS)
    report = await retention.run("t", days=DAYS)
    assert await sizes(database) == {"went on": 2, "new": 1}
    assert (preview.sessions, preview.events, preview.spared) == (1, 3, 0)
    assert (report.sessions, report.events, report.outputs, report.spared) == (1, 3, 2, 0)
    assert await database.read("t", loose_outputs) == []


@pytest.mark.req("TR-02")
async def test_a_session_that_a_stored_chain_samples_is_spared(database: Database, retention: Retention) -> None:
    """One sampled event keeps its whole session; the others leave."""
    remember(database, [("sampled", [OLD, OLD], ["a", "b"]), ("plain", [OLD], ["a"])])
    await database.write("t", sampling("t", (await event_ids(database, "sampled"))[1]))
    assert (await retention.preview("t", days=DAYS)).spared == 1
    report = await retention.run("t", days=DAYS)
    assert (report.sessions, report.spared) == (1, 1)
    assert await sizes(database) == {"sampled": 2}
    assert await database.read("t", loose_outputs) == []


@pytest.mark.req("TR-02")
async def test_the_guards_stand_after_a_run(database: Database, retention: Retention) -> None:
    """Neither the application nor the maintenance login can delete before or after, only inside a run."""
    remember(database, [("old", [OLD], ["a"]), ("new", [0], ["b"])])
    await SqlEventStore(database).state_verdict("t", "new", "success", stated_by="x")  # pyright: ignore[reportArgumentType]
    await retention.run("t", days=DAYS)
    connection = maintained(database).maintenance()
    for table in ("muninn_event_log", "session_verdicts", "retention_notes"):
        with pytest.raises(AppendOnly):
            await database.write("t", lambda tx, table=table: tx.execute(f"DELETE FROM {table}"))
        with pytest.raises(AppendOnly), connection.transaction("t", write=True) as tx:
            tx.execute(f"DELETE FROM {table}")
    connection.close()
    assert await sizes(database) == {"new": 1}


@pytest.mark.req("TR-02")
async def test_an_output_leaves_with_the_last_event_that_names_it(database: Database, keys: Path) -> None:
    """An output stays while a session that stays names it; one that leaving sessions share leaves with the last."""
    remember(
        database,
        [
            ("a", [OLD], ["shared with new"]),
            ("b", [OLD, OLD], ["shared by old", "only b"]),
            ("c", [OLD], ["shared by old"]),
            ("d", [0], ["shared with new"]),
        ],
    )
    report = await retention_of(database, keys, batch_events=1).run("t", days=DAYS)
    assert [note.sessions for note in report.notes] == [1, 1, 1]
    assert [note.outputs for note in report.notes] == [0, 1, 1]
    assert await database.read("t", loose_outputs) == []
    assert len(await database.read("t", all_rows("blobs"))) == 1


@pytest.mark.req("TR-02")
async def test_verdicts_leave_with_their_session(database: Database, retention: Retention) -> None:
    """What was said about a session does not outlive it."""
    remember(database, [("old", [OLD], ["a"]), ("new", [0], ["b"])])
    store = SqlEventStore(database)
    for session in ("old", "new"):
        await store.state_verdict("t", session, "failure", stated_by="x")  # pyright: ignore[reportArgumentType]
    assert (await retention.run("t", days=DAYS)).verdicts == 1
    assert list(await store.verdicts("t")) == ["new"]


async def test_a_signed_note_says_what_left(database: Database, retention: Retention) -> None:
    """The note has the counts, the span and a hash over the ids; its signature holds for it and for nothing else."""
    remember(database, [("old", [OLD + 1, OLD], ["a", "b"]), ("new", [0], ["c"])])
    old = (await SqlEventStore(database).session("t", "old")).events
    report = await retention.run("t", days=DAYS)
    (note,) = await retention.notes("t")
    assert [note] == report.notes
    assert (note.sessions, note.events, note.outputs) == (1, 2, 2)
    assert (note.first_at, note.last_at) == (old[0].timestamp, old[1].timestamp)
    assert note.events_hash == hash_events(str(event.event_id) for event in old)
    assert retention.fault_of(note) is None
    assert retention.fault_of(replace(note, events=3)) is not None
    assert retention.fault_of(replace(note, tenant_id="u")) is not None
    assert retention.fault_of(replace(note, signed=None)) is not None


@pytest.mark.req("TR-02", "CH-18")
async def test_a_run_is_in_the_audit_chain_and_sealed_reads_still_verify(
    database: Database, retention: Retention, keys: Path
) -> None:
    """The removal is audited with the note's facts, and the chain verifies although sealed calls are gone."""
    remember(database, [("old", [OLD, OLD], ["a", "b"]), ("new", [0], ["c"])])
    audit = AuditLog(database, Signer(KeyRing(keys)))
    assert await audit.seal_reads("t") is not None
    report = await retention.run("t", days=DAYS)
    (entry,) = await audit.entries("t", AuditFilter(event_type="muninn.sessions_pruned"))
    assert entry.subject_id == report.notes[0].note_id
    assert entry.data["events_hash"] == report.notes[0].events_hash
    assert entry.data["events"] == 2
    verified = await audit.verify("t")
    assert verified.ok, verified.fault


class BrokenChronicle:
    """An audit log that cannot be written to."""

    def append(self, tx: Transaction, entry: NewAuditEntry) -> AuditRecord:
        raise StorageError(f"the audit log cannot be written: {entry.event_type} on {tx.dialect}")

    def reseal_reads(
        self, tx: Transaction, tenant_id: str, removed: Collection[int], *, reason: str
    ) -> list[AuditRecord]:
        del tx, tenant_id, removed, reason
        return []


@pytest.mark.req("TR-02")
async def test_what_cannot_be_audited_does_not_leave(database: Database) -> None:
    """A failure at the very end of a batch undoes the batch, and the guard stands."""
    remember(database, [("old", [OLD], ["a"])])
    with pytest.raises(StorageError, match="cannot be written"):
        await Retention(database, audit=BrokenChronicle()).run("t", days=DAYS)
    assert await sizes(database) == {"old": 1}
    assert await database.read("t", loose_outputs) == []
    assert await database.read("t", all_rows("retention_notes")) == []
    connection = maintained(database).maintenance()
    with pytest.raises(AppendOnly), connection.transaction("t", write=True) as tx:
        tx.execute("DELETE FROM muninn_event_log")
    connection.close()


async def test_a_preview_says_what_a_run_does_and_changes_nothing(database: Database, retention: Retention) -> None:
    """Counts of the two agree, and the log is as it was in between."""
    remember(database, [(f"s{n}", [OLD] * (n + 1), ["x"] * (n + 1)) for n in range(3)])
    remember(database, [("new", [0], ["y"])])
    before = await sizes(database)
    preview = await retention.preview("t", days=DAYS)
    assert await sizes(database) == before
    report = await retention.run("t", days=DAYS)
    assert (preview.sessions, preview.events) == (report.sessions, report.events) == (3, 6)


@pytest.mark.req("TR-02")
async def test_another_tenants_sessions_stay(database: Database, retention: Retention) -> None:
    """A run takes from one tenant, even where another has a session of the same id, outputs alike."""
    for tenant in ("t", "u"):
        remember(database, [("same", [OLD], ["same output"])], tenant_id=tenant)
    await retention.run("t", days=DAYS)
    assert (await sizes(database, "t"), await sizes(database, "u")) == ({}, {"same": 1})
    assert await database.read("u", lambda tx: loose_outputs(tx, "u")) == []
    assert await retention.notes("u") == []


@pytest.mark.req("TR-02")
async def test_a_session_that_goes_on_meanwhile_stays(database: Database, keys: Path) -> None:
    """A call, or an output, that appears between the look and the batch keeps what it needs."""
    remember(database, [("a", [OLD], ["x"]), ("b", [OLD], ["y"]), ("c", [OLD], ["z"])])
    happened: list[int] = []

    def meanwhile(events: int) -> None:
        if not happened:
            happened.append(events)
            remember(database, [("b", [0], ["y2"]), ("d", [OLD], ["z"])])

    report = await retention_of(database, keys, batch_events=1).run("t", days=DAYS, progress=meanwhile)
    assert report.sessions == 2 + 1
    assert await sizes(database) == {"b": 2}
    assert await database.read("t", loose_outputs) == []


async def test_nothing_to_remove_leaves_no_note(database: Database, retention: Retention) -> None:
    """A run over a young log, or an empty one, says so and writes nothing."""
    assert (await retention.run("t", days=DAYS)).sessions == 0
    remember(database, [("new", [0], ["x"])])
    assert (await retention.run("t", days=DAYS)).sessions == 0
    assert await retention.notes("t") == []


@pytest.mark.parametrize("days", [0, -1, 10**9])
async def test_days_that_make_no_sense_are_refused(database: Database, retention: Retention, days: int) -> None:
    """A span below a day or beyond the calendar is bad input, not an empty log."""
    with pytest.raises(InvalidInput, match="days"):
        await retention.run("t", days=days)


async def test_the_applications_login_cannot_prune(postgres_login: PostgresLogin, keys: Path) -> None:
    """On Postgres pruning needs the owner's login, and the refusal says which setting gives it."""
    database = open_database(postgres_login.url)
    settle_tenants(database, "t")
    remember(database, [("old", [OLD], ["a"])])
    with pytest.raises(InvalidSetting, match=r"storage\.admin_url"):
        await retention_of(database, keys).run("t", days=DAYS)
    assert await sizes(database) == {"old": 1}
    database.close()


async def test_an_event_without_a_known_place_still_counts(database: Database, retention: Retention) -> None:
    """Rows that other programs wrote, with times of long ago and no outputs, are sessions like any other."""
    await database.write("t", add_events("t", "e1", "e2"))
    assert (await retention.run("t", days=DAYS)).events == 2
    assert await sizes(database) == {}


def canaries(folder: Path) -> dict[str, Any]:
    return {path.name: path.read_bytes().count(b"CANARY") for path in sorted(folder.glob("twinraven.db*"))}


async def test_no_trace_of_what_left_is_in_the_file(sqlite_database: Database, tmp_path: Path) -> None:
    """Names, arguments and outputs of removed sessions are in no page and no log of the SQLite file."""
    remember(
        sqlite_database,
        [
            (f"{n * 7919 % 1009:04d} CANARY", [OLD] * 4, ["CANARY" * 300] * 4)
            if n % 2
            else (f"{n * 7919 % 1009:04d} plain", [0] * 4, [f"plain {n}"] * 4)
            for n in range(300)
        ],
    )
    assert sum(canaries(tmp_path).values()) > 1000
    report = await Retention(sqlite_database).run("t", days=DAYS)
    assert report.residue_cleared
    assert set(canaries(tmp_path).values()) == {0}
    assert len(await sizes(sqlite_database)) == 150
