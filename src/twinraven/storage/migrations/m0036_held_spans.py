"""Spans that were accepted and wait for the rest of their trace.

They are here from the answer to the exporter until their calls are in the log, so that a crash in between loses none.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "held_spans",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        trace_id TEXT NOT NULL,
        part_id TEXT NOT NULL,
        received_at INTEGER NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (tenant_id, trace_id, part_id)
        """,
    )
