"""Installs database triggers that refuse to change history and to cross tenants.

A table named here takes INSERT and SELECT from application logic and nothing else. The refusal lives in the database
(triggers on both stores, privileges on Postgres, an authorizer on our SQLite connections), because a rule that only
our code keeps is a rule that the next program to open the file does not know.

SQLite's INSERT OR REPLACE deletes the row it replaces without firing a DELETE trigger, so each guarded table also
refuses an INSERT that would collide with a row already there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GUARD_MESSAGE = "append-only"
FENCE_MESSAGE = "this tenant has no such event"
"""What a trigger says, behind the name of the field, of an event that refers to another tenant's."""

APPEND_ONLY_TABLES = frozenset(
    {
        "alternative_episodes",
        "alternative_outcomes",
        "alternative_quotes",
        "approval_decisions",
        "approvals",
        "audit_log",
        "candidate_chains",
        "conversation_turns",
        "envelopes",
        "episodes",
        "introspection_contents",
        "judge_decisions",
        "ledger_transfers",
        "media_assets",
        "muninn_event_log",
        "retention_notes",
        "session_verdicts",
        "summary_contents",
        "summary_sources",
        "task_dependencies",
        "task_specs",
        "worker_results",
    }
)

APP_ROLE = "twinraven_app"
"""The Postgres group role that application logins belong to; it owns nothing."""

TENANT_SETTING = "twinraven.tenant_id"


def sqlite_guards(table: str, keys: Sequence[Sequence[str]]) -> Iterator[str]:
    """Triggers that refuse UPDATE, DELETE and any INSERT whose key is taken."""
    for verb in ("UPDATE", "DELETE"):
        yield (
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{GUARD_MESSAGE}: {table} refuses {verb}'); END"
        )
    for number, key in enumerate(keys):
        same = " AND ".join(f"{column} = NEW.{column}" for column in key)
        yield (
            f"CREATE TRIGGER {table}_no_replace_{number} BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) "
            f"BEGIN SELECT RAISE(ABORT, '{GUARD_MESSAGE}: {table} has that {key[-1]} already'); END"
        )


def postgres_guards(table: str) -> Iterator[str]:
    """Yield a trigger against UPDATE, DELETE and TRUNCATE for every role, and only SELECT and INSERT for ours."""
    for verb, scope in (("UPDATE", "ROW"), ("DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        yield (
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            f"FOR EACH {scope} EXECUTE FUNCTION twinraven_refuse_change()"
        )


def postgres_fence(table: str, *, append_only: bool) -> Iterator[str]:
    """Row-level security by tenant, also for the owner, and the privileges of the application role."""
    mine = f"tenant_id = NULLIF(current_setting('{TENANT_SETTING}', true), '')"
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY {table}_tenant ON {table} USING ({mine}) WITH CHECK ({mine})"
    verbs = "SELECT, INSERT" if append_only else "SELECT, INSERT, UPDATE, DELETE"
    yield f"GRANT {verbs} ON {table} TO {APP_ROLE}"
