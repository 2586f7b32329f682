"""Stores the audit tables in SQL, the same for both databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twinraven.audit.chain import GENESIS, ChainRow
from twinraven.audit.model import AuditFilter, AuditRecord, Head
from twinraven.audit.store import ChainEnd
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import InvalidInput
from twinraven.storage import Row, Transaction, chunks

_COLUMNS = ChainRow._fields[: ChainRow._fields.index("salt")]
_NAMES = ", ".join(_COLUMNS)
_INSERT = f"INSERT INTO audit_log ({_NAMES}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
_FILTERS = {
    "subject_type": "subject_type = :subject_type",
    "subject_id": "subject_id = :subject_id",
    "event_type": "event_type = :event_type",
    "actor_id": "actor_id = :actor_id",
    "correlation_id": "correlation_id = :correlation_id",
    "after_sequence": "sequence > :after_sequence",
    "before_sequence": "sequence < :before_sequence",
}
_TIMES = {"since": "timestamp >= :since", "until": "timestamp < :until"}


def _within(times: Mapping[str, int]) -> list[str]:
    """Return the conditions of a time span: entries are walked by number, from the first to the last of it.

    Clocks may differ, so that numbers alone would leave entries out; times alone would sort all of them.
    """
    if not times:
        return []
    asked = [_TIMES[name] for name in times]
    there = f"FROM audit_log WHERE tenant_id = :tenant AND {' AND '.join(asked)}"
    return [*asked, f"sequence >= (SELECT min(sequence) {there})", f"sequence <= (SELECT max(sequence) {there})"]


class SqlAuditStore:
    """`AuditStore` on a database of ours."""

    def lock_end(self, tx: Transaction, tenant_id: str) -> ChainEnd:
        # One statement that inserts or touches the row, and so holds it on either store.
        rows = tx.fetch_all(
            "INSERT INTO audit_heads (tenant_id, sequence, entry_hash, signed_at, key_id, signature) "
            "VALUES (:tenant, 0, :genesis, 0, '', '') "
            "ON CONFLICT (tenant_id) DO UPDATE SET signed_at = audit_heads.signed_at RETURNING sequence, entry_hash",
            tenant=tenant_id,
            genesis=GENESIS,
        )
        return ChainEnd(rows[0]["sequence"], rows[0]["entry_hash"])

    def add(self, tx: Transaction, row: ChainRow) -> None:
        tx.execute(_INSERT, **dict(zip(_COLUMNS, row, strict=False)))
        if row.body is not None:
            tx.execute(
                "INSERT INTO audit_bodies (tenant_id, entry_id, salt, body) VALUES (:tenant, :entry, :salt, :body)",
                tenant=row.tenant_id,
                entry=row.id,
                salt=row.salt,
                body=row.body,
            )

    def set_head(self, tx: Transaction, head: Head) -> None:
        tx.execute(
            "UPDATE audit_heads SET sequence = :sequence, entry_hash = :entry_hash, signed_at = :signed_at, "
            "key_id = :key_id, signature = :signature WHERE tenant_id = :tenant",
            tenant=head.tenant_id,
            sequence=head.sequence,
            entry_hash=head.entry_hash,
            signed_at=head.signed_at,
            key_id=head.key_id,
            signature=head.signature,
        )

    def head(self, tx: Transaction, tenant_id: str) -> Head | None:
        row = tx.fetch_one(
            "SELECT tenant_id, sequence, entry_hash, signed_at, key_id, signature FROM audit_heads "
            "WHERE tenant_id = :tenant",
            tenant=tenant_id,
        )
        return None if row is None else Head(**row)

    def chain(self, tx: Transaction, tenant_id: str) -> Iterator[list[ChainRow]]:
        names = ", ".join(f"l.{name}" for name in _COLUMNS)
        batches = tx.stream(
            f"SELECT {names}, b.salt, b.body FROM audit_log l "
            "LEFT JOIN audit_bodies b ON b.tenant_id = l.tenant_id AND b.entry_id = l.id "
            "WHERE l.tenant_id = :tenant ORDER BY l.sequence",
            batch=1000,
            tenant=tenant_id,
        )
        for batch in batches:
            yield [_to_chain_row(row) for row in batch]

    def entries(self, tx: Transaction, tenant_id: str, where: AuditFilter) -> list[AuditRecord]:
        if where.limit < 1:
            raise InvalidInput(f"limit must be at least 1, it is {where.limit}", field="limit")
        chosen = {name: getattr(where, name) for name in _FILTERS if getattr(where, name) is not None}
        times = {name: to_micros(moment) for name in _TIMES if (moment := getattr(where, name)) is not None}
        conditions = " AND ".join(["tenant_id = :tenant", *(_FILTERS[name] for name in chosen), *_within(times)])
        order = "DESC" if where.newest_first else "ASC"
        rows = tx.fetch_all(
            f"SELECT {_NAMES} FROM audit_log WHERE {conditions} ORDER BY sequence {order} LIMIT :limit",
            tenant=tenant_id,
            limit=where.limit,
            **chosen,
            **times,
        )
        return [_to_record(row) for row in rows]

    def entry(self, tx: Transaction, tenant_id: str, entry_id: str) -> AuditRecord | None:
        row = tx.fetch_one(
            f"SELECT {_NAMES} FROM audit_log WHERE tenant_id = :tenant AND id = :entry",
            tenant=tenant_id,
            entry=entry_id,
        )
        body = tx.fetch_one(
            "SELECT body FROM audit_bodies WHERE tenant_id = :tenant AND entry_id = :entry",
            tenant=tenant_id,
            entry=entry_id,
        )
        if row is None:
            return None
        return replace(_to_record(row), body=None if body is None else parse_json(bytes(body["body"]), field="body"))

    def about(
        self, tx: Transaction, tenant_id: str, subject_type: str, subject_ids: Sequence[str]
    ) -> dict[str, list[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for part in chunks(subject_ids, 500):
            marks = ", ".join(f":id{number}" for number in range(len(part)))
            rows = tx.fetch_all(
                "SELECT subject_id, data_json FROM audit_log WHERE tenant_id = :tenant AND subject_type = :type "
                f"AND subject_id IN ({marks})",
                tenant=tenant_id,
                type=subject_type,
                **{f"id{number}": each for number, each in enumerate(part)},
            )
            for row in rows:
                found.setdefault(row["subject_id"], []).append(parse_json(row["data_json"], field="data_json"))
        return found

    def last_of(self, tx: Transaction, tenant_id: str, event_type: str) -> AuditRecord | None:
        found = self.entries(tx, tenant_id, AuditFilter(event_type=event_type, limit=1, newest_first=True))
        return found[0] if found else None

    def with_bodies(self, tx: Transaction, tenant_id: str, entry_ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for part in chunks(entry_ids, 500):
            found |= tx.present("audit_bodies", "entry_id", part, tenant_id=tenant_id)
        return found

    def erase_bodies(self, tx: Transaction, tenant_id: str, entry_ids: Sequence[str]) -> None:
        tx.execute_many(
            "DELETE FROM audit_bodies WHERE tenant_id = ? AND entry_id = ?",
            [(tenant_id, entry_id) for entry_id in entry_ids],
        )


def _to_chain_row(row: tuple[Any, ...]) -> ChainRow:
    salt, body = (None if value is None else bytes(value) for value in row[-2:])
    return ChainRow._make((*row[:-2], salt, body))


def _to_record(row: Row) -> AuditRecord:
    values = dict(row)
    values["data"] = parse_json(values.pop("data_json"), field="data_json")
    values["timestamp"] = from_micros(values["timestamp"])
    return AuditRecord(**values)
