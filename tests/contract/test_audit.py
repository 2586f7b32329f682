"""The audit log on both stores: appended with what it is about, refused by the database, erasable, sealed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fences import Attempt, assert_fenced, methods_of
from tests.records import add_blob, blob_keys
from twinraven.audit import (
    AuditFilter,
    AuditLog,
    AuditRecord,
    AuditStore,
    Head,
    KeyRing,
    NewAuditEntry,
    Signer,
    SqlAuditStore,
)
from twinraven.audit.chain import ChainRow
from twinraven.foundation.actors import agent, person
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, InvalidSetting, NotFound
from twinraven.storage import Database, Transaction

pytestmark = pytest.mark.tenants("t", "u", "victim", "intruder")

_TABLES = ("audit_log", "audit_bodies", "audit_heads")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "audit.json"


@pytest.fixture
def audit(database: Database, keys: Path) -> AuditLog:
    return AuditLog(database, Signer(KeyRing(keys)))


def entry(number: int = 1, *, tenant_id: str = "t", **more: Any) -> NewAuditEntry:
    return NewAuditEntry(tenant_id, "thing.done", "other", f"subject-{number}", **more)


async def fill(audit: AuditLog, count: int, *, tenant_id: str = "t") -> list[AuditRecord]:
    return [
        await audit.write(entry(number, tenant_id=tenant_id, body={"who": f"person {number} of {tenant_id}"}))
        for number in range(count)
    ]


@pytest.mark.req("CH-01")
async def test_an_entry_keeps_everything_it_was_given(audit: AuditLog) -> None:
    """Every field of an entry is read back as it was, under an opaque id, in its place in the chain."""
    when = utc_now()
    given = NewAuditEntry(
        "t",
        "call.failed",
        "transaction",
        "tx-1",
        agent("ada"),
        data={"amount": 12, "currency": "EUR"},
        body={"iban": "DE00"},
        code="TOOL_TIMEOUT",
        message="the bank did not answer",
        correlation_id="req-1",
        timestamp=when,
    )
    written = await audit.write(given)
    read = await audit.entry("t", written.id)
    assert read == written
    assert (read.sequence, read.previous_hash) == (1, "0" * 64)
    assert (read.subject_type, read.subject_id, read.event_type) == ("transaction", "tx-1", "call.failed")
    assert (read.actor_type, read.actor_id, read.correlation_id) == ("agent", "ada", "req-1")
    assert (read.code, read.message) == ("TOOL_TIMEOUT", "the bank did not answer")
    assert (read.data, read.body, read.timestamp) == ({"amount": 12, "currency": "EUR"}, {"iban": "DE00"}, when)
    assert len(bytes.fromhex(read.id)) == 16


async def test_an_entry_without_a_correlation_id_gets_one(audit: AuditLog) -> None:
    """What was not given from outside is minted."""
    first, second = await audit.write(entry()), await audit.write(entry())
    assert len(first.correlation_id) == 32
    assert first.correlation_id != second.correlation_id


async def test_effect_and_entry_are_stored_together_or_not_at_all(audit: AuditLog, database: Database) -> None:
    """A transaction that fails after the entry leaves neither; one that succeeds leaves both."""

    def both(tx: Transaction) -> None:
        add_blob("t", "effect")(tx)
        audit.append(tx, entry())

    def broken(tx: Transaction) -> None:
        both(tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write("t", broken)
    assert await database.read("t", blob_keys("t")) == []
    assert await audit.entries("t") == []
    await database.write("t", both)
    assert await database.read("t", blob_keys("t")) == ["effect"]
    assert len(await audit.entries("t")) == 1
    assert (await audit.verify("t")).ok


async def test_without_its_entry_an_effect_does_not_happen(database: Database, keys: Path) -> None:
    """Where the head cannot be signed nothing is stored."""
    audit = AuditLog(database, Signer(KeyRing(keys)))
    await audit.write(entry())
    keys.chmod(0o644)
    fresh = AuditLog(database, Signer(KeyRing(keys)))

    def work(tx: Transaction) -> None:
        add_blob("t", "effect")(tx)
        fresh.append(tx, entry(2))

    with pytest.raises(InvalidSetting):
        await database.write("t", work)
    assert await database.read("t", blob_keys("t")) == []
    assert len(await audit.entries("t")) == 1


async def test_a_chain_is_linear_under_concurrency(audit: AuditLog) -> None:
    """Writers at the same time get one place each, without gaps."""
    await asyncio.gather(*(audit.write(entry(number)) for number in range(40)))
    report = await audit.verify("t")
    assert report.ok
    assert report.entries == 40
    assert [record.sequence for record in await audit.entries("t")] == list(range(1, 41))


async def test_processes_share_a_chain(database: Database, keys: Path, request: pytest.FixtureRequest) -> None:
    """Several processes append to one chain, with one key, without a gap."""
    if database.dialect == "sqlite":
        url: str = request.getfixturevalue("sqlite_url")
    else:
        url = request.getfixturevalue("postgres_login").url
    program = """
