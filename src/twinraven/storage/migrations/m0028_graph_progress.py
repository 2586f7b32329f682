"""Creates the progress of a knowledge graph in each group's episodes, and the run that advances it."""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "graph_progress",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        group_id TEXT NOT NULL,
        next_seq INTEGER NOT NULL CHECK (next_seq >= 0),
        run_id TEXT,
        PRIMARY KEY (tenant_id, group_id)
        """,
    )
