"""Creates summaries, introspection notes and vectors of episodes, and adds enrichment to entities.

A summary's links never change: which episodes it sums up, how far it covers, which process made it. Its content is an
episode; a repair binds a further one and keeps those before. A note has a position of its user's carousel until it is
archived, and no two current notes have the same. Conversations, turns and alternatives are named by their ids.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse


def upgrade(ddl: Ddl) -> None:
    _summaries(ddl)
    _compressions(ddl)
    _introspections(ddl)
    _entities(ddl)
    ddl.table(
        "episode_vectors",
        """
        tenant_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        model TEXT NOT NULL,
        data {bytes} NOT NULL,
        PRIMARY KEY (tenant_id, group_id, model, seq)
        """,
    )


def _summaries(ddl: Ddl) -> None:
    ddl.table(
        "summaries",
        """
        tenant_id TEXT NOT NULL,
        summary_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        level INTEGER NOT NULL CHECK (level >= 1),
        covers TEXT NOT NULL,
        covers_up_to_turn TEXT,
        covers_up_to_alternative TEXT,
        process_id TEXT NOT NULL,
        process_version INTEGER NOT NULL,
        run_id TEXT,
        token_count INTEGER NOT NULL CHECK (token_count >= 0),
        created_by TEXT,
        created_at INTEGER NOT NULL,
        deleted_at INTEGER,
        deleted_by TEXT,
        PRIMARY KEY (tenant_id, summary_id)
        """,
    )
    fixed = (
        "tenant_id, summary_id, group_id, level, covers, process_id, process_version, run_id, created_by, created_at"
    )
    refuse(ddl, "summaries", f"UPDATE OF {fixed}", name="fixed")
    refuse(
        ddl,
        "summaries",
        "UPDATE OF covers_up_to_turn, covers_up_to_alternative",
        when="OLD.covers_up_to_turn IS NOT NULL",
        name="covered",
    )
    refuse(ddl, "summaries", "DELETE", name="kept")
    ddl.table(
        "summary_sources",
        """
        tenant_id TEXT NOT NULL,
        summary_id TEXT NOT NULL,
        place INTEGER NOT NULL,
        episode_id TEXT NOT NULL,
        PRIMARY KEY (tenant_id, summary_id, place),
        FOREIGN KEY (tenant_id, summary_id) REFERENCES summaries (tenant_id, summary_id)
        """,
        append_only=[("tenant_id", "summary_id", "place")],
    )
    ddl.table(
        "summary_contents",
        """
        tenant_id TEXT NOT NULL,
        summary_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        episode_id TEXT NOT NULL,
        bound_at INTEGER NOT NULL,
        bound_by TEXT,
        PRIMARY KEY (tenant_id, summary_id, number),
        FOREIGN KEY (tenant_id, summary_id) REFERENCES summaries (tenant_id, summary_id)
        """,
        append_only=[("tenant_id", "summary_id", "number")],
    )
    ddl.run(
        "CREATE INDEX summaries_group ON summaries (tenant_id, group_id, created_at)",
        "CREATE INDEX summary_contents_episode ON summary_contents (tenant_id, episode_id)",
    )


def _compressions(ddl: Ddl) -> None:
    ddl.table(
        "compressions",
        """
        tenant_id TEXT NOT NULL,
        compression_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        number INTEGER NOT NULL CHECK (number >= 1),
        user_id TEXT NOT NULL,
        wish TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed')),
        summary_id TEXT,
        error TEXT,
        created_at INTEGER NOT NULL,
        ended_at INTEGER,
        PRIMARY KEY (tenant_id, compression_id),
        UNIQUE (tenant_id, group_id, number)
        """,
    )
    refuse(ddl, "compressions", "DELETE", name="kept")


def _introspections(ddl: Ddl) -> None:
    ddl.table(
        "introspections",
        """
        tenant_id TEXT NOT NULL,
        introspection_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        position INTEGER NOT NULL CHECK (position >= 0),
        number INTEGER NOT NULL,
        conversation_context TEXT,
        made_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        archived_at INTEGER,
        archived_because TEXT CHECK (archived_because IN ('replaced', 'deleted')),
        PRIMARY KEY (tenant_id, introspection_id),
        UNIQUE (tenant_id, user_id, number)
        """,
    )
    ddl.run(
        "CREATE UNIQUE INDEX introspections_current ON introspections (tenant_id, user_id, position) "
        "WHERE archived_at IS NULL"
    )
    refuse(
        ddl,
        "introspections",
        "UPDATE OF tenant_id, introspection_id, user_id, position, number, conversation_context, made_by, created_at",
        name="fixed",
    )
    refuse(ddl, "introspections", "DELETE", name="kept")
    ddl.table(
        "introspection_contents",
        """
        tenant_id TEXT NOT NULL,
        introspection_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        episode_id TEXT NOT NULL,
        bound_at INTEGER NOT NULL,
        bound_by TEXT,
        PRIMARY KEY (tenant_id, introspection_id, number),
        FOREIGN KEY (tenant_id, introspection_id) REFERENCES introspections (tenant_id, introspection_id)
        """,
        append_only=[("tenant_id", "introspection_id", "number")],
    )
    ddl.table(
        "reflections",
        """
        tenant_id TEXT NOT NULL,
        reflection_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        first_compression INTEGER NOT NULL,
        last_compression INTEGER NOT NULL,
        replaces INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed')),
        error TEXT,
        created_at INTEGER NOT NULL,
        ended_at INTEGER,
        PRIMARY KEY (tenant_id, reflection_id)
        """,
    )
    ddl.run("CREATE INDEX reflections_group ON reflections (tenant_id, group_id, last_compression)")


def _entities(ddl: Ddl) -> None:
    ddl.run(
        "ALTER TABLE entities ADD COLUMN enrichment TEXT",
        f"ALTER TABLE entities ADD COLUMN enriched_at {'BIGINT' if ddl.dialect == 'postgres' else 'INTEGER'}",
        "ALTER TABLE entities ADD COLUMN enriched_by TEXT",
        f"ALTER TABLE entities ADD COLUMN enriched_edges {'BIGINT' if ddl.dialect == 'postgres' else 'INTEGER'}",
    )
    ddl.table(
        "entity_places",
        """
        tenant_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        entity_id TEXT NOT NULL,
        is_active INTEGER NOT NULL CHECK (is_active IN (0, 1)),
        include_summary INTEGER NOT NULL CHECK (include_summary IN (0, 1)),
        include_facets INTEGER NOT NULL CHECK (include_facets IN (0, 1)),
        include_relationships INTEGER NOT NULL CHECK (include_relationships IN (0, 1)),
        added_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, group_id, entity_id),
        FOREIGN KEY (tenant_id, entity_id) REFERENCES entities (tenant_id, entity_id)
        """,
    )
