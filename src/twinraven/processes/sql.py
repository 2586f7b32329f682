"""Stores processes: a pointer to the version in force, and versions that are only ever added."""

from __future__ import annotations

from typing import Any

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.processes.model import Process, ProcessVersion
from twinraven.storage import Row, Transaction

_COLUMNS = "v.process_id, v.version, v.definition, v.owner_id, v.saved_by, v.created_at, v.updated_at"
_CURRENT = (
    f"SELECT {_COLUMNS} FROM processes p JOIN process_versions v ON v.tenant_id = p.tenant_id "
    "AND v.process_id = p.process_id AND v.version = p.version WHERE p.tenant_id = :tenant"
)


class ProcessStore:
    """The tables of processes; every statement names its tenant."""

    def current(self, tx: Transaction, tenant_id: str) -> list[ProcessVersion]:
        """Return all processes in the version in force, by id."""
        return [_read(row) for row in tx.fetch_all(f"{_CURRENT} ORDER BY p.process_id", tenant=tenant_id)]

    def find(self, tx: Transaction, tenant_id: str, process_id: str) -> ProcessVersion | None:
        row = tx.fetch_one(f"{_CURRENT} AND p.process_id = :process", tenant=tenant_id, process=process_id)
        return None if row is None else _read(row)

    def versions(self, tx: Transaction, tenant_id: str, process_id: str) -> list[ProcessVersion]:
        """Return all versions, the newest first; those of a process that was deleted stay."""
        rows = tx.fetch_all(
            f"SELECT {_COLUMNS} FROM process_versions v WHERE v.tenant_id = :tenant AND v.process_id = :process "
            "ORDER BY v.version DESC",
            tenant=tenant_id,
            process=process_id,
        )
        return [_read(row) for row in rows]

    def add(self, tx: Transaction, tenant_id: str, saved: ProcessVersion, definition: str) -> None:
        """Add a version and put it in force."""
        tx.execute(
            "INSERT INTO process_versions "
            "(tenant_id, process_id, version, definition, owner_id, saved_by, created_at, updated_at) "
            "VALUES (:tenant, :process, :version, :definition, :owner, :by, :created, :updated)",
            tenant=tenant_id,
            process=saved.process.id,
            version=saved.version,
            definition=definition,
            owner=saved.owner_id,
            by=saved.saved_by,
            created=to_micros(saved.created_at),
            updated=to_micros(saved.updated_at),
        )
        tx.execute(
            "INSERT INTO processes (tenant_id, process_id, version) VALUES (:tenant, :process, :version) "
            "ON CONFLICT (tenant_id, process_id) DO UPDATE SET version = excluded.version",
            tenant=tenant_id,
            process=saved.process.id,
            version=saved.version,
        )

    def remove(self, tx: Transaction, tenant_id: str, process_id: str) -> None:
        """Take a process out of force; its versions stay, because runs refer to them."""
        tx.execute(
            "DELETE FROM processes WHERE tenant_id = :tenant AND process_id = :process",
            tenant=tenant_id,
            process=process_id,
        )


def tool_callers(tx: Transaction, tenant_id: str, tool_id: str) -> list[str]:
    """Return the processes that call a tool, which cannot be deleted as long as they do."""
    return [each.process.id for each in ProcessStore().current(tx, tenant_id) if calls(each.process, tool=tool_id)]


def calls(process: Process, *, tool: str | None = None, sub_process: str | None = None) -> bool:
    """Return whether a step of a process calls this tool or this process."""
    return any(
        (tool is not None and step.tool == tool) or (sub_process is not None and step.process == sub_process)
        for step in process.steps
    )


def _read(row: Row) -> ProcessVersion:
    body: Any = parse_json(row["definition"], field="definition")
    return ProcessVersion(
        process=Process.from_json(body),
        version=row["version"],
        owner_id=row["owner_id"],
        saved_by=row["saved_by"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
    )
