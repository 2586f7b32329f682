"""Every table has one package that may name it in SQL; whoever else needs its rows asks that package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import twinraven
from twinraven.storage import Database

_ROOT = Path(twinraven.__file__).parent

OWNERS = {
    "activity_failures": "muninn",
    "activity_marks": "muninn",
    "activity_outcomes": "muninn",
    "activity_pairs": "muninn",
    "activity_sessions": "muninn",
    "activity_tags": "muninn",
    "activity_tools": "muninn",
    "adoption_marks": "huginn",
    "adoption_sessions": "huginn",
    "alternative_episodes": "conversations",
    "alternative_outcomes": "conversations",
    "alternative_pieces": "conversations",
    "alternative_quotes": "conversations",
    "alternatives": "conversations",
    "api_keys": "tenancy",
    "approval_decisions": "calls",
    "approvals": "calls",
    "audit_bodies": "audit",
    "audit_heads": "audit",
    "audit_log": "audit",
    "blobs": "muninn",
    "budgets": "governance",
    "campaigns": "governance",
    "candidate_chains": "huginn",
    "catalog_services": "catalog",
    "catalog_templates": "catalog",
    "catalog_tools": "catalog",
    "catalog_version": "catalog",
    "change_notes": "storage",
    "compressions": "knowledge",
    "conversation_turns": "conversations",
    "conversations": "conversations",
    "drafts": "registry",
    "engine_schedules": "engine",
    "engine_workers": "engine",
    "entities": "knowledge",
    "entity_facts": "knowledge",
    "entity_mentions": "knowledge",
    "entity_merges": "knowledge",
    "entity_places": "knowledge",
    "entity_proposals": "knowledge",
    "envelopes": "governance",
    "episode_vectors": "knowledge",
    "episodes": "knowledge",
    "extraction_progress": "knowledge",
    "goals": "governance",
    "held_spans": "muninn",
    "graph_progress": "knowledge",
    "idempotency_claims": "calls",
    "inbox_reservations": "inbox",
    "introspection_contents": "knowledge",
    "introspections": "knowledge",
    "judge_decisions": "governance",
    "key_repeats": "calls",
    "knowledge_groups": "knowledge",
    "knowledge_postings": "knowledge",
    "learning_rounds": "huginn",
    "ledger_accounts": "ledger",
    "ledger_transfers": "ledger",
    "media_assets": "effects",
    "memory_entries": "plans",
    "metric_collections": "metrics",
    "metric_definitions": "metrics",
    "metric_dimensions": "metrics",
    "metric_values": "metrics",
    "muninn_event_log": "muninn",
    "muninn_events": "muninn",
    "outgoing_messages": "effects",
    "process_versions": "processes",
    "processes": "processes",
    "publish_events": "effects",
    "reflections": "knowledge",
    "registry_state": "registry",
    "rejections": "registry",
    "retention_notes": "muninn",
    "run_dispatch": "engine",
    "run_steps": "engine",
    "run_waits": "engine",
    "runs": "engine",
    "schema_migrations": "storage",
    "secret_versions": "vault",
    "secrets": "vault",
    "service_checks": "catalog",
    "session_verdicts": "muninn",
    "sign_ins": "tenancy",
    "summaries": "knowledge",
    "summary_contents": "knowledge",
    "summary_sources": "knowledge",
    "task_dependencies": "governance",
    "task_specs": "governance",
    "tasks": "governance",
    "tenants": "tenancy",
    "tool_classifications": "connectors",
    "tool_records": "registry",
    "tool_versions": "registry",
    "transactions": "effects",
    "upstream_tools": "connectors",
    "users": "tenancy",
    "vault_state": "vault",
    "wallets": "effects",
    "worker_results": "governance",
    "worker_runs": "governance",
}

ALLOWED = {
    # A seal hashes the rows as the database holds them, by columns that its form fixes for ever; audit stands below.
    ("audit/reads.py", "muninn_event_log"),
    # Counts are joined with the records they belong to in one statement, inside the transaction that folds them.
    ("registry/usage.py", "muninn_event_log"),
    # The artifacts of a result refer to media assets; effects, which keeps them, stands above governance.
    ("governance/work/result_sql.py", "media_assets"),
    # The chain behind a learned tool, and the events that chains are samples of; Huginn stands above both readers.
    ("registry/sql.py", "candidate_chains"),
    ("muninn/retention/sql.py", "candidate_chains"),
    # Whether an artifact of a result names an asset that is there, inside the transaction that takes the result.
    ("governance/work/result_sql.py", "media_assets"),
}

_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|JOIN|INTO)\b")
_ROWS = ("insert_rows", "insert_missing", "insert_appending", "_insert", "delete_rows", "stream")


def statements(tree: ast.AST) -> Iterator[str]:
    """Texts that are SQL, names of tables that a call is given, and constants that hold such a name; no docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in prose:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.search(node.value):
            yield node.value
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _ROWS:
                yield from (name for arg in node.args[:2] for name in _table(arg))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            # Of a bare word nobody can tell whether it is a table.
            yield from (name for name in _table(node.value) if "_" in name)


def _table(node: ast.AST | None) -> list[str]:
    value = node.value if isinstance(node, ast.Constant) else None
    return [value] if isinstance(value, str) and value in OWNERS else []


@cache
def named_in(path: Path) -> set[str]:
    words = {word for text in statements(ast.parse(path.read_text())) for word in re.findall(r"\w+", text)}
    return words & OWNERS.keys()


def test_every_table_has_an_owner(sqlite_database: Database) -> None:
    """The map of owners names every table and view that the migrations make, and no other."""
    with sqlite_database.connect().transaction("default", write=False) as tx:
        rows = tx.fetch_all("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    assert {row["name"] for row in rows if not row["name"].startswith("sqlite_")} == OWNERS.keys()


def test_only_the_owner_names_a_table() -> None:
    """No package has the tables of another in its SQL, but for the few reads that are stated with their reason."""
    found: set[tuple[str, str]] = set()
    for path in _ROOT.rglob("*.py"):
        where = path.relative_to(_ROOT)
        # The demo's shop has a database of its own.
        if where.parts[0] not in ("storage", "demo"):
            found |= {(str(where), table) for table in named_in(path) if OWNERS[table] != where.parts[0]}
    assert found == ALLOWED


def test_owners_do_name_their_tables() -> None:
    """The search finds what it looks for: each table is named by its owner."""
    named: set[str] = set()
    for path in _ROOT.rglob("*.py"):
        named |= {table for table in named_in(path) if OWNERS[table] == path.relative_to(_ROOT).parts[0]}
    assert named | {"schema_migrations"} == OWNERS.keys()
