"""Creates services, data-defined tools, and their templates.

What never changes about them is refused here, whoever asks: their owner, what a service is, which service a tool is
bound to, a template's structure. A tool's secret belongs to the tool's owner because the reference says so, and what is
disabled is never healthy.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse

_HEALTH = """
        enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
        shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
        status TEXT NOT NULL CHECK (status IN ('healthy', 'degraded', 'down')),
        last_health_check INTEGER,
        error_message TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        CHECK (enabled = 1 OR status <> 'healthy')
"""
_OWNED = "FOREIGN KEY (tenant_id, owner_id) REFERENCES users (tenant_id, user_id)"


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "catalog_services",
        f"""
        tenant_id TEXT NOT NULL,
        service_id TEXT NOT NULL,
        owner_id TEXT NOT NULL,
        name TEXT NOT NULL,
        type TEXT NOT NULL CHECK (type IN ('neo4j_graph', 'rest_api', 'llm_provider', 'mcp_server')),
        protocol TEXT NOT NULL CHECK (protocol IN ('bolt', 'bolt+s', 'http', 'https', 'stdio', 'sse')),
        connection_schema TEXT NOT NULL,
        schema_version INTEGER NOT NULL CHECK (schema_version >= 1),
        requires_secret INTEGER NOT NULL CHECK (requires_secret IN (0, 1)),
        service_template_id TEXT,
        {_HEALTH},
        PRIMARY KEY (tenant_id, service_id),
        UNIQUE (tenant_id, owner_id, name),
        {_OWNED}
        """,
    )
    ddl.run("CREATE UNIQUE INDEX secrets_of_owner ON secrets (tenant_id, owner_id, secret_id)")
    ddl.table(
        "catalog_tools",
        f"""
        tenant_id TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        tool_key TEXT NOT NULL CHECK (length(tool_key) <= 256),
        owner_id TEXT NOT NULL,
        service_id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        connection_params TEXT NOT NULL,
        operation TEXT NOT NULL,
        input_schema TEXT NOT NULL,
        output_schema TEXT,
        effect TEXT CHECK (effect IN ('read', 'write', 'unknown')),
        sensitivity TEXT NOT NULL CHECK (sensitivity IN ('low', 'medium', 'high')),
        timeout_ms INTEGER CHECK (timeout_ms >= 1),
        secret_id TEXT,
        tool_template_id TEXT,
        {_HEALTH},
        PRIMARY KEY (tenant_id, tool_id),
        UNIQUE (tenant_id, tool_key),
        {_OWNED},
        FOREIGN KEY (tenant_id, service_id) REFERENCES catalog_services (tenant_id, service_id),
        FOREIGN KEY (tenant_id, owner_id, secret_id) REFERENCES secrets (tenant_id, owner_id, secret_id)
        """,
    )
    ddl.table(
        "catalog_templates",
        f"""
        tenant_id TEXT NOT NULL,
        template_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('service', 'tool')),
        owner_id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT,
        structure TEXT NOT NULL,
        shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
        archived INTEGER NOT NULL CHECK (archived IN (0, 1)),
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        state_version INTEGER NOT NULL CHECK (state_version >= 1),
        PRIMARY KEY (tenant_id, template_id),
        UNIQUE (tenant_id, kind, owner_id, name),
        {_OWNED}
        """,
    )
    ddl.run(
        "CREATE INDEX catalog_tools_service ON catalog_tools (tenant_id, service_id)",
        "CREATE INDEX catalog_tools_secret ON catalog_tools (tenant_id, secret_id)",
    )
    _refuse_what_never_happens(ddl)


def _refuse_what_never_happens(ddl: Ddl) -> None:
    service = "tenant_id, service_id, owner_id, type, protocol, requires_secret, service_template_id, created_at"
    tool = "tenant_id, tool_id, tool_key, owner_id, service_id, tool_template_id, created_at"
    template = "tenant_id, template_id, kind, owner_id, structure, created_at"
    refuse(ddl, "catalog_services", f"UPDATE OF {service}", name="fixed")
    refuse(ddl, "catalog_tools", f"UPDATE OF {tool}", name="fixed")
    refuse(ddl, "catalog_templates", f"UPDATE OF {template}", name="fixed")
    refuse(ddl, "catalog_templates", "DELETE", name="no_delete")
    for table, counter in (("catalog_services", "schema_version"), ("catalog_tools", "state_version")):
        refuse(ddl, table, f"UPDATE OF {counter}", when=f"NEW.{counter} < OLD.{counter}", name="no_return")
