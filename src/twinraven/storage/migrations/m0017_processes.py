"""Creates processes: the version in force, and every saved version, which never changes."""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "processes",
        """
        tenant_id TEXT NOT NULL,
        process_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, process_id)
        """,
    )
    ddl.table(
        "process_versions",
        """
        tenant_id TEXT NOT NULL,
        process_id TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (version >= 1),
        definition TEXT NOT NULL,
        owner_id TEXT NOT NULL,
        saved_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, process_id, version)
        """,
    )
    refuse(ddl, "process_versions", "UPDATE", name="fixed")
    refuse(ddl, "process_versions", "DELETE", name="kept")
