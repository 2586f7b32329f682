"""Stores the two tables of upstream tools, inside the caller's transaction.

Every change raises the tenant's catalogue version, which is how other processes learn of it.
"""

from __future__ import annotations

from datetime import datetime

from twinraven.catalog import Effect, Sensitivity
from twinraven.connectors.mcp.model import Classification, Definition, PinnedTool, definition_hash
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.storage import Row, Transaction

_COLUMNS = """
SELECT u.server, u.name, u.tool_id, u.definition, u.changed_definition, u.present, u.pinned_at,
       c.effect, c.sensitivity, c.classified_by, c.classified_at
FROM upstream_tools u LEFT JOIN tool_classifications c ON c.tenant_id = u.tenant_id AND c.tool_id = u.tool_id
WHERE u.tenant_id = :tenant
"""


def pinned_tools(tx: Transaction, tenant_id: str, *, server: str | None = None) -> list[PinnedTool]:
    """Return the pinned tools of a tenant, of one server or of all."""
    of_server = "" if server is None else " AND u.server = :server"
    rows = tx.fetch_all(f"{_COLUMNS}{of_server} ORDER BY u.tool_id", tenant=tenant_id, server=server)
    return [_to_tool(row) for row in rows]


def pinned_tool(tx: Transaction, tenant_id: str, tool_id: str) -> PinnedTool | None:
    row = tx.fetch_one(f"{_COLUMNS} AND u.tool_id = :tool", tenant=tenant_id, tool=tool_id)
    return None if row is None else _to_tool(row)


def pin(
    tx: Transaction, tenant_id: str, server: str, definition: Definition, *, tool_id: str, by: str, at: int
) -> None:
    """Accept a definition as it stands: a new tool's first words, or the newer words of a known one."""
    name = str(definition["name"])
    tx.execute(
        "INSERT INTO upstream_tools (tenant_id, server, name, tool_id, definition, definition_hash, present, "
        "pinned_at, pinned_by, seen_at) VALUES (:tenant, :server, :name, :tool, :definition, :hash, 1, :at, :by, :at) "
        "ON CONFLICT (tenant_id, server, name) DO UPDATE SET definition = :definition, definition_hash = :hash, "
        "changed_definition = NULL, changed_hash = NULL, pinned_at = :at, pinned_by = :by",
        tenant=tenant_id,
        server=server,
        name=name,
        tool=tool_id,
        definition=canonical_json(definition).decode(),
        hash=definition_hash(definition),
        at=at,
        by=by,
    )


def note_seen(
    tx: Transaction, tenant_id: str, tool: PinnedTool, *, changed: Definition | None, present: bool, at: int
) -> None:
    """Note what a server says of a known tool now."""
    tx.execute(
        "UPDATE upstream_tools SET changed_definition = :changed, changed_hash = :hash, present = :present, "
        "seen_at = :at WHERE tenant_id = :tenant AND server = :server AND name = :name",
        changed=None if changed is None else canonical_json(changed).decode(),
        hash=None if changed is None else definition_hash(changed),
        present=1 if present else 0,
        at=at,
        tenant=tenant_id,
        server=tool.server,
        name=tool.name,
    )


def classify(tx: Transaction, tenant_id: str, tool_id: str, said: Classification) -> None:
    tx.execute(
        "INSERT INTO tool_classifications (tenant_id, tool_id, effect, sensitivity, classified_by, classified_at) "
        "VALUES (:tenant, :tool, :effect, :sensitivity, :by, :at) ON CONFLICT (tenant_id, tool_id) DO UPDATE "
        "SET effect = :effect, sensitivity = :sensitivity, classified_by = :by, classified_at = :at",
        tenant=tenant_id,
        tool=tool_id,
        effect=said.effect.value,
        sensitivity=said.sensitivity.value,
        by=said.by,
        at=to_micros(said.at),
    )


def _to_tool(row: Row) -> PinnedTool:
    changed = row["changed_definition"]
    return PinnedTool(
        server=row["server"],
        name=row["name"],
        tool_id=row["tool_id"],
        definition=parse_json(row["definition"], field="definition"),
        pinned_at=from_micros(row["pinned_at"]),
        changed=None if changed is None else parse_json(changed, field="definition"),
        is_present=bool(row["present"]),
        classification=_to_classification(row),
    )


def _to_classification(row: Row) -> Classification | None:
    if row["effect"] is None:
        return None
    at: datetime = from_micros(row["classified_at"])
    return Classification(Effect(row["effect"]), Sensitivity(row["sensitivity"]), row["classified_by"], at)
