"""Creates governed work: campaigns, goals, tasks, results, decisions, and the effects that decisions allow.

Every reference carries the tenant, and where it can, what both ends share: a goal belongs to the task's campaign, a
decision to the task that its effect is for. Specs, envelopes, results, decisions and media assets never change.
Which status may follow which stands in `governance/states.py`; the same tables are triggers here, so that a program
which does not know them is refused too. Amounts are integers in the smallest unit of their currency.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse

_TENANT = "tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),"
_CURRENCY = "CHECK (length(currency) = 3)"

_STATUSES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "campaigns": {
        "active": ("paused", "complete", "cancelled"),
        "paused": ("active", "complete", "cancelled"),
        "complete": (),
        "cancelled": (),
    },
    "goals": {
        "pending": ("in_progress", "cancelled"),
        "in_progress": ("complete", "failed", "cancelled"),
        "complete": ("in_progress",),
        "failed": ("in_progress", "cancelled"),
        "cancelled": (),
    },
    "tasks": {
        "pending": ("in_progress", "failed", "cancelled"),
        "in_progress": ("review", "pending", "failed", "cancelled"),
        "review": ("complete", "pending", "rejected", "escalated", "cancelled"),
        "escalated": ("complete", "pending", "rejected", "cancelled"),
        "complete": ("pending", "rejected", "escalated"),
        "rejected": ("pending", "complete", "escalated", "cancelled"),
        "failed": ("pending", "cancelled"),
        "cancelled": (),
    },
    "worker_runs": {
        "queued": ("in_progress", "cancelled"),
        "in_progress": ("complete", "failed", "cancelled"),
        "complete": (),
        "failed": (),
        "cancelled": (),
    },
    "publish_events": {
        "scheduled": ("sending", "failed", "cancelled"),
        "sending": ("published", "failed", "unknown"),
        "unknown": ("published", "failed"),
        "published": (),
        "failed": ("sending", "cancelled"),
        "cancelled": (),
    },
    "outgoing_messages": {
        "scheduled": ("sending", "failed", "cancelled"),
        "sending": ("sent", "failed", "unknown"),
        "unknown": ("sent", "failed"),
        "sent": (),
        "failed": ("sending", "cancelled"),
        "cancelled": (),
    },
    "wallets": {"open": ("frozen", "closed"), "frozen": ("open", "closed"), "closed": ()},
    "transactions": {
        "pending": ("approved", "failed", "cancelled"),
        "approved": ("sending", "executed", "failed", "cancelled"),
        "sending": ("executed", "failed", "unknown"),
        "unknown": ("executed", "failed"),
        "executed": (),
        "failed": (),
        "cancelled": (),
    },
    "budgets": {"open": ("closed",), "closed": ("open",)},
}


def upgrade(ddl: Ddl) -> None:
    real = "REAL" if ddl.dialect == "sqlite" else "DOUBLE PRECISION"
    _create_campaigns(ddl)
    _create_envelopes(ddl)
    _create_tasks(ddl)
    _guard_plans(ddl)
    _create_work(ddl, real)
    _create_decisions(ddl, real)
    _create_effects(ddl, real)
    _create_money(ddl)
    for table in _STATUSES:
        _guard_transitions(ddl, table)
    ddl.run("ALTER TABLE runs ADD COLUMN lineage TEXT")
    refuse(ddl, "runs", "UPDATE OF lineage", name="lineage_fixed")


def _status(table: str) -> str:
    words = ", ".join(f"'{word}'" for word in _STATUSES[table])
    return f"status TEXT NOT NULL CHECK (status IN ({words})),"


def _guard_transitions(ddl: Ddl, table: str) -> None:
    """Refuse a status that cannot follow the one before."""
    allowed = ["OLD.status = NEW.status"]
    for before, after in _STATUSES[table].items():
        if after:
            words = ", ".join(f"'{word}'" for word in after)
            allowed.append(f"(OLD.status = '{before}' AND NEW.status IN ({words}))")
    refuse(ddl, table, "UPDATE OF status", when=f"NOT ({' OR '.join(allowed)})", name="transitions")


def _guard_versions(ddl: Ddl, table: str) -> None:
    """Refuse an update of shared state that does not move its version on by one."""
    refuse(ddl, table, "UPDATE", when="NEW.state_version <> OLD.state_version + 1", name="versions")


def _create_campaigns(ddl: Ddl) -> None:
    ddl.table(
        "campaigns",
        f"""
        {_TENANT}
        campaign_id TEXT NOT NULL,
        name TEXT NOT NULL CHECK (name <> ''),
        {_status("campaigns")}
        persona_id TEXT,
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, campaign_id)
        """,
    )
    ddl.table(
        "goals",
        f"""
        {_TENANT}
        goal_id TEXT NOT NULL,
        campaign_id TEXT NOT NULL,
        description TEXT NOT NULL CHECK (description <> ''),
        {_status("goals")}
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, goal_id),
        UNIQUE (tenant_id, campaign_id, goal_id),
        FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, campaign_id)
        """,
    )


def _create_envelopes(ddl: Ddl) -> None:
    ddl.table(
        "envelopes",
        f"""
        {_TENANT}
        envelope_id TEXT NOT NULL,
        type TEXT NOT NULL,
        role TEXT NOT NULL,
        status TEXT NOT NULL,
        campaign_id TEXT,
        goal_id TEXT,
        task_id TEXT,
        idempotency_key TEXT NOT NULL,
        correlation_id TEXT NOT NULL,
        body TEXT NOT NULL,
        body_hash TEXT NOT NULL,
        answer TEXT NOT NULL,
        sent_by TEXT NOT NULL,
        received_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, envelope_id),
        UNIQUE (tenant_id, type, idempotency_key)
        """,
        append_only=[("tenant_id", "envelope_id"), ("tenant_id", "type", "idempotency_key")],
    )


def _create_tasks(ddl: Ddl) -> None:
    ddl.table(
        "tasks",
        f"""
        {_TENANT}
        task_id TEXT NOT NULL,
        campaign_id TEXT NOT NULL,
        goal_id TEXT NOT NULL,
        task_type TEXT NOT NULL,
        priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'critical')),
        {_status("tasks")}
        spec_version INTEGER NOT NULL CHECK (spec_version >= 1),
        idempotency_key TEXT NOT NULL,
        attempts INTEGER NOT NULL CHECK (attempts >= 0),
        spent INTEGER NOT NULL CHECK (spent >= 0),
        due_at INTEGER,
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        owner_id TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, task_id),
        UNIQUE (tenant_id, campaign_id, task_id),
        UNIQUE (tenant_id, idempotency_key),
        FOREIGN KEY (tenant_id, campaign_id, goal_id) REFERENCES goals (tenant_id, campaign_id, goal_id)
        """,
    )
    ddl.table(
        "task_specs",
        f"""
        {_TENANT}
        task_id TEXT NOT NULL,
        spec_version INTEGER NOT NULL CHECK (spec_version >= 1),
        spec_json TEXT NOT NULL,
        spec_hash TEXT NOT NULL,
        envelope_id TEXT,
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, task_id, spec_version),
        FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, task_id),
        FOREIGN KEY (tenant_id, envelope_id) REFERENCES envelopes (tenant_id, envelope_id)
        """,
        append_only=[("tenant_id", "task_id", "spec_version")],
    )
    ddl.table(
        "task_dependencies",
        f"""
        {_TENANT}
        id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        spec_version INTEGER NOT NULL,
        depends_on_task_id TEXT NOT NULL,
        PRIMARY KEY (tenant_id, id),
        UNIQUE (tenant_id, task_id, spec_version, depends_on_task_id),
        CHECK (task_id <> depends_on_task_id),
        FOREIGN KEY (tenant_id, task_id, spec_version) REFERENCES task_specs (tenant_id, task_id, spec_version),
        FOREIGN KEY (tenant_id, depends_on_task_id) REFERENCES tasks (tenant_id, task_id)
        """,
        append_only=[("tenant_id", "id"), ("tenant_id", "task_id", "spec_version", "depends_on_task_id")],
    )


def _guard_plans(ddl: Ddl) -> None:
    ddl.run(
        "CREATE INDEX goals_campaign ON goals (tenant_id, campaign_id, created_at)",
        "CREATE INDEX tasks_goal ON tasks (tenant_id, goal_id, status)",
        "CREATE INDEX tasks_status ON tasks (tenant_id, status, created_at)",
        "CREATE INDEX task_dependencies_on ON task_dependencies (tenant_id, depends_on_task_id)",
        "CREATE INDEX envelopes_task ON envelopes (tenant_id, task_id)",
    )
    refuse(ddl, "campaigns", "UPDATE OF tenant_id, campaign_id, created_by, created_at", name="fixed")
    refuse(ddl, "goals", "UPDATE OF tenant_id, goal_id, campaign_id, created_by, created_at", name="fixed")
    fixed = "tenant_id, task_id, campaign_id, goal_id, idempotency_key, created_by, created_at"
    refuse(ddl, "tasks", f"UPDATE OF {fixed}", name="fixed")
    for table in ("campaigns", "goals", "tasks"):
        refuse(ddl, table, "DELETE", name="kept")
        _guard_versions(ddl, table)


def _create_work(ddl: Ddl, real: str) -> None:
    ddl.table(
        "worker_runs",
        f"""
        {_TENANT}
        worker_run_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        attempt_number INTEGER NOT NULL CHECK (attempt_number >= 1),
        spec_version INTEGER NOT NULL,
        {_status("worker_runs")}
        run_id TEXT,
        envelope_id TEXT,
        worker TEXT NOT NULL,
        started_at INTEGER,
        finished_at INTEGER,
        PRIMARY KEY (tenant_id, worker_run_id),
        UNIQUE (tenant_id, task_id, attempt_number),
        UNIQUE (tenant_id, task_id, worker_run_id),
        UNIQUE (tenant_id, run_id),
        FOREIGN KEY (tenant_id, task_id, spec_version) REFERENCES task_specs (tenant_id, task_id, spec_version),
        FOREIGN KEY (tenant_id, envelope_id) REFERENCES envelopes (tenant_id, envelope_id)
        """,
    )
    refuse(
        ddl, "worker_runs", "UPDATE OF tenant_id, worker_run_id, task_id, attempt_number, spec_version", name="fixed"
    )
    refuse(ddl, "worker_runs", "DELETE", when="OLD.status <> 'queued'", name="kept")
    ddl.table(
        "worker_results",
        f"""
        {_TENANT}
        result_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        worker_run_id TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('complete', 'failed')),
        confidence_score {real} NOT NULL CHECK (confidence_score >= 0 AND confidence_score <= 1),
        risk_tags_json TEXT NOT NULL,
        outputs_json TEXT NOT NULL,
        evidence_json TEXT NOT NULL,
        invocations_json TEXT NOT NULL,
        error_json TEXT,
        cost INTEGER NOT NULL CHECK (cost >= 0),
        envelope_id TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, result_id),
        UNIQUE (tenant_id, worker_run_id),
        UNIQUE (tenant_id, task_id, result_id),
        FOREIGN KEY (tenant_id, task_id, worker_run_id) REFERENCES worker_runs (tenant_id, task_id, worker_run_id),
        FOREIGN KEY (tenant_id, envelope_id) REFERENCES envelopes (tenant_id, envelope_id)
        """,
        append_only=[("tenant_id", "result_id"), ("tenant_id", "worker_run_id")],
    )
    ddl.run("CREATE INDEX worker_results_task ON worker_results (tenant_id, task_id, created_at)")


def _create_decisions(ddl: Ddl, real: str) -> None:
    ddl.table(
        "judge_decisions",
        f"""
        {_TENANT}
        decision_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        result_id TEXT NOT NULL,
        round INTEGER NOT NULL CHECK (round >= 1),
        decision TEXT NOT NULL CHECK (decision IN ('approve', 'reject', 'escalate')),
        state_version_used INTEGER NOT NULL,
        reason_summary TEXT NOT NULL CHECK (reason_summary <> ''),
        confidence_score {real},
        risk_tags_json TEXT NOT NULL,
        policy_checks_json TEXT NOT NULL,
        open_checks INTEGER NOT NULL CHECK (open_checks >= 0),
        required_actions_json TEXT NOT NULL,
        override_reason TEXT CHECK (override_reason <> ''),
        human_review_required INTEGER NOT NULL CHECK (human_review_required IN (0, 1)),
        human_reviewer_id TEXT,
        decided_by TEXT NOT NULL,
        decided_at INTEGER NOT NULL,
        expires_at INTEGER,
        envelope_id TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        PRIMARY KEY (tenant_id, decision_id),
        UNIQUE (tenant_id, result_id, round),
        UNIQUE (tenant_id, task_id, decision_id),
        CHECK (decision <> 'approve' OR open_checks = 0 OR override_reason IS NOT NULL),
        CHECK (decision <> 'escalate' OR human_review_required = 1),
        FOREIGN KEY (tenant_id, task_id, result_id) REFERENCES worker_results (tenant_id, task_id, result_id),
        FOREIGN KEY (tenant_id, envelope_id) REFERENCES envelopes (tenant_id, envelope_id)
        """,
        append_only=[("tenant_id", "decision_id"), ("tenant_id", "result_id", "round")],
    )
    ddl.run("CREATE INDEX judge_decisions_decided ON judge_decisions (tenant_id, decided_at, decision_id)")


def _create_effects(ddl: Ddl, real: str) -> None:
    ddl.table(
        "media_assets",
        f"""
        {_TENANT}
        asset_id TEXT NOT NULL,
        campaign_id TEXT NOT NULL,
        task_id TEXT,
        kind TEXT NOT NULL CHECK (kind IN ('image', 'video', 'audio', 'other')),
        storage_uri TEXT NOT NULL CHECK (storage_uri <> ''),
        content_hash TEXT,
        duration_seconds {real},
        width INTEGER,
        height INTEGER,
        format TEXT,
        character_id TEXT,
        metadata_json TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, asset_id),
        FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, campaign_id),
        FOREIGN KEY (tenant_id, campaign_id, task_id) REFERENCES tasks (tenant_id, campaign_id, task_id)
        """,
        append_only=[("tenant_id", "asset_id")],
    )
    _create_outgoing(
        ddl,
        "publish_events",
        ("publish_id", "external_post_id"),
        """
        media_asset_id TEXT,
        disclosure_applied INTEGER NOT NULL CHECK (disclosure_applied IN (0, 1)),
        published_at INTEGER,""",
        """
        CHECK (status <> 'published' OR published_at IS NOT NULL),
        FOREIGN KEY (tenant_id, media_asset_id) REFERENCES media_assets (tenant_id, asset_id)""",
    )
    _create_outgoing(
        ddl,
        "outgoing_messages",
        ("message_id", "external_message_id"),
        """
        recipient TEXT NOT NULL CHECK (recipient <> ''),
        sent_at INTEGER,""",
        "CHECK (status <> 'sent' OR sent_at IS NOT NULL)",
    )


def _create_outgoing(ddl: Ddl, table: str, ids: tuple[str, str], columns: str, rules: str) -> None:
    """Create a table of what leaves the house: bound to the decision about its task, and to one key."""
    key, external = ids
    ddl.table(
        table,
        f"""
        {_TENANT}
        {key} TEXT NOT NULL,
        campaign_id TEXT NOT NULL,
        goal_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        decision_id TEXT NOT NULL,
        channel TEXT NOT NULL CHECK (channel <> ''),
        provider TEXT NOT NULL,
        {_status(table)}
        {external} TEXT,
        request_json TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        answer_json TEXT,
        error_json TEXT,
        idempotency_key TEXT NOT NULL,
        correlation_id TEXT NOT NULL,
        attempts INTEGER NOT NULL CHECK (attempts >= 0),
        scheduled_at INTEGER,
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        {columns}
        PRIMARY KEY (tenant_id, {key}),
        UNIQUE (tenant_id, idempotency_key),
        FOREIGN KEY (tenant_id, campaign_id, goal_id) REFERENCES goals (tenant_id, campaign_id, goal_id),
        FOREIGN KEY (tenant_id, campaign_id, task_id) REFERENCES tasks (tenant_id, campaign_id, task_id),
        FOREIGN KEY (tenant_id, task_id, decision_id) REFERENCES judge_decisions (tenant_id, task_id, decision_id),
        {rules}
        """,
    )
    ddl.run(
        f"CREATE INDEX {table}_task ON {table} (tenant_id, task_id)",
        f"CREATE INDEX {table}_status ON {table} (tenant_id, status, scheduled_at)",
        f"CREATE INDEX {table}_external ON {table} (tenant_id, {external})",
    )
    fixed = f"tenant_id, {key}, campaign_id, goal_id, task_id, idempotency_key, request_json, request_hash, created_at"
    refuse(ddl, table, f"UPDATE OF {fixed}", name="fixed")
    refuse(ddl, table, "DELETE", name="kept")


def _create_money(ddl: Ddl) -> None:
    ddl.table(
        "budgets",
        f"""
        {_TENANT}
        budget_id TEXT NOT NULL,
        campaign_id TEXT NOT NULL,
        name TEXT NOT NULL,
        {_status("budgets")}
        currency TEXT NOT NULL {_CURRENCY},
        total INTEGER NOT NULL CHECK (total >= 0),
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, budget_id),
        UNIQUE (tenant_id, budget_id, currency),
        FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, campaign_id)
        """,
    )
    ddl.table(
        "wallets",
        f"""
        {_TENANT}
        wallet_id TEXT NOT NULL,
        agent_or_campaign_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('commerce', 'internal')),
        {_status("wallets")}
        currency TEXT NOT NULL {_CURRENCY},
        provider TEXT NOT NULL,
        provider_ref TEXT,
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, wallet_id),
        UNIQUE (tenant_id, wallet_id, currency)
        """,
    )
    _create_transactions(ddl)
    refuse(ddl, "budgets", "UPDATE OF tenant_id, budget_id, campaign_id, currency, created_at", name="fixed")
    refuse(ddl, "wallets", "UPDATE OF tenant_id, wallet_id, agent_or_campaign_id, kind, currency", name="fixed")
    for table in ("budgets", "wallets"):
        refuse(ddl, table, "DELETE", name="kept")
        _guard_versions(ddl, table)


def _create_transactions(ddl: Ddl) -> None:
    ddl.table(
        "transactions",
        f"""
        {_TENANT}
        transaction_id TEXT NOT NULL,
        wallet_id TEXT NOT NULL,
        campaign_id TEXT,
        goal_id TEXT,
        task_id TEXT,
        decision_id TEXT,
        budget_id TEXT,
        direction TEXT NOT NULL CHECK (direction IN ('debit', 'credit')),
        amount INTEGER NOT NULL CHECK (amount > 0),
        currency TEXT NOT NULL {_CURRENCY},
        counterparty TEXT NOT NULL,
        description TEXT NOT NULL,
        {_status("transactions")}
        chain_tx_hash TEXT,
        provider_ref TEXT,
        reverses TEXT,
        request_json TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        answer_json TEXT,
        error_json TEXT,
        idempotency_key TEXT NOT NULL,
        correlation_id TEXT NOT NULL,
        attempts INTEGER NOT NULL CHECK (attempts >= 0),
        requested_by TEXT NOT NULL,
        requested_at INTEGER NOT NULL,
        executed_at INTEGER,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, transaction_id),
        UNIQUE (tenant_id, idempotency_key),
        UNIQUE (tenant_id, reverses),
        CHECK (status IN ('pending', 'failed', 'cancelled') OR decision_id IS NOT NULL),
        CHECK ((decision_id IS NULL) OR (task_id IS NOT NULL)),
        CHECK (status <> 'executed' OR executed_at IS NOT NULL),
        FOREIGN KEY (tenant_id, wallet_id, currency) REFERENCES wallets (tenant_id, wallet_id, currency),
        FOREIGN KEY (tenant_id, budget_id, currency) REFERENCES budgets (tenant_id, budget_id, currency),
        FOREIGN KEY (tenant_id, campaign_id, goal_id) REFERENCES goals (tenant_id, campaign_id, goal_id),
        FOREIGN KEY (tenant_id, campaign_id, task_id) REFERENCES tasks (tenant_id, campaign_id, task_id),
        FOREIGN KEY (tenant_id, task_id, decision_id) REFERENCES judge_decisions (tenant_id, task_id, decision_id),
        FOREIGN KEY (tenant_id, reverses) REFERENCES transactions (tenant_id, transaction_id)
        """,
    )
    ddl.run(
        "CREATE INDEX transactions_wallet ON transactions (tenant_id, wallet_id, requested_at)",
        "CREATE INDEX transactions_task ON transactions (tenant_id, task_id)",
        "CREATE INDEX transactions_status ON transactions (tenant_id, status)",
        "CREATE INDEX transactions_chain ON transactions (tenant_id, chain_tx_hash)",
    )
    fixed = (
        "tenant_id, transaction_id, wallet_id, task_id, direction, amount, currency, idempotency_key, "
        "request_json, request_hash, requested_by, requested_at, reverses"
    )
    refuse(ddl, "transactions", f"UPDATE OF {fixed}", name="fixed")
    refuse(ddl, "transactions", "DELETE", name="kept")
