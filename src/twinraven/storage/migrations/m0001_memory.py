"""Creates Muninn's log, its outputs, session verdicts, and the claims of idempotent calls.

The log states no neighbour. `muninn_events` derives predecessor and successor from (tenant, session, timestamp,
arrival), because a call that began first may be stored last and the log never changes.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl

_NEIGHBOUR = """(SELECT n.event_id FROM muninn_event_log n
    WHERE n.tenant_id = e.tenant_id AND n.session_id = e.session_id
      AND (n.timestamp, n.arrival) {side} (e.timestamp, e.arrival)
    ORDER BY n.timestamp {order}, n.arrival {order} LIMIT 1)"""


def upgrade(ddl: Ddl) -> None:
    _create_log(ddl)
    _create_verdicts(ddl)
    _create_claims(ddl)


def _create_log(ddl: Ddl) -> None:
    ddl.table(
        "muninn_event_log",
        """
        arrival {serial},
        tenant_id TEXT NOT NULL,
        event_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        input_hash TEXT NOT NULL,
        input_params TEXT NOT NULL,
        output_summary TEXT,
        timestamp INTEGER NOT NULL,
        latency_ms INTEGER NOT NULL CHECK (latency_ms >= 0),
        outcome TEXT NOT NULL CHECK (outcome IN ('success', 'failure', 'partial')),
        tags TEXT NOT NULL,
        parent_event_id TEXT,
        raised INTEGER NOT NULL CHECK (raised IN (0, 1)),
        error_code TEXT,
        output_hash TEXT,
        turn INTEGER,
        task_id TEXT,
        outside_input TEXT,
        source_key TEXT,
        time_known INTEGER NOT NULL CHECK (time_known IN (0, 1)),
        correlation_id TEXT
        """,
        append_only=[("arrival",), ("tenant_id", "event_id"), ("tenant_id", "source_key")],
    )
    ddl.run(
        "CREATE UNIQUE INDEX muninn_event_log_id ON muninn_event_log (tenant_id, event_id)",
        "CREATE UNIQUE INDEX muninn_event_log_source ON muninn_event_log (tenant_id, source_key) "
        "WHERE source_key IS NOT NULL",
        "CREATE INDEX muninn_event_log_session ON muninn_event_log (tenant_id, session_id, timestamp, arrival)",
        "CREATE INDEX muninn_event_log_tool ON muninn_event_log (tenant_id, tool_id, timestamp)",
        "CREATE INDEX muninn_event_log_time ON muninn_event_log (tenant_id, timestamp)",
    )
    create_events_view(ddl)
    ddl.table(
        "blobs",
        """
        tenant_id TEXT NOT NULL,
        hash TEXT NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (tenant_id, hash)
        """,
    )


def create_events_view(ddl: Ddl) -> None:
    """Create `muninn_events` over the columns that the log has now; a step that adds some creates it anew."""
    ddl.view(
        "muninn_events",
        "SELECT e.*, "
        + _NEIGHBOUR.format(side="<", order="DESC")
        + " AS predecessor, "
        + _NEIGHBOUR.format(side=">", order="ASC")
        + " AS successor FROM muninn_event_log e",
    )


def _create_verdicts(ddl: Ddl) -> None:
    ddl.table(
        "session_verdicts",
        """
        arrival {serial},
        tenant_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        outcome TEXT NOT NULL CHECK (outcome IN ('success', 'failure', 'partial')),
        stated_at INTEGER NOT NULL,
        stated_by TEXT NOT NULL,
        source_key TEXT
        """,
        append_only=[("arrival",)],
    )
    ddl.run("CREATE INDEX session_verdicts_session ON session_verdicts (tenant_id, session_id, arrival)")


def _create_claims(ddl: Ddl) -> None:
    ddl.table(
        "idempotency_claims",
        """
        tenant_id TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        body_hash TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'success', 'failed', 'unknown')),
        owner TEXT NOT NULL,
        claimed_at INTEGER NOT NULL,
        settled_at INTEGER,
        response TEXT,
        PRIMARY KEY (tenant_id, idempotency_key)
        """,
    )
