"""Stores the registry's rows, the same for both databases, inside the caller's transaction.

A transaction that changes anything begins with `next_revision`: it raises the tenant's catalogue version, and since
that is one row, writers of a tenant take turns from their first statement on. Others see the new version only once all
it stands for is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import orjson

from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.registry.model import (
    Draft,
    Quarantine,
    RegisteredTool,
    Rejection,
    RetirementReason,
    ToolRecord,
    ToolVersion,
    definition_text,
)
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool
from twinraven.storage import Row, Transaction

_RECORD = """
SELECT r.tenant_id, r.tool_id, r.current_version, r.definition_path, r.registered_at, r.last_used_at,
       r.invocation_count, r.retirement_reason, r.chain_key, r.in_service_since, r.quarantined_at, r.quarantined_by,
       r.quarantine_reason, r.flags, r.revision, v.status
FROM tool_records r JOIN tool_versions v
  ON v.tenant_id = r.tenant_id AND v.tool_id = r.tool_id AND v.version = r.current_version
WHERE r.tenant_id = :tenant
"""
_VERSION = """
SELECT tool_id, version, status, definition, validation, savings, created_at, promoted_at, superseded_at, retired_at
FROM tool_versions WHERE tenant_id = :tenant AND tool_id = :tool
"""
_SERVED = """
SELECT r.tool_id, r.revision, v.version, v.definition, v.promoted_at,
       CASE WHEN v.status = 'promoted' AND r.retirement_reason IS NULL AND r.quarantined_at IS NULL
            THEN 1 ELSE 0 END AS in_service
FROM tool_records r JOIN tool_versions v
  ON v.tenant_id = r.tenant_id AND v.tool_id = r.tool_id AND v.version = r.current_version
WHERE r.tenant_id = :tenant AND r.revision > :after
"""


def records(tx: Transaction, tenant_id: str) -> list[ToolRecord]:
    """Return every record of a tenant, by id."""
    return [_to_record(row) for row in tx.fetch_all(f"{_RECORD} ORDER BY r.tool_id", tenant=tenant_id)]


def record(tx: Transaction, tenant_id: str, tool_id: str) -> ToolRecord | None:
    row = tx.fetch_one(f"{_RECORD} AND r.tool_id = :tool", tenant=tenant_id, tool=tool_id)
    return None if row is None else _to_record(row)


def tool(tx: Transaction, tenant_id: str, tool_id: str) -> RegisteredTool | None:
    """Return a record with all its versions."""
    found = record(tx, tenant_id, tool_id)
    if found is None:
        return None
    rows = tx.fetch_all(f"{_VERSION} ORDER BY version", tenant=tenant_id, tool=tool_id)
    return RegisteredTool(found, tuple(_to_version(row) for row in rows))


def living_versions(tx: Transaction, tenant_id: str) -> list[ToolVersion]:
    """Return every version that is in service, may come into it or may return to it."""
    rows = tx.fetch_all(
        "SELECT v.tool_id, v.version, v.status, v.definition, v.validation, v.savings, v.created_at, v.promoted_at, "
        "v.superseded_at, v.retired_at FROM tool_records r JOIN tool_versions v "
        "ON v.tenant_id = r.tenant_id AND v.tool_id = r.tool_id "
        "WHERE r.tenant_id = :tenant AND r.retirement_reason IS NULL AND v.status IN ('testing', 'promoted') "
        "ORDER BY v.tool_id, v.version",
        tenant=tenant_id,
    )
    return [_to_version(row) for row in rows]


def served(tx: Transaction, tenant_id: str, *, after: int) -> list[Row]:
    """Return what changed since a revision: the current version of each tool and whether it may be called."""
    return tx.fetch_all(_SERVED, tenant=tenant_id, after=after)


def save(tx: Transaction, before: RegisteredTool | None, after: RegisteredTool) -> None:
    """Write what changed. Versions leave service before others enter it, for there is never more than one."""
    _save_record(tx, after.record, is_new=before is None)
    known = {} if before is None else {version.version: version for version in before.versions}
    changed = [version for version in after.versions if known.get(version.version) != version]
    for version in sorted(changed, key=lambda each: (each.is_in_service, each.version)):
        tenant_id = after.record.tenant_id
        (_update_version if version.version in known else _insert_version)(tx, tenant_id, version)


def remove(tx: Transaction, found: RegisteredTool) -> None:
    """Forget a tool's rows, for those that put others in their place."""
    names = {"tenant": found.record.tenant_id, "tool": found.record.tool_id}
    tx.execute("DELETE FROM tool_versions WHERE tenant_id = :tenant AND tool_id = :tool", **names)
    tx.execute("DELETE FROM tool_records WHERE tenant_id = :tenant AND tool_id = :tool", **names)


