"""Names the queues of step jobs for worker types, and keeps the time limit of a run, which a retry has anew."""

from __future__ import annotations

from twinraven.storage.migrations import Ddl

_RENAMED = {"rest": "rest_api", "llm": "llm_call", "graph": "graph_query", "mcp_service": "mcp", "memory": "python"}


def upgrade(ddl: Ddl) -> None:
    integer = "INTEGER" if ddl.dialect == "sqlite" else "BIGINT"
    ddl.run(
        f"ALTER TABLE runs ADD COLUMN time_limit {integer}",
        "UPDATE runs SET time_limit = deadline_at - created_at WHERE deadline_at IS NOT NULL",
    )
    for connector, worker_type in _RENAMED.items():
        ddl.run(f"UPDATE run_dispatch SET queue = '{worker_type}' WHERE queue = '{connector}'")
