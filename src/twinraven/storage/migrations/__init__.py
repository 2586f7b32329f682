"""Migrates the schema, in numbered steps that run on both databases and are never edited once released.

A step is written once, in DDL that both understand: `{serial}` stands for a growing key and `{bytes}` for binary data.
`append_only` and `tenant_scoped` add what each store needs to enforce them. All pending steps run in one transaction:
a database is at one version or the other, never between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from twinraven.foundation.clock import now_micros
from twinraven.storage.database import Dialect, Transaction
from twinraven.storage.guards import APP_ROLE, APPEND_ONLY_TABLES, postgres_fence, postgres_guards, sqlite_guards
from twinraven.storage.migrations.vector_column import ADD_VECTOR_COLUMN

STEPS = (
    "m0001_memory",
    "m0002_tenancy",
    "m0003_vault",
    "m0004_audit",
    "m0005_registry",
    "m0006_retention",
    "m0007_upstreams",
    "m0008_catalog",
    "m0009_approvals",
    "m0010_approved_definitions",
    "m0011_learning_rounds",
    "m0012_actors",
    "m0013_requesters",
    "m0014_changes",
    "m0015_runs",
    "m0016_knowledge",
    "m0017_processes",
    "m0018_plans",
    "m0019_governance",
    "m0020_effects",
    "m0021_conversations",
    "m0022_summaries",
    "m0023_metrics",
    "m0024_sign_ins",
    "m0025_worker_types",
    "m0026_tenant_references",
    "m0027_corrections",
    "m0028_graph_progress",
    "m0029_work_changes",
    "m0030_references",
    "m0031_extraction_progress",
    "m0032_effects_fixed",
    "m0033_activity",
    "m0034_health_history",
    "m0035_kept_figures",
    "m0036_held_spans",
    "m0037_marks_of_use",
    "m0038_change_notes",
)
"""In order; the number in the name is the version."""

_TYPES: dict[Dialect, dict[str, str]] = {
    "sqlite": {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "strict": "STRICT"},
    "postgres": {"serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytes": "BYTEA", "strict": ""},
}
_POSTGRES_INTEGER = ("INTEGER", "BIGINT")
_LOCK = 7_263_118_004


class Ddl:
    """The DDL statements that a migration step may use."""

    def __init__(self, dialect: Dialect, run: Callable[[str], Any]) -> None:
        self.dialect: Dialect = dialect
        self._run = run

    def table(
        self, name: str, body: str, *, append_only: Sequence[Sequence[str]] | None = None, clustered: bool = False
    ) -> None:
        """Create a tenant's table; `append_only` names its unique keys and closes it to change.

        `clustered` keeps the rows in the order of their key, where the store can: for small rows that are read by it.
        """
        types = _TYPES[self.dialect]
        text = body.format(**types)
        if self.dialect == "postgres":
            text = text.replace(*_POSTGRES_INTEGER)
        options = f"{types['strict']}, WITHOUT ROWID" if clustered and self.dialect == "sqlite" else types["strict"]
        self._run(f"CREATE TABLE {name} ({text}) {options}")
        guarded = append_only is not None
        if guarded != (name in APPEND_ONLY_TABLES):
            raise AssertionError(f"{name}: guards.APPEND_ONLY_TABLES and its migration disagree")
        if self.dialect == "sqlite":
            self.run(*(sqlite_guards(name, append_only) if append_only is not None else ()))
        else:
            self.run(*(postgres_guards(name) if guarded else ()), *postgres_fence(name, append_only=guarded))

    def view(self, name: str, query: str) -> None:
        secure = "WITH (security_invoker = true) " if self.dialect == "postgres" else ""
        self._run(f"CREATE VIEW {name} {secure}AS {query}")
        if self.dialect == "postgres":
            self._run(f"GRANT SELECT ON {name} TO {APP_ROLE}")

    def run(self, *statements: str) -> None:
        """Statements both stores understand."""
        for statement in statements:
            self._run(statement)


def latest() -> int:
    return _number(STEPS[-1])


def _number(step: str) -> int:
    return int(step[1:5])


def applied_migrations(tx: Transaction) -> dict[int, str]:
    """Return the applied migrations; empty for a new database."""
    exists = (
        "SELECT 1 AS found FROM sqlite_master WHERE name = 'schema_migrations'"
        if tx.dialect == "sqlite"
        else "SELECT 1 AS found FROM pg_tables WHERE tablename = 'schema_migrations' AND schemaname = current_schema()"
    )
    if tx.fetch_one(exists) is None:
        return {}
    rows = tx.fetch_all("SELECT version, name FROM schema_migrations ORDER BY version")
    return {row["version"]: row["name"] for row in rows}


def upgrade(tx: Transaction) -> list[str]:
    """Run every step this database lacks, inside the caller's transaction."""
    if tx.dialect == "postgres":
        tx.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
    done = applied_migrations(tx)
    ddl = Ddl(tx.dialect, tx.execute)
    if not done:
        _prepare(ddl)
    pending = [step for step in STEPS if _number(step) not in done]
    for step in pending:
        import_module(f"twinraven.storage.migrations.{step}").upgrade(ddl)
        tx.execute(
            "INSERT INTO schema_migrations (version, name, applied_at) VALUES (:version, :name, :applied_at)",
            version=_number(step),
            name=step,
            applied_at=now_micros(),
        )
    if tx.dialect == "postgres":
        tx.execute(ADD_VECTOR_COLUMN)
    return pending


def _prepare(ddl: Ddl) -> None:
    if ddl.dialect == "postgres":
        ddl.run(
            f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{APP_ROLE}') "
            f"THEN CREATE ROLE {APP_ROLE} NOLOGIN; END IF; "
            # Another database of the same cluster may be creating it at this moment.
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
            f"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO {APP_ROLE}', current_schema()); END $$",
            "CREATE OR REPLACE FUNCTION twinraven_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'append-only: % refuses %', TG_TABLE_NAME, TG_OP; END $$",
        )
    ddl.run(
        "CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)"
    )
    if ddl.dialect == "postgres":
        ddl.run(f"GRANT SELECT ON schema_migrations TO {APP_ROLE}")
