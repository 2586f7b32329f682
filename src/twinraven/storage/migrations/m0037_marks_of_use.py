"""Creates marks of who uses what: looks at inbox items, repeats of idempotency keys, the last use of secrets.

A reservation says who is looking at an item and ends by itself. A claim names the event of the call that took it, and
later requests under its key are counted by session, so that both stay as small as what they tell of.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl

_TOPIC = "reservations"


def upgrade(ddl: Ddl) -> None:
    number = "BIGINT" if ddl.dialect == "postgres" else "INTEGER"
    ddl.run(
        "ALTER TABLE idempotency_claims ADD COLUMN event_id TEXT",
        "CREATE INDEX idempotency_claims_event ON idempotency_claims (tenant_id, event_id) WHERE event_id IS NOT NULL",
        f"ALTER TABLE secrets ADD COLUMN last_used_at {number}",
    )
    ddl.table(
        "key_repeats",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        idempotency_key TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('replayed', 'conflict', 'running')),
        session_id TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        caller TEXT,
        event_id TEXT NOT NULL,
        times INTEGER NOT NULL CHECK (times > 0),
        first_at INTEGER NOT NULL,
        last_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, idempotency_key, kind, session_id)
        """,
    )
    ddl.table(
        "inbox_reservations",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        item_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        since INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, item_id, user_id)
        """,
    )
    if ddl.dialect == "sqlite":
        ddl.run(_count("INSERT", "NEW"), _count("DELETE", "OLD"))
    else:
        ddl.run(
            "CREATE TRIGGER inbox_reservations_tell_change AFTER INSERT OR DELETE ON inbox_reservations "
            f"FOR EACH ROW EXECUTE FUNCTION twinraven_tell_change('{_TOPIC}')"
        )


def _count(act: str, row: str) -> str:
    return (
        f"CREATE TRIGGER inbox_reservations_tell_{act.lower()} AFTER {act} ON inbox_reservations BEGIN "
        f"INSERT INTO change_marks (tenant_id, topic, mark) VALUES ({row}.tenant_id, '{_TOPIC}', 1) "
        "ON CONFLICT (tenant_id, topic) DO UPDATE SET mark = change_marks.mark + 1; END"
    )
