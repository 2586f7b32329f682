"""Tenants by id in a bare database, for tests of the store itself: its rows must belong to tenants that are there."""

from __future__ import annotations

from twinraven.storage import Database


def settle_tenants(database: Database, *tenant_ids: str) -> None:
    """Add tenants of these ids, which tenancy would choose itself."""
    connection = database.connect()
    try:
        for tenant_id in tenant_ids:
            with connection.transaction(tenant_id, write=True) as tx:
                tx.execute(
                    "INSERT INTO tenants (tenant_id, name, created_at) VALUES (:tenant, :name, 0)",
                    tenant=tenant_id,
                    name=f"tenant {tenant_id}",
                )
    finally:
        connection.close()