import asyncio, sys
from pathlib import Path
from twinraven.audit import AuditLog, KeyRing, NewAuditEntry, Signer
from twinraven.storage import open_database
async def main():
    database = open_database(sys.argv[1])
    audit = AuditLog(database, Signer(KeyRing(Path(sys.argv[2]))))
    for number in range(8):
        await audit.write(NewAuditEntry("t", "thing.done", "other", str(number)))
    database.close()
asyncio.run(main())
"""
    started = [subprocess.Popen([sys.executable, "-c", program, url, str(keys)]) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    report = await AuditLog(database, Signer(KeyRing(keys))).verify("t")
    assert (report.ok, report.entries) == (True, 24)


async def test_each_tenant_has_a_chain_of_its_own(audit: AuditLog) -> None:
    """Numbers and links of one tenant do not depend on another."""
    await fill(audit, 2)
    await fill(audit, 3, tenant_id="u")
    assert [(await audit.verify(tenant)).entries for tenant in ("t", "u", "nobody")] == [2, 3, 0]


_CHANGES = (
    "UPDATE audit_log SET code = 'X'",
    "DELETE FROM audit_log",
    "UPDATE audit_bodies SET body = salt",
    "DELETE FROM audit_heads",
    "UPDATE audit_heads SET sequence = sequence - 1",
)


@pytest.mark.req("CH-18")
@pytest.mark.parametrize("statement", _CHANGES)
async def test_the_database_refuses_change(audit: AuditLog, database: Database, statement: str) -> None:
    """Entries, bodies and heads cannot be changed back by application logic."""
    await fill(audit, 2)
    with pytest.raises(AppendOnly):
        await database.write("t", lambda tx: tx.execute(statement))
    assert (await audit.verify("t")).ok


@pytest.mark.req("CH-18")
@pytest.mark.parametrize("table", ["audit_log", "audit_bodies"])
async def test_sqlite_refuses_to_replace(sqlite_database: Database, keys: Path, table: str) -> None:
    """INSERT OR REPLACE does not go round the guard."""
    audit = AuditLog(sqlite_database, Signer(KeyRing(keys)))
    await fill(audit, 2)
    with pytest.raises(AppendOnly):
        await sqlite_database.write(
            "t", lambda tx: tx.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} LIMIT 1")
        )


async def test_a_body_cannot_belong_to_an_entry_of_another_tenant(audit: AuditLog, database: Database) -> None:
    """The database refuses a body whose entry is not of the same tenant."""
    record = (await fill(audit, 1))[0]
    statement = "INSERT INTO audit_bodies (tenant_id, entry_id, salt, body) VALUES ('u', :id, :blob, :blob)"
    with pytest.raises(Conflict):
        await database.write("u", lambda tx: tx.execute(statement, id=record.id, blob=b"x"))


async def test_entries_are_found_by_what_they_are_about(audit: AuditLog) -> None:
    """Subject, event, actor, correlation id and place each narrow the list; bodies stay out of it."""
    for number in range(6):
        await audit.write(
            NewAuditEntry(
                "t",
                f"event.{number % 2}",
                "order",
                f"o{number}",
                person("ada" if number < 3 else "bob"),
                body={"n": number},
                correlation_id=f"c{number % 3}",
            )
        )

    async def found(**where: Any) -> list[int]:
        records = await audit.entries("t", AuditFilter(**where))
        assert all(record.body is None for record in records)
        return [record.sequence for record in records]

    assert await found(event_type="event.1") == [2, 4, 6]
    assert await found(subject_type="order", subject_id="o3") == [4]
    assert await found(actor_id="ada") == [1, 2, 3]
    assert await found(correlation_id="c2") == [3, 6]
    assert await found(after_sequence=4) == [5, 6]
    assert await found(before_sequence=6, newest_first=True, limit=2) == [5, 4]
    with pytest.raises(InvalidInput):
        await found(limit=0)


async def test_entries_are_found_by_time(audit: AuditLog) -> None:
    """From a time on and before one, also where a clock was behind; beside other filters, and page by page."""
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    for number, hour in enumerate((0, 1, 2, 5, 3, 4, 6)):
        entry = NewAuditEntry("t", f"event.{number % 2}", "order", "o", timestamp=begin + timedelta(hours=hour))
        await audit.write(entry)

    async def found(since: int | None, until: int | None, **where: Any) -> list[int]:
        span = {"since": since, "until": until}
        times = {name: begin + timedelta(hours=hour) for name, hour in span.items() if hour is not None}
        return [record.sequence for record in await audit.entries("t", AuditFilter(**times, **where))]

    assert await found(2, 5) == [3, 5, 6]
    assert await found(5, None) == [4, 7]
    assert await found(None, 1) == [1]
    assert await found(7, None) == []
    assert await found(0, 9, newest_first=True, limit=2) == [7, 6]
    assert await found(0, 9, newest_first=True, limit=2, before_sequence=6) == [5, 4]
    assert await found(0, 5, event_type="event.1") == [2, 6]


async def test_what_is_not_yours_is_not_found(audit: AuditLog) -> None:
    """Another tenant's entry and one that does not exist get the same answer."""
    record = (await fill(audit, 1))[0]
    for tenant_id, entry_id in (("u", record.id), ("t", "0" * 32)):
        with pytest.raises(NotFound):
            await audit.entry(tenant_id, entry_id)


