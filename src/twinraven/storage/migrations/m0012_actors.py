"""Adds actors to events and users, and the actor type agent to the audit chain.

Events get a nullable actor; those from before have none. Users are persons or agents, for good. The audit chain
called whoever came through a door "human": new entries say person, agent, system or node. Entries from before keep
their word, because their hash covers it, so the chain must go on accepting both.
"""

from __future__ import annotations

from twinraven.storage.guards import sqlite_guards
from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.m0001_memory import create_events_view
from twinraven.storage.migrations.refusals import refuse

_ACTORS = "'person', 'agent', 'system', 'node'"
_AUDIT_ACTORS = f"{_ACTORS}, 'human', 'external_node'"


def upgrade(ddl: Ddl) -> None:
    ddl.run(
        "DROP VIEW muninn_events",
        f"ALTER TABLE muninn_event_log ADD COLUMN actor_type TEXT CHECK (actor_type IN ({_ACTORS}))",
        "ALTER TABLE muninn_event_log ADD COLUMN actor_id TEXT CHECK (actor_id IS NULL OR actor_type IS NOT NULL)",
    )
    create_events_view(ddl)
    ddl.run("ALTER TABLE users ADD COLUMN kind TEXT NOT NULL DEFAULT 'person' CHECK (kind IN ('person', 'agent'))")
    refuse(ddl, "users", "UPDATE OF kind", name="kind_fixed")
    _widen_audit_actors(ddl)


def _widen_audit_actors(ddl: Ddl) -> None:
    if ddl.dialect == "postgres":
        ddl.run(
            "ALTER TABLE audit_log DROP CONSTRAINT audit_log_actor_type_check, "
            f"ADD CONSTRAINT audit_log_actor_type_check CHECK (actor_type IN ({_AUDIT_ACTORS}))"
        )
        return
    # SQLite cannot change a constraint: the words move to a column with the wider one, which takes the old one's name.
    ddl.run(
        "DROP TRIGGER audit_log_no_update",
        "ALTER TABLE audit_log ADD COLUMN wider_actor_type TEXT NOT NULL DEFAULT 'system' "
        f"CHECK (wider_actor_type IN ({_AUDIT_ACTORS}))",
        "UPDATE audit_log SET wider_actor_type = actor_type",
        "ALTER TABLE audit_log DROP COLUMN actor_type",
        "ALTER TABLE audit_log RENAME COLUMN wider_actor_type TO actor_type",
        *(guard for guard in sqlite_guards("audit_log", ()) if "_no_update " in guard),
    )
