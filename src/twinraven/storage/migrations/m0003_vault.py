"""Creates secrets, the versions of their values, and each tenant's state in the rotation of key-encryption keys.

A value is sealed under a data key of its own and never changes; only the wrapping of that data key does, when the
key-encryption key is rotated. `vault_state` names the generation a tenant's wrappings are made with, so that whoever
writes next and whoever rotates agree on it by locking one row, and counts changes, so that redaction notices them.
"""

from __future__ import annotations

from twinraven.storage.guards import TENANT_SETTING
from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "vault_state",
        """
        tenant_id TEXT PRIMARY KEY,
        kek_id TEXT NOT NULL,
        changes INTEGER NOT NULL
        """,
    )
    ddl.table(
        "secrets",
        """
        tenant_id TEXT NOT NULL,
        secret_id TEXT NOT NULL,
        owner_id TEXT NOT NULL,
        name TEXT NOT NULL,
        type TEXT NOT NULL CHECK (type IN ('api_key', 'oauth_token', 'password', 'certificate')),
        shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
        version INTEGER NOT NULL CHECK (version >= 1),
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, secret_id),
        UNIQUE (tenant_id, owner_id, name),
        FOREIGN KEY (tenant_id, owner_id) REFERENCES users (tenant_id, user_id)
        """,
    )
    ddl.table(
        "secret_versions",
        """
        tenant_id TEXT NOT NULL,
        secret_id TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (version >= 1),
        kek_id TEXT NOT NULL,
        wrapped_key {bytes} NOT NULL,
        ciphertext {bytes} NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, secret_id, version),
        FOREIGN KEY (tenant_id, secret_id) REFERENCES secrets (tenant_id, secret_id) ON DELETE CASCADE
        """,
    )
    refuse(ddl, "secrets", "UPDATE OF tenant_id, secret_id, owner_id, type, created_at", name="fixed")
    refuse(ddl, "secret_versions", "UPDATE OF tenant_id, secret_id, version, ciphertext, created_at", name="fixed")
    if ddl.dialect == "postgres":
        ddl.run(
            "CREATE POLICY vault_state_directory ON vault_state FOR SELECT "
            f"USING (current_setting('{TENANT_SETTING}', true) = '*')"
        )
