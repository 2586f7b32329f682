"""Counts of the event log by the hour: calls per tool, failures per code, calls per session, which tool followed which.

They are a roll-up of the log up to the arrival number in `activity_marks` and can be made from it again at any time.
Failures get indexes of their own: few calls fail, so that other calls are stored as fast as before.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "activity_marks",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        up_to INTEGER NOT NULL CHECK (up_to >= 0),
        PRIMARY KEY (tenant_id)
        """,
    )
    ddl.table(
        "activity_tools",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        begins_at INTEGER NOT NULL,
        tool_id TEXT NOT NULL,
        calls INTEGER NOT NULL CHECK (calls >= 0),
        raised INTEGER NOT NULL CHECK (raised >= 0),
        timed INTEGER NOT NULL CHECK (timed >= 0),
        latency_ms INTEGER NOT NULL CHECK (latency_ms >= 0),
        slowest_ms INTEGER,
        PRIMARY KEY (tenant_id, begins_at, tool_id)
        """,
        clustered=True,
    )
    ddl.table(
        "activity_failures",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        begins_at INTEGER NOT NULL,
        tool_id TEXT NOT NULL,
        error_code TEXT NOT NULL,
        calls INTEGER NOT NULL CHECK (calls >= 0),
        PRIMARY KEY (tenant_id, begins_at, tool_id, error_code)
        """,
        clustered=True,
    )
    ddl.table(
        "activity_sessions",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        begins_at INTEGER NOT NULL,
        session_id TEXT NOT NULL,
        calls INTEGER NOT NULL CHECK (calls >= 0),
        raised INTEGER NOT NULL CHECK (raised >= 0),
        PRIMARY KEY (tenant_id, begins_at, session_id)
        """,
        clustered=True,
    )
    ddl.table(
        "activity_pairs",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        begins_at INTEGER NOT NULL,
        from_tool TEXT NOT NULL,
        to_tool TEXT NOT NULL,
        calls INTEGER NOT NULL CHECK (calls >= 0),
        PRIMARY KEY (tenant_id, begins_at, from_tool, to_tool)
        """,
        clustered=True,
    )
    ddl.run(
        "CREATE INDEX muninn_event_log_raised ON muninn_event_log (tenant_id, timestamp) WHERE raised = 1",
        "CREATE INDEX muninn_event_log_code ON muninn_event_log (tenant_id, error_code, timestamp) "
        "WHERE error_code IS NOT NULL",
    )
