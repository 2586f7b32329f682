"""Creates sign-ins of browsers; only the hash of a browser's token is stored.

A sign-in must be found before its tenant is known, as a key must; on Postgres a transaction that acts for the holder of
one exact hash ("sign-in:" and the hash) sees that row and no other.
"""

from __future__ import annotations

from twinraven.storage.guards import TENANT_SETTING
from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "sign_ins",
        """
        tenant_id TEXT NOT NULL,
        sign_in_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        key_id TEXT NOT NULL,
        token_hash TEXT NOT NULL,
        label TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        ended_at INTEGER,
        PRIMARY KEY (tenant_id, sign_in_id),
        FOREIGN KEY (tenant_id, key_id) REFERENCES api_keys (tenant_id, key_id)
        """,
    )
    ddl.run("CREATE INDEX sign_ins_hash ON sign_ins (token_hash)")
    fixed = "tenant_id, sign_in_id, user_id, key_id, token_hash, created_at, expires_at"
    refuse(ddl, "sign_ins", f"UPDATE OF {fixed}", name="fixed")
    if ddl.dialect == "postgres":
        scope = f"current_setting('{TENANT_SETTING}', true)"
        ddl.run(f"CREATE POLICY sign_ins_holder ON sign_ins FOR SELECT USING ({scope} = 'sign-in:' || token_hash)")
