"""Creates the history of health checks, kept for a week, and an index of the audit log by time.

The index has the entry's number, so that the first and the last of a stretch of time are found without reading entries.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "service_checks",
        """
        tenant_id TEXT NOT NULL,
        service_id TEXT NOT NULL,
        checked_at INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('healthy', 'degraded', 'down')),
        took_ms INTEGER NOT NULL CHECK (took_ms >= 0),
        message TEXT,
        PRIMARY KEY (tenant_id, service_id, checked_at),
        FOREIGN KEY (tenant_id, service_id) REFERENCES catalog_services (tenant_id, service_id)
        """,
        clustered=True,
    )
    ddl.run("CREATE INDEX audit_log_time ON audit_log (tenant_id, timestamp, sequence)")
