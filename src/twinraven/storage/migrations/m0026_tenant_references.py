"""Makes the database refuse rows of a tenant that does not exist, and calls inside a call of another tenant.

Tables that already lead to a tenant by a reference to another table need nothing here. The outer call of a composite is
stored after the calls inside it, so its id may lead nowhere for a while; what is refused is an id that another tenant
has. To be found by that id alone the unique index of the log begins with it.

On Postgres row-level security hides other tenants' calls, so the check runs as the owner of the log, to whom a policy
shows them inside the check alone. Rows from before are left as they are on both stores.
"""

from __future__ import annotations

from twinraven.storage.guards import FENCE_MESSAGE
from twinraven.storage.migrations import Ddl

_TABLES = (
    *("muninn_event_log", "blobs", "session_verdicts", "retention_notes", "audit_log", "audit_heads", "vault_state"),
    *("idempotency_claims", "approvals", "candidate_chains", "learning_rounds", "rejections", "tool_records"),
    *("catalog_version", "registry_state", "upstream_tools", "tool_classifications", "processes", "process_versions"),
    *("runs", "run_steps", "run_waits", "run_dispatch", "memory_entries", "conversations"),
    *("knowledge_groups", "episodes", "episode_vectors", "knowledge_postings", "summaries", "compressions"),
    *("entities", "entity_proposals", "entity_merges", "introspections", "reflections"),
    *("metric_definitions", "metric_collections"),
)
_FOREIGN_PARENT = """NEW.parent_event_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM muninn_event_log e
                    WHERE e.event_id = NEW.parent_event_id AND e.tenant_id = NEW.tenant_id)
    AND EXISTS (SELECT 1 FROM muninn_event_log e WHERE e.event_id = NEW.parent_event_id)"""
_NO_EVENT = f"parent_event_id: {FENCE_MESSAGE}"


def upgrade(ddl: Ddl) -> None:
    for table in _TABLES:
        _require_tenant(ddl, table)
    ddl.run(
        "DROP INDEX muninn_event_log_id",
        "CREATE UNIQUE INDEX muninn_event_log_id ON muninn_event_log (event_id, tenant_id)",
    )
    if ddl.dialect == "sqlite":
        ddl.run(
            f"CREATE TRIGGER muninn_event_log_parent_fence BEFORE INSERT ON muninn_event_log WHEN {_FOREIGN_PARENT} "
            f"BEGIN SELECT RAISE(ABORT, '{_NO_EVENT}'); END"
        )
    else:
        _fence_parents(ddl)


def _require_tenant(ddl: Ddl, table: str) -> None:
    if ddl.dialect == "postgres":
        ddl.run(
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_tenant_exists "
            "FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id) NOT VALID"
        )
        return
    for action, name in (("INSERT", "made"), ("UPDATE OF tenant_id", "moved")):
        ddl.run(
            f"CREATE TRIGGER {table}_tenant_exists_{name} BEFORE {action} ON {table} "
            "WHEN NOT EXISTS (SELECT 1 FROM tenants WHERE tenant_id = NEW.tenant_id) "
            f"BEGIN SELECT RAISE(ABORT, 'FOREIGN KEY constraint failed: {table} names a tenant that does not exist'); "
            "END"
        )


def _fence_parents(ddl: Ddl) -> None:
    ddl.run(
        "CREATE FUNCTION twinraven_fence_parent() RETURNS trigger LANGUAGE plpgsql "
        "SECURITY DEFINER SET search_path FROM CURRENT AS "
        f"$$ BEGIN PERFORM set_config('twinraven.fence', 'on', true); IF {_FOREIGN_PARENT} THEN "
        f"RAISE EXCEPTION '{_NO_EVENT}' USING ERRCODE = 'foreign_key_violation'; END IF; "
        "PERFORM set_config('twinraven.fence', 'off', true); RETURN NEW; END $$",
        "CREATE POLICY muninn_event_log_fence ON muninn_event_log FOR SELECT TO CURRENT_USER "
        "USING (current_setting('twinraven.fence', true) = 'on')",
        "CREATE TRIGGER muninn_event_log_parent_fence BEFORE INSERT ON muninn_event_log FOR EACH ROW "
        "WHEN (NEW.parent_event_id IS NOT NULL) EXECUTE FUNCTION twinraven_fence_parent()",
    )