@pytest.mark.parametrize(
    ("field", "value"), [("event_type", ""), ("subject_id", "x" * 501), ("actor_id", "a\0b"), ("correlation_id", "")]
)
async def test_bad_input_names_its_field(audit: AuditLog, field: str, value: str) -> None:
    """An entry that cannot be stored is refused before it takes a place."""
    given: dict[str, Any] = {"tenant_id": "t", "event_type": "e", "subject_type": "s", "subject_id": "i"}
    given |= {"actor": person(value)} if field == "actor_id" else {field: value}
    with pytest.raises(InvalidInput) as refusal:
        await audit.write(NewAuditEntry(**given))
    assert refusal.value.details["field"] == field


async def test_odd_values_are_stored_on_both_stores_alike(audit: AuditLog) -> None:
    """NUL, lone surrogates, huge numbers and NaN come to the same stored text everywhere and verify."""
    odd = {"nul": "a\0b", "half": "\ud800", "big": 2**80, "nan": float("nan")}
    record = await audit.write(entry(data=odd, body=odd, message="a\0b \ud83d"))
    read = await audit.entry("t", record.id)
    assert read.data == {"nul": "a\0b", "half": "\ufffd", "big": 2**80, "nan": "NaN"}
    assert read.message == "a\ufffdb \ufffd"
    assert (await audit.verify("t")).ok


async def test_everything_is_redacted_before_it_is_hashed(database: Database, keys: Path) -> None:
    """Data, body and message are stored without what the redactor takes out, and verify."""
    audit = AuditLog(
        database, Signer(KeyRing(keys)), redact=lambda _, text: text.replace(b"hunter2hunter2", b"[secret]")
    )
    secret = "hunter2hunter2"
    await audit.write(entry(data={"a": secret}, body=[secret], message=f"it was {secret}"))
    rows = await database.read(
        "t", lambda tx: [tx.fetch_all(f"SELECT * FROM {table} WHERE tenant_id = 't'") for table in _TABLES]
    )
    assert secret not in repr(rows)
    assert "it was [secret]" in repr(rows)
    assert (await audit.verify("t")).ok


@pytest.mark.req("CH-18")
async def test_erasure_removes_body_and_salt_and_the_chain_still_verifies(audit: AuditLog, database: Database) -> None:
    """After an erasure nothing of the body is left, the entry stands, and the erasure itself is audited; a body that
    comes back is found."""
    records = await fill(audit, 3)
    (kept,) = await database.read(
        "t",
        lambda tx: tx.fetch_all(
            "SELECT * FROM audit_bodies WHERE tenant_id = 't' AND entry_id = :id", id=records[1].id
        ),
    )
    note = await audit.erase("t", [records[1].id], reason="asked for by the person", actor=person("dpo"))
    assert note.event_type == "audit.bodies_erased"
    assert note.data == {"entry_ids": [records[1].id]}
    assert (note.message, note.actor_id) == ("asked for by the person", "dpo")
    bodies = await database.read("t", lambda tx: tx.fetch_all("SELECT entry_id FROM audit_bodies"))
    assert {row["entry_id"] for row in bodies} == {records[0].id, records[2].id}
    erased = await audit.entry("t", records[1].id)
    assert (erased.body, erased.body_hash) == (None, records[1].body_hash)
    report = await audit.verify("t")
    assert (report.ok, report.erased_bodies) == (True, 1)
    names, marks = ", ".join(kept), ", ".join(f":{name}" for name in kept)
    statement = f"INSERT INTO audit_bodies ({names}) VALUES ({marks})"
    await database.write("t", lambda tx: tx.execute(statement, **kept))
    fault = (await audit.verify("t")).fault
    assert fault is not None
    assert (fault.kind, fault.sequence) == ("body", records[1].sequence)


