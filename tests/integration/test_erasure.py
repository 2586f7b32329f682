"""What was erased is gone from the files, not only from the tables."""

from __future__ import annotations

import random
from pathlib import Path

from twinraven.audit import AuditLog, AuditRecord, KeyRing, NewAuditEntry, Signer
from twinraven.storage import Database, Transaction


def words(number: int, size: int) -> str:
    return f"private-matter-{number}-of-somebody " * size


def append(audit: AuditLog, tx: Transaction, number: int) -> AuditRecord:
    # From a few bytes to several pages, so that cells, overflow pages and their neighbours all take part.
    body = {"said": words(number, random.Random(number).choice([1, 4, 30, 300]))}
    return audit.append(tx, NewAuditEntry("default", "note.taken", "note", str(number), body=body))


async def test_erased_bodies_are_found_nowhere_in_the_files(sqlite_database: Database, tmp_path: Path) -> None:
    """Neither the database nor its write-ahead log holds a word of them, and the chain still verifies."""
    audit = AuditLog(sqlite_database, Signer(KeyRing(tmp_path / "keys" / "audit")))
    ids: list[str] = []
    for first in range(0, 200, 20):
        numbers = range(first, first + 20)
        ids += await sqlite_database.write("default", lambda tx, n=numbers: [append(audit, tx, each).id for each in n])
    gone = random.Random(1).sample(range(200), 60)
    await audit.erase("default", [ids[number] for number in gone], reason="they asked for it")
    files = b"".join(path.read_bytes() for path in tmp_path.glob("twinraven.db*"))
    assert [number for number in gone if words(number, 1).encode() in files] == []
    assert all(words(number, 1).encode() in files for number in range(200) if number not in gone)
    assert (await audit.verify("default")).ok
