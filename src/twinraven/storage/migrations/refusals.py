"""Installs triggers finer than "append-only": a column that never changes, a row that is never removed or goes back.

A whole table is closed with `Ddl.table(…, append_only=…)`. Some tables are only partly history: a secret may be renamed
but not change hands, the body of an audit entry may be erased but not edited. Each of these is one trigger, and the two
stores spell it differently here and nowhere else.
"""

from __future__ import annotations

from twinraven.storage.guards import GUARD_MESSAGE
from twinraven.storage.migrations import Ddl


def refuse(ddl: Ddl, table: str, action: str, *, when: str | None = None, name: str) -> None:
    """Refuse `action` ("DELETE", "UPDATE", "UPDATE OF owner_id, type") on a table, where `when` says so."""
    condition = "" if when is None else f"WHEN ({when}) "
    verdict = (
        "EXECUTE FUNCTION twinraven_refuse_change()"
        if ddl.dialect == "postgres"
        else f"BEGIN SELECT RAISE(ABORT, '{GUARD_MESSAGE}: {table} refuses {action}'); END"
    )
    ddl.run(f"CREATE TRIGGER {table}_{name} BEFORE {action} ON {table} FOR EACH ROW {condition}{verdict}")


def refuse_replacing(ddl: Ddl, table: str, *key: str) -> None:
    """Refuse SQLite's INSERT OR REPLACE, which removes the row it replaces without firing a DELETE trigger."""
    if ddl.dialect == "sqlite":
        same = " AND ".join(f"{column} = NEW.{column}" for column in key)
        refuse(ddl, table, "INSERT", when=f"EXISTS (SELECT 1 FROM {table} WHERE {same})", name="no_replace")