async def test_an_erasure_that_cannot_be_done_in_full_is_not_done_at_all(audit: AuditLog) -> None:
    """Unknown entries, foreign ones, those without a body and missing reasons change nothing."""
    records = await fill(audit, 1)
    foreign = await fill(audit, 1, tenant_id="u")
    bare = await audit.write(entry())
    for wrong in ([records[0].id, foreign[0].id], [records[0].id, bare.id], ["0" * 32], []):
        with pytest.raises(NotFound):
            await audit.erase("t", wrong, reason="because")
    with pytest.raises(InvalidInput):
        await audit.erase("t", [records[0].id], reason=" ")
    assert (await audit.entry("t", records[0].id)).body is not None
    assert len(await audit.entries("t")) == 2


async def test_the_signing_key_can_be_renewed(database: Database, keys: Path) -> None:
    """Heads and anchors signed with a retired key are still ours."""
    ring = KeyRing(keys)
    audit = AuditLog(database, Signer(ring))
    await fill(audit, 2)
    anchor = keys.parent / "anchors.jsonl"
    await audit.anchor("t", anchor)
    assert (await audit.verify("t", anchor=anchor)).ok
    ring.renew()
    assert (await audit.verify("t", anchor=anchor)).ok
    await fill(audit, 1)
    await audit.anchor("t", anchor)
    head = await audit.head("t")
    assert head is not None
    assert head.key_id == ring.active().id
    assert (await audit.verify("t", anchor=anchor)).ok


async def test_anchors_are_refused_where_they_say_nothing(audit: AuditLog, tmp_path: Path) -> None:
    """A file without this tenant's anchors, or with anything else in it, does not count as a check passed."""
    with pytest.raises(NotFound):
        await audit.anchor("t", tmp_path / "anchors")
    await fill(audit, 1)
    await fill(audit, 1, tenant_id="u")
    await audit.anchor("u", tmp_path / "other")
    (tmp_path / "nonsense").write_text("{}\n")
    for name in ("missing", "other", "nonsense"):
        with pytest.raises(InvalidInput):
            await audit.verify("t", anchor=tmp_path / name)


async def test_no_method_of_the_store_crosses_tenants(audit: AuditLog, database: Database) -> None:
    """Every method, given another tenant's ids, sees nothing of it and changes nothing."""
    record = (await fill(audit, 2, tenant_id="victim"))[0]
    await fill(audit, 1, tenant_id="intruder")
    store, victim_head = SqlAuditStore(), await audit.head("victim")
    assert victim_head is not None
    forged = ChainRow(
        "intruder", 9, record.id, "s", "i", "e", "system", None, 1, "c", None, None, "{}", "h", "p", "e", b"s", b"{}"
    )
    attempts: dict[str, Attempt] = {
        "lock_end": lambda tx: store.lock_end(tx, "intruder"),
        "add": lambda tx: store.add(tx, forged),
        "set_head": lambda tx: store.set_head(tx, Head("intruder", 7, "e", 1, "k", "s")),
        "head": lambda tx: store.head(tx, "intruder"),
        "chain": lambda tx: store.chain(tx, "intruder"),
        "entries": lambda tx: store.entries(tx, "intruder", AuditFilter(subject_id=record.subject_id)),
        "entry": lambda tx: store.entry(tx, "intruder", record.id),
        "about": lambda tx: store.about(tx, "intruder", record.subject_type, [record.subject_id]),
        "last_of": lambda tx: store.last_of(tx, "intruder", record.event_type),
        "with_bodies": lambda tx: store.with_bodies(tx, "intruder", [record.id]),
        "erase_bodies": lambda tx: store.erase_bodies(tx, "intruder", [record.id]),
    }
    assert methods_of(AuditStore) == set(attempts)
    if database.dialect == "postgres":
        attempts |= {
            "head of the victim": lambda tx: store.head(tx, "victim"),
            "lock of the victim": lambda tx: store.lock_end(tx, "victim"),
            "new head of the victim": lambda tx: store.set_head(tx, Head("victim", 7, "e", 1, "k", "s")),
            "chain of the victim": lambda tx: store.chain(tx, "victim"),
            "erasure at the victim's": lambda tx: store.erase_bodies(tx, "victim", [record.id]),
        }
    marks = (record.entry_hash, record.previous_hash if record.sequence > 1 else record.entry_hash, "of victim")
    await assert_fenced(database, attempts, intruder="intruder", victim="victim", tables=_TABLES, marks=marks)
    assert (await audit.verify("victim")).ok
