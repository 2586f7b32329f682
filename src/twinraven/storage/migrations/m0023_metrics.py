"""Creates metric definitions and reported values.

A value never changes. It is deleted only after it was marked as leaving, which retention does when its days are over,
and the deletion of a definition that is asked to take its values along.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse, refuse_replacing


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "metric_definitions",
        """
        tenant_id TEXT NOT NULL,
        metric_id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        scope TEXT NOT NULL CHECK (scope IN ('service', 'tool', 'process', 'conversation')),
        aggregation TEXT NOT NULL CHECK (aggregation IN ('sum', 'avg', 'min', 'max', 'count', 'last')),
        data_type TEXT NOT NULL CHECK (data_type IN ('integer', 'float', 'boolean', 'timestamp')),
        retention_days INTEGER CHECK (retention_days >= 1),
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, metric_id),
        UNIQUE (tenant_id, scope, name)
        """,
    )
    ddl.table(
        "metric_values",
        """
        tenant_id TEXT NOT NULL,
        metric_id TEXT NOT NULL,
        value_id TEXT NOT NULL,
        entity_id TEXT NOT NULL,
        value {number} NOT NULL,
        at INTEGER NOT NULL,
        leaves INTEGER NOT NULL DEFAULT 0 CHECK (leaves IN (0, 1)),
        PRIMARY KEY (tenant_id, metric_id, value_id),
        FOREIGN KEY (tenant_id, metric_id) REFERENCES metric_definitions (tenant_id, metric_id)
        """.replace("{number}", "DOUBLE PRECISION" if ddl.dialect == "postgres" else "REAL"),
    )
    refuse(ddl, "metric_values", "UPDATE OF tenant_id, metric_id, value_id, entity_id, value, at", name="fixed")
    refuse(ddl, "metric_values", "DELETE", when="OLD.leaves = 0", name="kept")
    refuse_replacing(ddl, "metric_values", "tenant_id", "metric_id", "value_id")
    ddl.table(
        "metric_dimensions",
        """
        tenant_id TEXT NOT NULL,
        metric_id TEXT NOT NULL,
        value_id TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (tenant_id, metric_id, value_id, name),
        FOREIGN KEY (tenant_id, metric_id, value_id) REFERENCES metric_values (tenant_id, metric_id, value_id)
            ON DELETE CASCADE
        """,
    )
    refuse(ddl, "metric_dimensions", "UPDATE", name="fixed")
    ddl.table(
        "metric_collections",
        """
        tenant_id TEXT NOT NULL,
        source TEXT NOT NULL,
        up_to INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, source)
        """,
    )
    ddl.run("CREATE INDEX metric_values_time ON metric_values (tenant_id, metric_id, at)")
