"""Creates learning rounds, which a server runs in its background, one at a time per tenant.

A running round says every few seconds that it still runs; one that has not for a while was interrupted, whoever asks.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "learning_rounds",
        """
        tenant_id TEXT NOT NULL,
        round_id TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'interrupted')),
        started_at INTEGER NOT NULL,
        started_by TEXT NOT NULL,
        seen_at INTEGER NOT NULL,
        finished_at INTEGER,
        progress TEXT NOT NULL,
        outcome TEXT,
        error TEXT,
        PRIMARY KEY (tenant_id, round_id)
        """,
    )
    ddl.run("CREATE UNIQUE INDEX learning_rounds_running ON learning_rounds (tenant_id) WHERE state = 'running'")
