"""Creates requests for approval and their decisions.

A request and a decision never change. There is one decision for a request at most, so of two people who decide at once
one is told that the other was first. Whether an approval was used is not written here at all: the claim of its key
says so. `asked_for` is a keyed hash over everything an approval is for; asking for the same after an approval is spent
or has expired is its next round.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "approvals",
        """
        tenant_id TEXT NOT NULL,
        approval_id TEXT NOT NULL,
        asked_for TEXT NOT NULL,
        round INTEGER NOT NULL CHECK (round >= 1),
        tool_id TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        body_hash TEXT NOT NULL,
        arguments TEXT NOT NULL,
        covers TEXT NOT NULL,
        effect TEXT NOT NULL,
        sensitivity TEXT NOT NULL,
        rule TEXT,
        reason TEXT NOT NULL,
        requested_by TEXT,
        session_id TEXT NOT NULL,
        correlation_id TEXT NOT NULL,
        requested_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, approval_id),
        UNIQUE (tenant_id, asked_for, round)
        """,
        append_only=[("tenant_id", "approval_id"), ("tenant_id", "asked_for", "round")],
    )
    ddl.table(
        "approval_decisions",
        """
        tenant_id TEXT NOT NULL,
        approval_id TEXT NOT NULL,
        verdict TEXT NOT NULL CHECK (verdict IN ('granted', 'denied')),
        decided_by TEXT NOT NULL,
        decided_at INTEGER NOT NULL,
        note TEXT NOT NULL,
        PRIMARY KEY (tenant_id, approval_id),
        FOREIGN KEY (tenant_id, approval_id) REFERENCES approvals (tenant_id, approval_id)
        """,
        append_only=[("tenant_id", "approval_id")],
    )
    ddl.run(
        "CREATE INDEX approvals_key ON approvals (tenant_id, idempotency_key)",
        "CREATE INDEX approvals_requested ON approvals (tenant_id, requested_at, approval_id)",
    )
