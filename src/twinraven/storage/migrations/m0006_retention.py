"""Creates retention notes: a signed note for each batch of sessions that was pruned.

A note says how much left, from which span of time, and a hash over the ids of the removed events, so that a later
question ("was this call ever there?") can be answered from a backup, and a removal nobody noted stands out.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "retention_notes",
        """
        tenant_id TEXT NOT NULL,
        note_id TEXT NOT NULL,
        made_at INTEGER NOT NULL,
        cutoff INTEGER NOT NULL,
        sessions INTEGER NOT NULL CHECK (sessions >= 1),
        events INTEGER NOT NULL CHECK (events >= 1),
        verdicts INTEGER NOT NULL CHECK (verdicts >= 0),
        outputs INTEGER NOT NULL CHECK (outputs >= 0),
        first_at INTEGER NOT NULL,
        last_at INTEGER NOT NULL,
        events_hash TEXT NOT NULL,
        key_id TEXT,
        signature TEXT,
        PRIMARY KEY (tenant_id, note_id)
        """,
        append_only=[("tenant_id", "note_id")],
    )
    ddl.run("CREATE INDEX retention_notes_made ON retention_notes (tenant_id, made_at)")
