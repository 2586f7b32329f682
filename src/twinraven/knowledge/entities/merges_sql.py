"""Stores the records of merges in SQL."""

from __future__ import annotations

from typing import Final

from twinraven.foundation.clock import from_micros
from twinraven.knowledge.entities.model import EntityMerge
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.storage import Row, Transaction

_MERGES: Final = (
    "SELECT m.merge_id, m.kept_id, m.gone_id, m.merged_at, m.merged_by, m.undone_at, e.name AS kept_name, "
    "g.name AS gone_name FROM entity_merges m "
    "JOIN entities e ON e.tenant_id = m.tenant_id AND e.entity_id = m.kept_id "
    "JOIN entities g ON g.tenant_id = m.tenant_id AND g.entity_id = m.gone_id"
)


def list_merges(
    tx: Transaction,
    tenant_id: str,
    *,
    entity_id: str | None,
    limit: int,
    after: str | None = None,
    hidden: HiddenGroups | None = None,
) -> list[EntityMerge]:
    """Merges of a tenant or of one entity, the newest first, also those that were undone."""
    where, values = ("", {}) if hidden is None else (hidden.condition("e.group_id"), hidden.values)
    if entity_id is not None:
        where += " AND (m.kept_id = :entity OR m.gone_id = :entity)"
    if after is not None:
        where += (
            " AND (m.merged_at, m.merge_id) < (SELECT merged_at, merge_id FROM entity_merges "
            "WHERE tenant_id = :tenant AND merge_id = :after)"
        )
    rows = tx.fetch_all(
        f"{_MERGES} WHERE m.tenant_id = :tenant{where} ORDER BY m.merged_at DESC, m.merge_id DESC LIMIT :limit",
        tenant=tenant_id,
        limit=limit,
        **({} if entity_id is None else {"entity": entity_id}),
        **({} if after is None else {"after": after}),
        **values,
    )
    return [_to_merge(row) for row in rows]


def one_merge(tx: Transaction, tenant_id: str, merge_id: str) -> EntityMerge:
    """Return a merge that is there."""
    row = tx.fetch_one(f"{_MERGES} WHERE m.tenant_id = :tenant AND m.merge_id = :id", tenant=tenant_id, id=merge_id)
    assert row is not None
    return _to_merge(row)


def _to_merge(row: Row) -> EntityMerge:
    undone = row["undone_at"]
    return EntityMerge(
        row["merge_id"],
        row["kept_id"],
        row["gone_id"],
        from_micros(row["merged_at"]),
        row["merged_by"],
        None if undone is None else from_micros(undone),
        row["kept_name"],
        row["gone_name"],
    )