def _save_record(tx: Transaction, found: ToolRecord, *, is_new: bool) -> None:
    held = found.quarantine
    values: dict[str, Any] = {
        "tenant_id": found.tenant_id,
        "tool_id": found.tool_id,
        "current_version": found.current_version,
        "definition_path": found.definition_path,
        "retirement_reason": None if found.retirement_reason is None else found.retirement_reason.value,
        "chain_key": found.chain_key,
        "in_service_since": _micros(found.in_service_since),
        "quarantined_at": None if held is None else to_micros(held.at),
        "quarantined_by": None if held is None else held.by,
        "quarantine_reason": None if held is None else held.reason,
        "flags": canonical_json(dict(found.flags)).decode(),
        "revision": found.revision,
    }
    if is_new:
        values["registered_at"] = to_micros(found.registered_at)
        values["last_used_at"] = _micros(found.last_used_at)
        values["invocation_count"] = found.invocation_count
        names = ", ".join(values)
        tx.execute(f"INSERT INTO tool_records ({names}) VALUES ({_marks(values)})", **values)
        return
    settings = ", ".join(f"{name} = :{name}" for name in values if name not in ("tenant_id", "tool_id"))
    tx.execute(f"UPDATE tool_records SET {settings} WHERE tenant_id = :tenant_id AND tool_id = :tool_id", **values)


def _insert_version(tx: Transaction, tenant_id: str, version: ToolVersion) -> None:
    values = {
        "tenant_id": tenant_id,
        "tool_id": version.tool_id,
        "version": version.version,
        "definition": version.text,
        "created_at": to_micros(version.created_at),
        **_version_state(version),
    }
    tx.execute(f"INSERT INTO tool_versions ({', '.join(values)}) VALUES ({_marks(values)})", **values)


def _update_version(tx: Transaction, tenant_id: str, version: ToolVersion) -> None:
    state = _version_state(version)
    tx.execute(
        f"UPDATE tool_versions SET {', '.join(f'{name} = :{name}' for name in state)} "
        "WHERE tenant_id = :tenant AND tool_id = :tool AND version = :version",
        tenant=tenant_id,
        tool=version.tool_id,
        version=version.version,
        **state,
    )


def _version_state(version: ToolVersion) -> dict[str, Any]:
    return {
        "status": version.status.value,
        "validation": canonical_json(version.validation).decode(),
        "validation_passed": int(version.validation_passed),
        "equivalence_score": version.equivalence_score,
        "savings": None if version.savings is None else canonical_json(version.savings).decode(),
        "promoted_at": _micros(version.promoted_at),
        "superseded_at": _micros(version.superseded_at),
        "retired_at": _micros(version.retired_at),
    }


def latest_version(tx: Transaction, tenant_id: str, tool_id: str) -> int:
    """Return the highest number ever taken for a tool, by a draft or, where rows were made from files, by a version."""
    row = tx.fetch_one(
        "SELECT max(version) AS latest FROM ("
        "SELECT version FROM drafts WHERE tenant_id = :tenant AND tool_id = :tool UNION ALL "
        "SELECT version FROM tool_versions WHERE tenant_id = :tenant AND tool_id = :tool) numbers",
        tenant=tenant_id,
        tool=tool_id,
    )
    return 0 if row is None or row["latest"] is None else row["latest"]


def insert_draft(tx: Transaction, draft: Draft) -> None:
    values = {
        "tenant_id": draft.tenant_id,
        "tool_id": draft.tool_id,
        "version": draft.version,
        "definition": definition_text(draft.definition),
        "chain_id": draft.definition.source_chain_id,
        "chain_key": draft.chain_key,
        "evidence_hash": draft.evidence_hash,
        "created_at": to_micros(draft.created_at),
    }
    tx.execute(f"INSERT INTO drafts ({', '.join(values)}) VALUES ({_marks(values)})", **values)


def drafts(
    tx: Transaction, tenant_id: str, *, tool_id: str | None = None, key: str | None = None, version: int | None = None
) -> list[Draft]:
    """Drafts of a tool or of a chain, oldest first."""
    conditions = {"tool_id": tool_id, "chain_key": key, "version": version}
    given = {name: value for name, value in conditions.items() if value is not None}
    where = "".join(f" AND {name} = :{name}" for name in given)
    rows = tx.fetch_all(
        "SELECT tenant_id, tool_id, version, definition, chain_key, evidence_hash, created_at FROM drafts "
        f"WHERE tenant_id = :tenant{where} ORDER BY created_at, version",
        tenant=tenant_id,
        **given,
    )
    return [_to_draft(row) for row in rows]


def remove_drafts(tx: Transaction, tenant_id: str, tool_id: str) -> None:
    tx.execute("DELETE FROM drafts WHERE tenant_id = :tenant AND tool_id = :tool", tenant=tenant_id, tool=tool_id)


def names_taken(tx: Transaction, tenant_id: str) -> set[str]:
    """Return every name a record or a draft has."""
    rows = tx.fetch_all(
        "SELECT tool_id FROM tool_records WHERE tenant_id = :tenant "
        "UNION SELECT tool_id FROM drafts WHERE tenant_id = :tenant",
        tenant=tenant_id,
    )
    return {row["tool_id"] for row in rows}


