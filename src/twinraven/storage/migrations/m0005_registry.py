"""Creates candidate chains, drafts, and learned tools with their versions.

What must never happen to a learned tool is refused here, whoever asks: a status that cannot follow, two versions in
service at once, a definition that changes, a retirement that is taken back, a count that falls.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse

_ARROWS = (("draft", "testing"), ("testing", "promoted"), ("testing", "draft"), ("promoted", "retired"))


def upgrade(ddl: Ddl) -> None:
    real = "REAL" if ddl.dialect == "sqlite" else "DOUBLE PRECISION"
    _create_candidates(ddl, real)
    _create_tools(ddl, real)
    _refuse_what_never_happens(ddl)
    ddl.table("catalog_version", "tenant_id TEXT PRIMARY KEY, version INTEGER NOT NULL")
    ddl.table(
        "registry_state",
        """
        tenant_id TEXT PRIMARY KEY,
        counted INTEGER NOT NULL,
        maintained_at INTEGER
        """,
    )


def _create_candidates(ddl: Ddl, real: str) -> None:
    ddl.table(
        "candidate_chains",
        f"""
        tenant_id TEXT NOT NULL,
        chain_id TEXT NOT NULL,
        tools TEXT NOT NULL,
        support {real} NOT NULL CHECK (support >= 0 AND support <= 1),
        confidence {real} NOT NULL CHECK (confidence >= 0 AND confidence <= 1),
        avg_latency_ms INTEGER NOT NULL CHECK (avg_latency_ms >= 0),
        failure_rate {real} NOT NULL CHECK (failure_rate >= 0 AND failure_rate <= 1),
        sample_event_ids TEXT NOT NULL,
        discovered_at INTEGER NOT NULL,
        mining_config TEXT NOT NULL,
        value {real} NOT NULL DEFAULT 0,
        detail TEXT NOT NULL,
        PRIMARY KEY (tenant_id, chain_id)
        """,
        append_only=[("tenant_id", "chain_id")],
    )
    ddl.run("CREATE INDEX candidate_chains_found ON candidate_chains (tenant_id, discovered_at)")
    ddl.table(
        "drafts",
        """
        tenant_id TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (version >= 1),
        definition TEXT NOT NULL,
        chain_id TEXT NOT NULL,
        chain_key TEXT NOT NULL,
        evidence_hash TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, tool_id, version),
        FOREIGN KEY (tenant_id, chain_id) REFERENCES candidate_chains (tenant_id, chain_id)
        """,
    )
    ddl.run("CREATE INDEX drafts_chain ON drafts (tenant_id, chain_key, created_at)")
    ddl.table(
        "rejections",
        """
        tenant_id TEXT NOT NULL,
        chain_key TEXT NOT NULL,
        evidence_hash TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        reason TEXT NOT NULL,
        rejected_by TEXT NOT NULL,
        rejected_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, chain_key, evidence_hash)
        """,
    )


def _create_tools(ddl: Ddl, real: str) -> None:
    ddl.table(
        "tool_records",
        """
        tenant_id TEXT NOT NULL,
        tool_id TEXT NOT NULL CHECK (length(tool_id) <= 256),
        current_version INTEGER NOT NULL,
        definition_path TEXT NOT NULL CHECK (length(definition_path) <= 512),
        registered_at INTEGER NOT NULL,
        last_used_at INTEGER,
        invocation_count INTEGER NOT NULL CHECK (invocation_count >= 0),
        retirement_reason TEXT CHECK (retirement_reason IN
            ('manual', 'auto_unused', 'drift', 'failure_spike', 'superseded')),
        chain_key TEXT NOT NULL,
        in_service_since INTEGER,
        quarantined_at INTEGER,
        quarantined_by TEXT,
        quarantine_reason TEXT,
        flags TEXT NOT NULL,
        revision INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, tool_id)
        """,
    )
    ddl.table(
        "tool_versions",
        f"""
        tenant_id TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (version >= 1),
        status TEXT NOT NULL CHECK (status IN ('draft', 'testing', 'promoted', 'retired')),
        definition TEXT NOT NULL,
        validation TEXT NOT NULL,
        validation_passed INTEGER NOT NULL CHECK (validation_passed IN (0, 1)),
        equivalence_score {real} NOT NULL,
        savings TEXT,
        created_at INTEGER NOT NULL,
        promoted_at INTEGER,
        superseded_at INTEGER,
        retired_at INTEGER,
        PRIMARY KEY (tenant_id, tool_id, version),
        FOREIGN KEY (tenant_id, tool_id) REFERENCES tool_records (tenant_id, tool_id)
        """,
    )
    ddl.run(
        "CREATE INDEX tool_records_revision ON tool_records (tenant_id, revision)",
        "CREATE INDEX tool_records_chain ON tool_records (tenant_id, chain_key)",
        "CREATE UNIQUE INDEX tool_versions_in_service ON tool_versions (tenant_id, tool_id) "
        "WHERE status = 'promoted' AND superseded_at IS NULL",
    )


def _refuse_what_never_happens(ddl: Ddl) -> None:
    allowed = " OR ".join(f"(OLD.status = '{old}' AND NEW.status = '{new}')" for old, new in _ARROWS)
    refuse(ddl, "drafts", "UPDATE", name="no_update")
    refuse(ddl, "rejections", "UPDATE", name="no_update")
    refuse(ddl, "tool_versions", "UPDATE OF tenant_id, tool_id, version, definition, created_at", name="fixed")
    refuse(
        ddl,
        "tool_versions",
        "UPDATE OF status",
        when=f"OLD.status <> NEW.status AND NOT ({allowed})",
        name="no_such_arrow",
    )
    refuse(
        ddl,
        "tool_records",
        "UPDATE OF retirement_reason",
        when="OLD.retirement_reason IS NOT NULL AND "
        "(NEW.retirement_reason IS NULL OR NEW.retirement_reason <> OLD.retirement_reason)",
        name="no_return",
    )
    refuse(
        ddl,
        "tool_records",
        "UPDATE OF invocation_count, last_used_at",
        when="NEW.invocation_count < OLD.invocation_count OR (OLD.last_used_at IS NOT NULL AND "
        "(NEW.last_used_at IS NULL OR NEW.last_used_at < OLD.last_used_at))",
        name="no_falling_count",
    )
