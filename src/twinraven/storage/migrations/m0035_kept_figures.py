"""Keeps each session's outcome, which calls carry a tag, and what each session says of each learned tool in service.

They are made from the log up to a mark, as the counts by the hour are, and can be made from it again at any time. The
counts by the hour begin anew, so that there is one mark for all that is made of calls; verdicts have one of their own.
What is kept of a session for a learned tool leaves with what is kept of the session.
"""

from __future__ import annotations

from typing import Final

from twinraven.storage.migrations import Ddl

_BEGUN_ANEW: Final = ("activity_pairs", "activity_sessions", "activity_failures", "activity_tools", "activity_marks")


def upgrade(ddl: Ddl) -> None:
    # Rows are fenced by tenant on Postgres, for the owner too; emptying a table is not.
    if ddl.dialect == "postgres":
        ddl.run(f"TRUNCATE {', '.join(_BEGUN_ANEW)}")
    else:
        ddl.run(*(f"DELETE FROM {table}" for table in _BEGUN_ANEW))
    ddl.run("ALTER TABLE activity_marks ADD COLUMN verdicts_to INTEGER NOT NULL DEFAULT 0")
    _create_sessions(ddl)
    _create_adoption(ddl)


def _create_sessions(ddl: Ddl) -> None:
    ddl.table(
        "activity_outcomes",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        session_id TEXT NOT NULL,
        ended_at INTEGER NOT NULL,
        ended_by INTEGER NOT NULL,
        timed_at INTEGER,
        lowest TEXT NOT NULL,
        highest TEXT NOT NULL,
        outcome TEXT NOT NULL CHECK (outcome IN ('success', 'failure', 'partial')),
        PRIMARY KEY (tenant_id, session_id)
        """,
        clustered=True,
    )
    ddl.table(
        "activity_tags",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        tag TEXT NOT NULL,
        arrival INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, tag, arrival)
        """,
        clustered=True,
    )
    ddl.run("CREATE INDEX activity_outcomes_order ON activity_outcomes (tenant_id, outcome, ended_at, ended_by)")


def _create_adoption(ddl: Ddl) -> None:
    ddl.table(
        "adoption_marks",
        """
        tenant_id TEXT NOT NULL REFERENCES activity_marks (tenant_id),
        tool_id TEXT NOT NULL,
        basis TEXT NOT NULL,
        since INTEGER NOT NULL,
        up_to INTEGER NOT NULL CHECK (up_to >= 0),
        ready_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, tool_id)
        """,
        clustered=True,
    )
    ddl.table(
        "adoption_sessions",
        """
        tenant_id TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        last_at INTEGER NOT NULL,
        fitted INTEGER NOT NULL CHECK (fitted IN (0, 1)),
        taken INTEGER NOT NULL CHECK (taken IN (0, 1)),
        raised INTEGER NOT NULL CHECK (raised >= 0),
        uses INTEGER NOT NULL CHECK (uses >= 0),
        use_turns INTEGER NOT NULL CHECK (use_turns >= 0),
        by_hand INTEGER NOT NULL CHECK (by_hand >= 0),
        hand_turns INTEGER NOT NULL CHECK (hand_turns >= 0),
        earlier INTEGER NOT NULL CHECK (earlier >= 0),
        earlier_turns INTEGER NOT NULL CHECK (earlier_turns >= 0),
        PRIMARY KEY (tenant_id, tool_id, session_id),
        FOREIGN KEY (tenant_id, tool_id) REFERENCES adoption_marks (tenant_id, tool_id) ON DELETE CASCADE,
        FOREIGN KEY (tenant_id, session_id) REFERENCES activity_outcomes (tenant_id, session_id) ON DELETE CASCADE
        """,
        clustered=True,
    )
    ddl.run("CREATE INDEX adoption_sessions_session ON adoption_sessions (tenant_id, session_id)")
