"""Tells of changes to runs, conversations and governed work, too, so that pages about them are live.

Triggers do it, so that no writer can forget to. On Postgres they send NOTIFY, as those before them. SQLite cannot push:
there they count up one number for each tenant and topic, which the feed of changes looks at.
"""

from __future__ import annotations

from typing import Final

from twinraven.storage.migrations import Ddl

_TOPICS: Final = {
    "runs": ("runs", "run_steps", "run_waits"),
    "conversations": ("conversations", "conversation_turns", "alternatives", "alternative_outcomes"),
    "work": (
        "campaigns", "goals", "tasks", "worker_results", "judge_decisions", "budgets", "wallets", "transactions",
        "publish_events", "outgoing_messages", "entity_proposals", "upstream_tools",
    ),
}  # fmt: skip


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "change_marks",
        """
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        topic TEXT NOT NULL,
        mark INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, topic)
        """,
    )
    for topic, tables in _TOPICS.items():
        for table in tables:
            ddl.run(*(_count(table, topic) if ddl.dialect == "sqlite" else _notify(table, topic)))


def _notify(table: str, topic: str) -> list[str]:
    event = f"AFTER INSERT OR UPDATE ON {table} FOR EACH STATEMENT"
    return [f"CREATE TRIGGER {table}_tell_change {event} EXECUTE FUNCTION twinraven_tell_change('{topic}')"]


def _count(table: str, topic: str) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_tell_{act.lower()} AFTER {act} ON {table} BEGIN "
        f"INSERT INTO change_marks (tenant_id, topic, mark) VALUES (NEW.tenant_id, '{topic}', 1) "
        "ON CONFLICT (tenant_id, topic) DO UPDATE SET mark = change_marks.mark + 1; END"
        for act in ("INSERT", "UPDATE")
    ]
