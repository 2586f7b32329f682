"""Creates the progress of an extractor in each group's episodes, and the run that advances it."""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "extraction_progress",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        group_id TEXT NOT NULL,
        extractor TEXT NOT NULL CHECK (extractor IN ('spacy', 'model')),
        next_seq INTEGER NOT NULL CHECK (next_seq >= 0),
        run_id TEXT,
        strikes INTEGER NOT NULL DEFAULT 0 CHECK (strikes >= 0),
        PRIMARY KEY (tenant_id, group_id, extractor)
        """,
    )
