"""Creates accepted definitions of upstream tools, and their classification.

A row holds the words a server used when its tool was accepted, and its newer words as long as nobody accepted those;
while there are newer words, the tool is in quarantine. What a tool does to the world is said by its owner, apart from
the words: accepting a description does not make a tool harmless.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl


def upgrade(ddl: Ddl) -> None:
    ddl.table(
        "upstream_tools",
        """
        tenant_id TEXT NOT NULL,
        server TEXT NOT NULL,
        name TEXT NOT NULL,
        tool_id TEXT NOT NULL CHECK (length(tool_id) <= 256),
        definition TEXT NOT NULL,
        definition_hash TEXT NOT NULL,
        changed_definition TEXT,
        changed_hash TEXT,
        present INTEGER NOT NULL CHECK (present IN (0, 1)),
        pinned_at INTEGER NOT NULL,
        pinned_by TEXT NOT NULL,
        seen_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, server, name),
        UNIQUE (tenant_id, tool_id),
        CHECK ((changed_definition IS NULL) = (changed_hash IS NULL))
        """,
    )
    ddl.table(
        "tool_classifications",
        """
        tenant_id TEXT NOT NULL,
        tool_id TEXT NOT NULL CHECK (length(tool_id) <= 256),
        effect TEXT NOT NULL CHECK (effect IN ('read', 'write')),
        sensitivity TEXT NOT NULL CHECK (sensitivity IN ('low', 'medium', 'high')),
        classified_by TEXT NOT NULL,
        classified_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, tool_id)
        """,
    )
