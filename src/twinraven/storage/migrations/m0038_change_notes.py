"""Tells what each change is about: the session of calls, a run, a conversation, a task.

Who looks at one of them need not ask again because of all others. On Postgres the triggers read the ids from the rows
of the statement and send one NOTIFY for each, or one for all where they are many or too long for it. On SQLite triggers
note them in a table of which the last thousand and some are kept; the change feed sees when it came too late for one.
"""

from __future__ import annotations

from typing import Final

from twinraven.storage.guards import TENANT_SETTING
from twinraven.storage.migrations import Ddl

_KEPT: Final = 1_000
_DROPPED_AT_ONCE: Final = 256
"""Notes are dropped by the hundred: one at a time, each write would change a second page of the table."""
_MOST_NAMED: Final = 32
_LONGEST: Final = 1_000
"""A payload of NOTIFY is at most 8,000 bytes long."""

_ABOUT: Final = {
    "runs": {"runs": "run_id", "run_steps": "run_id", "run_waits": "run_id"},
    "conversations": {
        "conversations": "conversation_id",
        "conversation_turns": "conversation_id",
        "alternatives": "conversation_id",
        "alternative_outcomes": "conversation_id",
    },
    "work": {
        "campaigns": "campaign_id",
        "goals": "goal_id",
        "tasks": "task_id",
        "worker_results": "task_id",
        "judge_decisions": "task_id",
        "budgets": "budget_id",
        "wallets": "wallet_id",
        "transactions": "task_id",
        "publish_events": "task_id",
        "outgoing_messages": "task_id",
        "entity_proposals": "proposal_id",
        "upstream_tools": "tool_id",
    },
}
_OF_NEW: Final = {"tasks": "goal_id"}
"""Whoever looks at a task sees which tasks of its goal wait for it, so that a new one is told under its goal."""
_COLUMNS: Final = sorted(
    {"session_id", *_OF_NEW.values(), *(column for tables in _ABOUT.values() for column in tables.values())}
)
_ACTS: Final = ("INSERT", "UPDATE")


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "change_notes",
        """
        number INTEGER PRIMARY KEY,
        tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
        topic TEXT NOT NULL,
        about TEXT
        """,
    )
    if ddl.dialect == "postgres":
        ddl.run(*(_function(column) for column in _COLUMNS))
    else:
        ddl.run(
            f"CREATE TRIGGER change_notes_kept AFTER INSERT ON change_notes WHEN NEW.number % {_DROPPED_AT_ONCE} = 0 "
            f"BEGIN DELETE FROM change_notes WHERE number <= NEW.number - {_KEPT}; END"
        )
    for topic, tables in _ABOUT.items():
        for table, about in tables.items():
            for act in _ACTS:
                ddl.run(*(_note(table, act, topic, _named(table, act, about)) if ddl.dialect == "sqlite" else ()))
            ddl.run(*(_notify(table, topic, about) if ddl.dialect == "postgres" else ()))
    if ddl.dialect == "postgres":
        ddl.run(*_notify("muninn_event_log", "events", "session_id"))
    else:
        ddl.run(*_note("inbox_reservations", "INSERT", "reservations", "item_id"))
        ddl.run(*_note("inbox_reservations", "DELETE", "reservations", "item_id"))
    ddl.run("DROP TABLE change_marks")


def _named(table: str, act: str, about: str) -> str:
    return _OF_NEW.get(table, about) if act == "INSERT" else about


def _note(table: str, act: str, topic: str, about: str) -> list[str]:
    row = "OLD" if act == "DELETE" else "NEW"
    name = f"{table}_tell_{act.lower()}"
    noted = f"INSERT INTO change_notes (tenant_id, topic, about) VALUES ({row}.tenant_id, '{topic}', {row}.{about})"
    return [f"DROP TRIGGER {name}", f"CREATE TRIGGER {name} AFTER {act} ON {table} BEGIN {noted}; END"]


def _notify(table: str, topic: str, about: str) -> list[str]:
    return [
        f"DROP TRIGGER {table}_tell_change ON {table}",
        *(
            f"CREATE TRIGGER {table}_tell_{act.lower()} AFTER {act} ON {table} REFERENCING NEW TABLE AS fresh "
            f"FOR EACH STATEMENT EXECUTE FUNCTION twinraven_tell_{_named(table, act, about)}('{topic}')"
            for act in _ACTS
        ),
    ]


def _function(column: str) -> str:
    """Return a function for one column: the plan of a fixed statement is kept, one put together each time is not.

    A statement that changed no row tells nothing.
    """
    return f"""
CREATE FUNCTION twinraven_tell_{column}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    whole text := TG_ARGV[0] || ' ' || current_setting('{TENANT_SETTING}', true);
    named text[] := ARRAY(SELECT DISTINCT {column} FROM fresh LIMIT {_MOST_NAMED + 1});
    each text;
BEGIN
    IF cardinality(named) > {_MOST_NAMED} THEN
        PERFORM pg_notify('twinraven_changes', whole);
        RETURN NULL;
    END IF;
    FOREACH each IN ARRAY named LOOP
        PERFORM pg_notify(
            'twinraven_changes', CASE WHEN octet_length(each) <= {_LONGEST} THEN whole || ' ' || each ELSE whole END
        );
    END LOOP;
    RETURN NULL;
END $$
"""
