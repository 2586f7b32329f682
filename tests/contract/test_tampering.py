"""Changes made behind the audit log's back, by somebody who owns the database and not the key."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.intruders import Intruder, intruder_of
from tests.records import add_events
from twinraven.audit import AuditFilter, AuditLog, KeyRing, NewAuditEntry, Signer
from twinraven.audit.chain import GENESIS, ChainRow, hash_body, hash_entry
from twinraven.foundation.actors import person
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("t", "u")

_TABLES = ("audit_log", "audit_bodies", "audit_heads", "muninn_event_log")
_COLUMNS = ChainRow._fields[:16]
_NAMES = ", ".join(_COLUMNS)


@pytest.fixture
def intruder(database: Database, request: pytest.FixtureRequest) -> Generator[Intruder]:
    someone = intruder_of(database, request)
    yield someone
    someone.close()


@pytest.fixture
def audit(database: Database, tmp_path: Path) -> AuditLog:
    return AuditLog(database, Signer(KeyRing(tmp_path / "keys" / "audit.json")))


async def fill(audit: AuditLog, database: Database) -> None:
    """A chain of every kind of entry: with and without bodies, an erasure, sealed calls."""
    await database.write("t", add_events("t", *"abcdef"))
    ids: list[str] = []
    for number in range(24):
        body = {"who": f"person {number}"} if number % 2 else None
        record = await audit.write(
            NewAuditEntry("t", "thing.done", "other", f"s{number}", person("ada"), data={"n": number}, body=body)
        )
        ids.append(record.id)
        if number == 10:
            await audit.seal_reads("t", at_most=4)
        if number == 12:
            await audit.erase("t", [ids[3], ids[5]], reason="asked for")
    await audit.seal_reads("t")


class Tampering:
    """One kind of change after another, each undone before the next."""

    def __init__(self, intruder: Intruder, chance: random.Random) -> None:
        self._intruder = intruder
        self._run = intruder.run
        self._chance = chance
        for table in _TABLES:
            self._run(f"CREATE TABLE saved_{table} AS SELECT * FROM {table}")
        self.length = self._run("SELECT max(sequence) FROM audit_log")[0][0]

    def undo(self) -> None:
        for table in _TABLES:
            self._intruder.restore(table, f"saved_{table}")

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.edit,
            self.edit_and_rehash,
            self.edit_and_rechain,
            self.delete,
            self.delete_and_close_the_gap,
            self.swap,
            self.truncate,
            self.truncate_and_move_the_head,
            self.append_behind_the_head,
            self.append_and_move_the_head,
            self.change_the_head,
            self.change_a_body,
            self.remove_a_body,
            self.bring_a_body_back,
            self.change_a_sealed_call,
            self.remove_a_sealed_call,
        ]

    def edit(self) -> None:
        column = self._chance.choice([name for name in _COLUMNS if name not in ("tenant_id", "sequence")])
        sequence = self._anywhere()
        value: Any = self._run(f"SELECT {column} FROM audit_log WHERE sequence = ?", sequence)[0][0]
        changed: Any = f"{value or ''}x"
        if column == "actor_type":
            changed = "system" if value == "person" else "person"
        elif column == "timestamp":
            changed = value + self._chance.choice((-1, 1))
        elif column.endswith("hash") and value:
            changed = ("1" if value[0] != "1" else "2") + value[1:]
        self._run(f"UPDATE audit_log SET {column} = ? WHERE sequence = ?", changed, sequence)

    def edit_and_rehash(self) -> None:
        sequence = self._anywhere(end=self.length - 1)
        self._rewrite(sequence, subject_id="forged")

    def edit_and_rechain(self) -> None:
        first = self._anywhere()
        self._rewrite(first, subject_id="forged")
        self._rechain(first + 1)

    def delete(self) -> None:
        first = self._anywhere(end=self.length - 1)
        last = self._chance.randint(first, min(first + 3, self.length - 1))
        self._run("DELETE FROM audit_log WHERE sequence BETWEEN ? AND ?", first, last)

    def delete_and_close_the_gap(self) -> None:
        gone = self._anywhere(end=self.length - 1)
        self._run("DELETE FROM audit_log WHERE sequence = ?", gone)
        for sequence in range(gone + 1, self.length + 1):
            self._run("UPDATE audit_log SET sequence = ? WHERE sequence = ?", sequence - 1, sequence)
        if self._chance.random() < 0.5:
            self.length -= 1
            self._rechain(gone)
            self.length += 1

    def swap(self) -> None:
        one, other = self._chance.sample(range(1, self.length + 1), 2)
        aside = 1_000_000
        for before, after in ((one, aside), (other, one), (aside, other)):
            self._run("UPDATE audit_log SET sequence = ? WHERE sequence = ?", after, before)

    def truncate(self) -> None:
        self._run("DELETE FROM audit_log WHERE sequence > ?", self._anywhere(end=self.length - 1) - 1)

    def truncate_and_move_the_head(self) -> None:
        last = self._anywhere(end=self.length - 1)
        self._run("DELETE FROM audit_log WHERE sequence > ?", last)
        self._move_head(last)

    def append_behind_the_head(self) -> None:
        row = self._row(self.length)._replace(sequence=self.length + 1, id="f" * 32, body_hash=None)
        row = row._replace(previous_hash=self._row(self.length).entry_hash)
        row = row._replace(entry_hash=hash_entry(row.hashed_fields))
        marks = ", ".join("?" * len(_COLUMNS))
        self._run(f"INSERT INTO audit_log ({_NAMES}) VALUES ({marks})", *row[: len(_COLUMNS)])

    def append_and_move_the_head(self) -> None:
        self.append_behind_the_head()
        self._move_head(self.length + 1)

    def change_the_head(self) -> None:
        changes = ("sequence = sequence - 1", "entry_hash = '1'", "signed_at = 7", "key_id = 'k'", "signature = '00'")
        self._run(f"UPDATE audit_heads SET {self._chance.choice(changes)}")

    def change_a_body(self) -> None:
        (entry,) = self._chance.choice(self._run("SELECT entry_id FROM audit_bodies ORDER BY entry_id"))
        column = self._chance.choice(("salt", "body"))
        self._run(f"UPDATE audit_bodies SET {column} = ? WHERE entry_id = ?", b'{"who":"nobody"}', entry)

    def remove_a_body(self) -> None:
        (entry,) = self._chance.choice(self._run("SELECT entry_id FROM audit_bodies ORDER BY entry_id"))
        self._run("DELETE FROM audit_bodies WHERE entry_id = ?", entry)

    def bring_a_body_back(self) -> None:
        """Somebody kept a body of before its erasure."""
        rows = self._run("SELECT id FROM audit_log WHERE body_hash IS NOT NULL ORDER BY sequence")
        (entry,) = rows[1]
        self._run("INSERT INTO audit_bodies VALUES ('t', ?, ?, ?)", entry, b"s" * 32, b'{"who":"person 3"}')
        if self._chance.random() < 0.5:
            (sequence,) = self._run("SELECT sequence FROM audit_log WHERE id = ?", entry)[0]
            self._rewrite(sequence, body_hash=hash_body(b"s" * 32, b'{"who":"person 3"}'))
            self._rechain(sequence + 1)

    def change_a_sealed_call(self) -> None:
        change = self._chance.choice(("tool_id = 'x'", "timestamp = timestamp + 1", "outcome = 'failure'", "turn = 9"))
        arrival = self._chance.randint(1, 6)
        self._run(f"UPDATE muninn_event_log SET {change} WHERE arrival = ?", arrival)

    def remove_a_sealed_call(self) -> None:
        self._run("DELETE FROM muninn_event_log WHERE arrival = ?", self._chance.randint(1, 6))

    def _anywhere(self, end: int | None = None) -> int:
        return self._chance.randint(1, end or self.length)

    def _row(self, sequence: int) -> ChainRow:
        values = self._run(f"SELECT {_NAMES} FROM audit_log WHERE sequence = ?", sequence)[0]
        return ChainRow._make((*values, None, None))

    def _rewrite(self, sequence: int, **changes: Any) -> None:
        row = self._row(sequence)._replace(**changes)
        row = row._replace(entry_hash=hash_entry(row.hashed_fields))
        assignments = ", ".join(f"{name} = ?" for name in _COLUMNS)
        self._run(f"UPDATE audit_log SET {assignments} WHERE sequence = ?", *row[: len(_COLUMNS)], sequence)

    def _rechain(self, first: int) -> None:
        """Everything from here on is linked anew, and the head is made to agree."""
        for sequence in range(first, self.length + 1):
            previous = GENESIS if sequence == 1 else self._row(sequence - 1).entry_hash
            self._rewrite(sequence, previous_hash=previous)
        self._move_head(self.length)

    def _move_head(self, sequence: int) -> None:
        entry_hash = self._row(sequence).entry_hash
        self._run("UPDATE audit_heads SET sequence = ?, entry_hash = ?", sequence, entry_hash)


@pytest.mark.req("CH-18")
async def test_every_change_behind_its_back_is_found(
    audit: AuditLog, database: Database, intruder: Intruder, full_scale: bool
) -> None:
    """Edits, deletions, reorderings, truncations, forged entries, bodies, heads and calls are all found."""
    await fill(audit, database)
    assert (await audit.verify("t")).ok
    chance = random.Random(20261115)
    tampering = Tampering(intruder, chance)
    kinds = tampering.kinds()
    for trial in range(1024 if full_scale else 4 * len(kinds)):
        kind = kinds[trial % len(kinds)]
        kind()
        report = await audit.verify("t")
        assert report.fault is not None, f"trial {trial}: {kind.__name__} went unnoticed"
        assert 0 <= report.fault.sequence <= tampering.length + 1
        assert report.fault.why
        tampering.undo()
    assert (await audit.verify("t")).ok


@pytest.mark.req("CH-18")
async def test_an_edit_is_named_by_its_place(audit: AuditLog, database: Database, intruder: Intruder) -> None:
    """The report says which entry is the first that is not what it was, and why."""
    await fill(audit, database)
    intruder.run("UPDATE audit_log SET subject_id = 'forged' WHERE sequence = 7")
    intruder.run("DELETE FROM audit_log WHERE sequence = 9")
    edited = (await audit.verify("t")).as_json()
    assert (edited["ok"], edited["first_bad_sequence"], edited["kind"]) == (False, 7, "edited")
    intruder.run("DELETE FROM audit_log WHERE sequence = 7")
    gone = (await audit.verify("t")).as_json()
    assert (gone["first_bad_sequence"], gone["kind"]) == (7, "missing")


@pytest.mark.req("CH-18")
async def test_an_older_genuine_state_is_found_with_an_anchor(
    audit: AuditLog, database: Database, intruder: Intruder, tmp_path: Path
) -> None:
    """A chain put back to what it once was contradicts an anchor of later, also after it has grown again."""
    await fill(audit, database)
    anchors = tmp_path / "outside" / "anchors.jsonl"
    await audit.anchor("t", anchors)
    for table in _TABLES:
        intruder.run(f"CREATE TABLE older_{table} AS SELECT * FROM {table}")
    for number in range(3):
        await audit.write(NewAuditEntry("t", "money.sent", "transaction", str(number)))
    await audit.anchor("t", anchors)
    assert (await audit.verify("t", anchor=anchors)).ok
    for table in _TABLES:
        intruder.restore(table, f"older_{table}")
    assert (await audit.verify("t")).ok
    found = (await audit.verify("t", anchor=anchors)).fault
    assert found is not None
    assert found.kind == "truncated"
    for number in range(5):
        await audit.write(NewAuditEntry("t", "nothing.happened", "other", str(number)))
    assert (await audit.verify("t")).ok
    grown = (await audit.verify("t", anchor=anchors)).fault
    assert grown is not None
    assert grown.kind == "anchor"


@pytest.mark.req("CH-18")
async def test_a_chain_that_was_removed_altogether_is_found_with_an_anchor(
    audit: AuditLog, database: Database, intruder: Intruder, tmp_path: Path
) -> None:
    """An empty log verifies by itself, and not against what an anchor saw."""
    await fill(audit, database)
    await audit.anchor("t", tmp_path / "anchors")
    for table in ("audit_bodies", "audit_log", "audit_heads"):
        intruder.run(f"DELETE FROM {table}")
    assert (await audit.verify("t")).entries == 0
    fault = (await audit.verify("t", anchor=tmp_path / "anchors")).fault
    assert fault is not None
    assert (fault.sequence, fault.kind) == (1, "truncated")


@pytest.mark.req("CH-18")
async def test_a_chain_signed_with_somebody_elses_key_is_not_ours(
    audit: AuditLog, database: Database, intruder: Intruder, tmp_path: Path
) -> None:
    """Whoever writes a whole new chain and signs it with a key of their own is found."""
    await fill(audit, database)
    for table in ("audit_bodies", "audit_log", "audit_heads"):
        intruder.run(f"DELETE FROM {table}")
    forger = AuditLog(database, Signer(KeyRing(tmp_path / "elsewhere" / "audit.json")))
    await forger.write(NewAuditEntry("t", "all.is_well", "other", "s"))
    await forger.anchor("t", tmp_path / "anchors")
    fault = (await audit.verify("t")).fault
    assert fault is not None
    assert fault.kind == "signature"
    assert len(await audit.entries("t", AuditFilter(event_type="all.is_well"))) == 1


@pytest.mark.req("CH-18")
async def test_a_forged_anchor_is_refused(audit: AuditLog, database: Database, tmp_path: Path) -> None:
    """An anchor counts only if it is signed with a key of this home."""
    await fill(audit, database)
    path = tmp_path / "anchors"
    await audit.anchor("t", path)
    path.write_text(path.read_text().replace('"sequence": ', '"sequence": 1'))
    fault = (await audit.verify("t", anchor=path)).fault
    assert fault is not None
    assert fault.kind in ("anchor", "truncated")


@pytest.mark.req("CH-18")
async def test_an_anchor_with_another_public_key_is_refused(
    audit: AuditLog, database: Database, tmp_path: Path
) -> None:
    """The public key that stands beside a genuine head is checked too: strangers would believe it."""
    await fill(audit, database)
    path = tmp_path / "anchors"
    await audit.anchor("t", path)
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"public_key": base64.b64encode(bytes(32)).decode()}))
    fault = (await audit.verify("t", anchor=path)).fault
    assert fault is not None
    assert (fault.kind, "public key" in fault.why) == ("anchor", True)
