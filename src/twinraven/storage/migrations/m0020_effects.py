"""Adds the roles approver and viewer, indexes for the inbox and for traces, and the guards of the ledger.

`users.role` learns the words `approver` and `viewer`. Open waits of runs get an index of their own, because the inbox
lists them, and events are found by the call that made them and by the task they name, because traces follow both. A
ledger account that may not be overdrawn cannot be, whoever writes; a transfer joins two accounts of one tenant and one
currency, and never changes.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse

_ROLES = "'admin', 'approver', 'member', 'viewer'"


def upgrade(ddl: Ddl) -> None:
    _widen_roles(ddl)
    _create_ledger(ddl)
    ddl.run(
        "CREATE INDEX run_waits_open ON run_waits (tenant_id, asked_at, run_id, place) WHERE answered_at IS NULL",
        "CREATE INDEX muninn_event_log_parent ON muninn_event_log (tenant_id, parent_event_id) "
        "WHERE parent_event_id IS NOT NULL",
        "CREATE INDEX muninn_event_log_task ON muninn_event_log (tenant_id, task_id) WHERE task_id IS NOT NULL",
    )


def _widen_roles(ddl: Ddl) -> None:
    if ddl.dialect == "postgres":
        ddl.run(
            "ALTER TABLE users DROP CONSTRAINT users_role_check, "
            f"ADD CONSTRAINT users_role_check CHECK (role IN ({_ROLES}))"
        )
        return
    # SQLite cannot change a constraint: the words move to a column with the wider one, which takes the old one's name.
    ddl.run(
        f"ALTER TABLE users ADD COLUMN wider_role TEXT NOT NULL DEFAULT 'member' CHECK (wider_role IN ({_ROLES}))",
        "UPDATE users SET wider_role = role",
        "ALTER TABLE users DROP COLUMN role",
        "ALTER TABLE users RENAME COLUMN wider_role TO role",
    )


def _create_ledger(ddl: Ddl) -> None:
    ddl.table(
        "ledger_accounts",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        account_id TEXT NOT NULL CHECK (account_id <> ''),
        kind TEXT NOT NULL CHECK (kind IN ('wallet', 'held', 'outside', 'budget', 'spent')),
        currency TEXT NOT NULL CHECK (length(currency) = 3),
        balance INTEGER NOT NULL,
        may_overdraw INTEGER NOT NULL CHECK (may_overdraw IN (0, 1)),
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, account_id),
        UNIQUE (tenant_id, account_id, currency),
        CHECK (may_overdraw = 1 OR balance >= 0),
        CHECK (may_overdraw = 0 OR kind = 'outside')
        """,
    )
    ddl.table(
        "ledger_transfers",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        transfer_id TEXT NOT NULL,
        transfer_key TEXT NOT NULL,
        from_account TEXT NOT NULL,
        to_account TEXT NOT NULL,
        amount INTEGER NOT NULL CHECK (amount > 0),
        currency TEXT NOT NULL,
        subject_type TEXT NOT NULL,
        subject_id TEXT NOT NULL,
        reverses TEXT,
        posted_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, transfer_id),
        UNIQUE (tenant_id, transfer_key),
        UNIQUE (tenant_id, reverses),
        CHECK (from_account <> to_account),
        FOREIGN KEY (tenant_id, from_account, currency) REFERENCES ledger_accounts (tenant_id, account_id, currency),
        FOREIGN KEY (tenant_id, to_account, currency) REFERENCES ledger_accounts (tenant_id, account_id, currency),
        FOREIGN KEY (tenant_id, reverses) REFERENCES ledger_transfers (tenant_id, transfer_id)
        """,
        append_only=[("tenant_id", "transfer_id"), ("tenant_id", "transfer_key")],
    )
    fixed = "tenant_id, account_id, kind, currency, may_overdraw, created_at"
    refuse(ddl, "ledger_accounts", f"UPDATE OF {fixed}", name="fixed")
    refuse(ddl, "ledger_accounts", "DELETE", name="kept")
    ddl.run(
        "CREATE INDEX ledger_transfers_from ON ledger_transfers (tenant_id, from_account, posted_at)",
        "CREATE INDEX ledger_transfers_to ON ledger_transfers (tenant_id, to_account, posted_at)",
        "CREATE INDEX ledger_transfers_subject ON ledger_transfers (tenant_id, subject_type, subject_id)",
    )
