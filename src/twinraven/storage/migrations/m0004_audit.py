"""Creates the audit chain of each tenant, its signed head, and the bodies that may be erased from it.

An entry holds ids, code, message and hashes and stays for ever. Personal details are a body in a table of its own: the
entry holds a hash of salt and body, so once both are gone nothing can be guessed from it and the chain still verifies.
A body can be removed but not edited, and the head never goes back.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse, refuse_replacing


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "audit_log",
        """
        tenant_id TEXT NOT NULL,
        sequence INTEGER NOT NULL CHECK (sequence >= 1),
        id TEXT NOT NULL,
        subject_type TEXT NOT NULL,
        subject_id TEXT NOT NULL,
        event_type TEXT NOT NULL,
        actor_type TEXT NOT NULL CHECK (actor_type IN ('system', 'human', 'external_node')),
        actor_id TEXT,
        timestamp INTEGER NOT NULL,
        correlation_id TEXT NOT NULL,
        code TEXT,
        message TEXT,
        data_json TEXT NOT NULL,
        body_hash TEXT,
        previous_hash TEXT NOT NULL,
        entry_hash TEXT NOT NULL,
        PRIMARY KEY (tenant_id, sequence),
        UNIQUE (tenant_id, id)
        """,
        append_only=[("tenant_id", "sequence"), ("tenant_id", "id")],
    )
    ddl.run(
        "CREATE INDEX audit_log_subject ON audit_log (tenant_id, subject_type, subject_id, sequence)",
        "CREATE INDEX audit_log_event ON audit_log (tenant_id, event_type, sequence)",
        "CREATE INDEX audit_log_correlation ON audit_log (tenant_id, correlation_id, sequence)",
        "CREATE INDEX audit_log_actor ON audit_log (tenant_id, actor_id, sequence)",
    )
    ddl.table(
        "audit_bodies",
        """
        tenant_id TEXT NOT NULL,
        entry_id TEXT NOT NULL,
        salt {bytes} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (tenant_id, entry_id),
        FOREIGN KEY (tenant_id, entry_id) REFERENCES audit_log (tenant_id, id)
        """,
    )
    refuse(ddl, "audit_bodies", "UPDATE", name="no_update")
    refuse_replacing(ddl, "audit_bodies", "tenant_id", "entry_id")
    ddl.table(
        "audit_heads",
        """
        tenant_id TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL CHECK (sequence >= 0),
        entry_hash TEXT NOT NULL,
        signed_at INTEGER NOT NULL,
        key_id TEXT NOT NULL,
        signature TEXT NOT NULL
        """,
    )
    refuse(ddl, "audit_heads", "DELETE", name="no_delete")
    refuse(ddl, "audit_heads", "UPDATE", when="NEW.sequence < OLD.sequence", name="no_return")