def retired_for(tx: Transaction, tenant_id: str, key: str) -> list[str]:
    """Return the retired tools that called the same, in the order they were registered."""
    rows = tx.fetch_all(
        "SELECT tool_id FROM tool_records WHERE tenant_id = :tenant AND chain_key = :key "
        "AND retirement_reason IS NOT NULL ORDER BY registered_at, tool_id",
        tenant=tenant_id,
        key=key,
    )
    return [row["tool_id"] for row in rows]


def live_tool(tx: Transaction, tenant_id: str, key: str) -> str | None:
    """Return the tool that calls this and was not retired, if there is one."""
    row = tx.fetch_one(
        "SELECT tool_id FROM tool_records WHERE tenant_id = :tenant AND chain_key = :key "
        "AND retirement_reason IS NULL ORDER BY registered_at DESC, tool_id LIMIT 1",
        tenant=tenant_id,
        key=key,
    )
    return None if row is None else row["tool_id"]


def insert_rejection(tx: Transaction, tenant_id: str, rejection: Rejection) -> None:
    """Keep a no; a second one on the same evidence changes nothing."""
    tx.insert_missing(
        "rejections",
        (
            "tenant_id",
            "chain_key",
            "evidence_hash",
            "tool_id",
            "version",
            "reason",
            "rejected_by",
            "rejected_at",
        ),
        [
            (
                tenant_id,
                rejection.chain_key,
                rejection.evidence_hash,
                rejection.tool_id,
                rejection.version,
                rejection.reason,
                rejection.by,
                to_micros(rejection.at),
            )
        ],
    )


def rejection(tx: Transaction, tenant_id: str, key: str, evidence_hash: str) -> Rejection | None:
    row = tx.fetch_one(
        "SELECT tool_id, version, chain_key, evidence_hash, reason, rejected_by, rejected_at FROM rejections "
        "WHERE tenant_id = :tenant AND chain_key = :key AND evidence_hash = :evidence",
        tenant=tenant_id,
        key=key,
        evidence=evidence_hash,
    )
    if row is None:
        return None
    by, at = row.pop("rejected_by"), row.pop("rejected_at")
    return Rejection(**row, by=by, at=from_micros(at))


def chain(tx: Transaction, tenant_id: str, chain_id: str) -> JsonObject | None:
    """Return a stored candidate chain, by the names of its fields."""
    row = tx.fetch_one(
        "SELECT chain_id, tools, support, confidence, avg_latency_ms, failure_rate, sample_event_ids, discovered_at, "
        "mining_config, detail FROM candidate_chains WHERE tenant_id = :tenant AND chain_id = :chain",
        tenant=tenant_id,
        chain=chain_id,
    )
    if row is None:
        return None
    decoded = {name: parse_json(row[name]) for name in ("tools", "sample_event_ids", "mining_config", "detail")}
    return {**row, **decoded, "discovered_at": from_micros(row["discovered_at"])}


def _to_record(row: Row) -> ToolRecord:
    reason, held = row["retirement_reason"], row["quarantined_at"]
    return ToolRecord(
        tenant_id=row["tenant_id"],
        tool_id=row["tool_id"],
        current_version=row["current_version"],
        definition_path=row["definition_path"],
        registered_at=from_micros(row["registered_at"]),
        chain_key=row["chain_key"],
        status=ToolStatus(row["status"]),
        last_used_at=_moment(row["last_used_at"]),
        invocation_count=row["invocation_count"],
        retirement_reason=None if reason is None else RetirementReason(reason),
        in_service_since=_moment(row["in_service_since"]),
        quarantine=None if held is None else Quarantine(row["quarantine_reason"], row["quarantined_by"], _at(held)),
        flags=orjson.loads(row["flags"]),
        revision=row["revision"],
    )


def _to_version(row: Row) -> ToolVersion:
    return ToolVersion(
        tool_id=row["tool_id"],
        version=row["version"],
        status=ToolStatus(row["status"]),
        text=row["definition"],
        validation=parse_json(row["validation"], field="validation"),
        created_at=from_micros(row["created_at"]),
        savings=None if row["savings"] is None else parse_json(row["savings"], field="savings"),
        promoted_at=_moment(row["promoted_at"]),
        superseded_at=_moment(row["superseded_at"]),
        retired_at=_moment(row["retired_at"]),
    )


def _to_draft(row: Row) -> Draft:
    return Draft(
        tenant_id=row["tenant_id"],
        definition=SynthesizedTool.from_json(parse_json(row["definition"], field="definition")),
        chain_key=row["chain_key"],
        evidence_hash=row["evidence_hash"],
        created_at=from_micros(row["created_at"]),
        is_new=False,
    )


def _marks(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in names)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _at(micros: int) -> datetime:
    return from_micros(micros)
