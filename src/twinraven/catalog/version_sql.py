"""Counts the changes of a tenant's catalogue in one number, `catalog_version`, that every source of tools raises."""

from __future__ import annotations

from twinraven.storage import Transaction


def next_version(tx: Transaction, tenant_id: str, *, above: int = 0) -> int:
    """Raise the tenant's catalogue version; the row lock serialises concurrent changes."""
    rows = tx.fetch_all(
        "INSERT INTO catalog_version (tenant_id, version) VALUES (:tenant, :first) "
        "ON CONFLICT (tenant_id) DO UPDATE SET version = "
        "CASE WHEN catalog_version.version < :above THEN :first ELSE catalog_version.version + 1 END RETURNING version",
        tenant=tenant_id,
        above=above,
        first=above + 1,
    )
    return rows[0]["version"]


def current_version(tx: Transaction, tenant_id: str) -> int:
    """Read the tenant's catalogue version; 0 before the first change."""
    row = tx.fetch_one("SELECT version FROM catalog_version WHERE tenant_id = :tenant", tenant=tenant_id)
    return 0 if row is None else row["version"]
