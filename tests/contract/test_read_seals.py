"""Remembered calls under the audit chain, on both stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.records import add_events
from twinraven.audit import AuditLog, KeyRing, Signer
from twinraven.foundation.errors import Conflict, StorageBusy
from twinraven.storage import Database, settled_arrival
from twinraven.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.tenants("t", "u")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "audit.json"


@pytest.fixture
def audit(database: Database, keys: Path) -> AuditLog:
    return AuditLog(database, Signer(KeyRing(keys)))


async def test_reads_are_sealed_in_batches(audit: AuditLog, database: Database) -> None:
    """Each seal takes up where the last one ended, and there is none for nothing."""
    assert await audit.seal_reads("t") is None
    await database.write("t", add_events("t", *"abcde"))
    await database.write("u", add_events("u", "x"))
    counts: list[int] = []
    while record := await audit.seal_reads("t", at_most=2):
        counts.append(record.data["count"])
    assert counts == [2, 2, 1]
    report = await audit.verify("t")
    assert (report.ok, report.sealed_reads) == (True, 5)


async def test_two_sealers_do_not_seal_twice(audit: AuditLog, database: Database) -> None:
    """Sealing at the same time leaves each call in one seal."""
    await database.write("t", add_events("t", *"abcde"))
    await asyncio.gather(*(audit.seal_reads("t") for _ in range(4)))
    report = await audit.verify("t")
    assert (report.ok, report.sealed_reads) == (True, 5)


async def test_a_seal_waits_for_writers_who_were_there_first(postgres_database: Database, keys: Path) -> None:
    """A call with a smaller number that becomes visible later is inside the seal, not a contradiction to it."""
    audit = AuditLog(postgres_database, Signer(KeyRing(keys)))
    early = postgres_database.connect()
    with early.transaction("t", write=True) as tx:
        add_events("t", "early")(tx)
        await postgres_database.write("t", add_events("t", "late"))
        sealing = asyncio.ensure_future(audit.seal_reads("t"))
        await asyncio.sleep(0.2)
        assert not sealing.done()
        with pytest.raises(StorageBusy):
            await settled_arrival(postgres_database, "t", "muninn_event_log", patience_s=0.1)
    record = await sealing
    early.close()
    assert record is not None
    assert record.data["count"] == 2
    assert (await audit.verify("t")).ok


async def test_retention_reseals_what_it_leaves(sqlite_database: Database, keys: Path) -> None:
    """Calls removed with a new seal verify; calls removed without one are found, and pruning cannot cover for them."""
    audit = AuditLog(sqlite_database, Signer(KeyRing(keys)))
    await sqlite_database.write("t", add_events("t", *"abcdef"))
    while await audit.seal_reads("t", at_most=3):
        pass
    assert isinstance(sqlite_database, SqliteDatabase)
    maintenance = sqlite_database.maintenance()
    with maintenance.transaction("t", write=True) as tx:
        tx.execute("DROP TRIGGER muninn_event_log_no_delete")
        notes = audit.reseal_reads(tx, "t", [2, 5], reason="older than 30 days")
        tx.execute("DELETE FROM muninn_event_log WHERE arrival IN (2, 5)")
    assert [note.data["removed"] for note in notes] == [1, 1]
    report = await audit.verify("t")
    assert (report.ok, report.sealed_reads) == (True, 4)
    with maintenance.transaction("t", write=True) as tx:
        tx.execute("DELETE FROM muninn_event_log WHERE arrival = 1")
    with pytest.raises(Conflict), maintenance.transaction("t", write=True) as tx:
        audit.reseal_reads(tx, "t", [3], reason="cover")
    maintenance.close()
    broken = await audit.verify("t")
    assert broken.fault is not None
    assert broken.fault.kind == "reads"
    assert (await audit.verify("t", reads=False)).ok
