"""Creates tenants, their users and the users' API keys.

A key must be found before its tenant is known, and an operator must be able to list tenants. On Postgres both are
policies for SELECT alone, and both are asked for by name: a transaction acts for a tenant, for the holder of one exact
key hash ("key:" and the hash), or for the directory ("*"). Tenant ids contain neither character, and a query that
merely forgets its filter still sees one tenant.

The tenant and the user of an embedded home exist from the start, so that whatever refers to them can be checked.
"""

from __future__ import annotations

from twinraven.foundation.clock import now_micros
from twinraven.storage.guards import TENANT_SETTING
from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "tenants",
        """
        tenant_id TEXT PRIMARY KEY CHECK (tenant_id <> ''),
        name TEXT NOT NULL,
        created_at INTEGER NOT NULL
        """,
    )
    ddl.table(
        "users",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        user_id TEXT NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL CHECK (role IN ('admin', 'member')),
        active INTEGER NOT NULL CHECK (active IN (0, 1)),
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, user_id)
        """,
    )
    ddl.table(
        "api_keys",
        """
        tenant_id TEXT NOT NULL,
        key_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        key_hash TEXT NOT NULL,
        prefix TEXT NOT NULL,
        label TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        revoked_at INTEGER,
        last_used_at INTEGER,
        PRIMARY KEY (tenant_id, key_id),
        FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id)
        """,
    )
    ddl.run(
        "CREATE INDEX api_keys_hash ON api_keys (key_hash)",
        "CREATE INDEX api_keys_user ON api_keys (tenant_id, user_id)",
    )
    refuse(ddl, "api_keys", "UPDATE OF tenant_id, key_id, user_id, key_hash, created_at", name="fixed")
    refuse(ddl, "users", "UPDATE OF tenant_id, user_id, created_at", name="fixed")
    if ddl.dialect == "postgres":
        scope = f"current_setting('{TENANT_SETTING}', true)"
        ddl.run(
            f"CREATE POLICY tenants_directory ON tenants FOR SELECT USING ({scope} = '*')",
            f"CREATE POLICY api_keys_holder ON api_keys FOR SELECT USING ({scope} = 'key:' || key_hash)",
            f"SELECT set_config('{TENANT_SETTING}', 'default', true)",
        )
    now = now_micros()
    ddl.run(
        f"INSERT INTO tenants (tenant_id, name, created_at) VALUES ('default', 'default', {now})",
        "INSERT INTO users (tenant_id, user_id, name, role, active, created_at) "
        f"VALUES ('default', 'local', 'local', 'admin', 1, {now})",
    )
