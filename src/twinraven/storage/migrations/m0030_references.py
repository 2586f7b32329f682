"""Makes the database refuse references into another tenant that no key guarded, and keeps what a tool's secret is for.

A step, a wait and a job belong to a run; compressions and conversations to a user; merges and proposals to entities;
tools and services may come from a template. What is looked up is the id together with the tenant, so an id of another
tenant is refused. The row that is named leads to its tenant by itself, so the check for the tenant alone is dropped,
and a step costs one look-up as before. Notes may be about people who are no users. Rows from before are left as they
are.
"""

from __future__ import annotations

from typing import Final

from twinraven.storage.migrations import Ddl

_REFERENCES: Final = (
    ("run_steps", "run_id", "runs", "run_id"),
    ("run_waits", "run_id", "runs", "run_id"),
    ("run_dispatch", "run_id", "runs", "run_id"),
    ("conversations", "owner_id", "users", "user_id"),
    ("compressions", "user_id", "users", "user_id"),
    ("entity_proposals", "first_id", "entities", "entity_id"),
    ("entity_proposals", "second_id", "entities", "entity_id"),
    ("entity_merges", "kept_id", "entities", "entity_id"),
    ("entity_merges", "gone_id", "entities", "entity_id"),
)
_OPTIONAL: Final = (
    ("entities", "merged_into", "entities", "entity_id"),
    ("entity_facts", "object_id", "entities", "entity_id"),
    ("compressions", "summary_id", "summaries", "summary_id"),
    ("catalog_services", "service_template_id", "catalog_templates", "template_id"),
    ("catalog_tools", "tool_template_id", "catalog_templates", "template_id"),
)
"""References that may be missing, so that they say nothing of the tenant."""


def upgrade(ddl: Ddl) -> None:
    ddl.run(
        "ALTER TABLE catalog_tools ADD COLUMN secret_scope TEXT CHECK (secret_scope IS NULL OR secret_id IS NOT NULL)"
    )
    for table in dict.fromkeys(table for table, *_ in _REFERENCES):
        _drop_tenant_check(ddl, table)
    for reference in (*_REFERENCES, *_OPTIONAL):
        _require(ddl, *reference)


def _drop_tenant_check(ddl: Ddl, table: str) -> None:
    """Drop the check that a tenant is there: the row that is named has one."""
    if ddl.dialect == "postgres":
        ddl.run(f"ALTER TABLE {table} DROP CONSTRAINT {table}_tenant_exists")
        return
    ddl.run(f"DROP TRIGGER {table}_tenant_exists_made", f"DROP TRIGGER {table}_tenant_exists_moved")


def _require(ddl: Ddl, table: str, column: str, named: str, key: str) -> None:
    if ddl.dialect == "postgres":
        ddl.run(
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_{column}_within "
            f"FOREIGN KEY (tenant_id, {column}) REFERENCES {named} (tenant_id, {key}) NOT VALID"
        )
        return
    complaint = f"FOREIGN KEY constraint failed: {table}.{column} names nothing of its tenant"
    for action, name in (("INSERT", "made"), (f"UPDATE OF tenant_id, {column}", "moved")):
        ddl.run(
            f"CREATE TRIGGER {table}_{column}_within_{name} BEFORE {action} ON {table} "
            f"WHEN NEW.{column} IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {named} WHERE tenant_id = NEW.tenant_id AND {key} = NEW.{column}) "
            f"BEGIN SELECT RAISE(ABORT, '{complaint}'); END"
        )
