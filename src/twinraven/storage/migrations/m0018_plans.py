"""Creates the memory of plans: values by key, of one run, one user, or the whole tenant."""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "memory_entries",
        """
        tenant_id TEXT NOT NULL,
        scope TEXT NOT NULL CHECK (scope IN ('run', 'user', 'shared')),
        owner TEXT NOT NULL,
        entry_key TEXT NOT NULL CHECK (entry_key <> ''),
        value TEXT NOT NULL,
        metadata TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (version >= 1),
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, scope, owner, entry_key)
        """,
    )
