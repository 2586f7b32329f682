"""Creates conversations, their turns and alternatives, and the outcomes of alternatives.

Keys carry what must agree, so that the database holds it: a turn and its parent are of one conversation and one deeper,
an alternative answers an alternative of its turn's parent, only an agent's is made by a process, in a version that was
saved. One active alternative per turn is a partial unique index. What an alternative came to, content or error, is one
row that is added once: an answer that ended cannot fail, and one that failed cannot end. `alternative_pieces` holds the
text of answers that are under way, and nothing of those that have ended.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse, refuse_replacing


def upgrade(ddl: Ddl) -> None:
    _conversations(ddl)
    _turns(ddl)
    _alternatives(ddl)
    _outcomes(ddl)


def _conversations(ddl: Ddl) -> None:
    ddl.table(
        "conversations",
        """
        tenant_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        title TEXT,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        owner_id TEXT NOT NULL,
        default_process TEXT,
        default_since INTEGER,
        forked_from TEXT,
        origin_turn TEXT,
        origin_alternative TEXT,
        current_turn TEXT,
        ingestion TEXT,
        compression TEXT,
        changes INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, conversation_id),
        FOREIGN KEY (tenant_id, default_process) REFERENCES processes (tenant_id, process_id),
        FOREIGN KEY (tenant_id, forked_from) REFERENCES conversations (tenant_id, conversation_id),
        CHECK ((default_process IS NULL) = (default_since IS NULL)),
        CHECK ((forked_from IS NULL) = (origin_turn IS NULL)),
        CHECK ((forked_from IS NULL) = (origin_alternative IS NULL))
        """,
    )
    ddl.run(
        "CREATE INDEX conversations_updated ON conversations (tenant_id, updated_at, conversation_id)",
        "CREATE INDEX conversations_process ON conversations (tenant_id, default_process)",
    )
    fixed = "tenant_id, conversation_id, owner_id, forked_from, origin_turn, origin_alternative, created_at"
    refuse(ddl, "conversations", f"UPDATE OF {fixed}", name="fixed")
    refuse(ddl, "conversations", "DELETE", name="kept")
    refuse_replacing(ddl, "conversations", "tenant_id", "conversation_id")


_VIA = (
    "FOREIGN KEY (tenant_id, parent_turn, via_alternative) REFERENCES alternatives (tenant_id, turn_id, alternative_id)"
)


def _turns(ddl: Ddl) -> None:
    # SQLite takes a reference to a table that comes later, Postgres a key that is added when the table is there.
    via = f"{_VIA}," if ddl.dialect == "sqlite" else ""
    ddl.table(
        "conversation_turns",
        f"""
        tenant_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        speaker TEXT NOT NULL CHECK (speaker IN ('user', 'agent', 'system')),
        turn_type TEXT NOT NULL CHECK (turn_type IN ('message', 'tool_result', 'summary')),
        sequence INTEGER NOT NULL CHECK (sequence >= 1),
        parent_turn TEXT,
        parent_sequence INTEGER,
        parent_key TEXT NOT NULL,
        via_alternative TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, turn_id),
        UNIQUE (tenant_id, conversation_id, number),
        UNIQUE (tenant_id, conversation_id, turn_id, sequence),
        UNIQUE (tenant_id, conversation_id, turn_id, parent_key, speaker),
        FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations (tenant_id, conversation_id),
        FOREIGN KEY (tenant_id, conversation_id, parent_turn, parent_sequence)
            REFERENCES conversation_turns (tenant_id, conversation_id, turn_id, sequence),
        {via}
        CHECK (parent_key = COALESCE(parent_turn, '')),
        CHECK ((parent_turn IS NULL) = (via_alternative IS NULL)),
        CHECK ((parent_turn IS NULL) = (parent_sequence IS NULL)),
        CHECK (sequence = COALESCE(parent_sequence, 0) + 1)
        """,
        append_only=[("tenant_id", "turn_id"), ("tenant_id", "conversation_id", "number")],
    )
    ddl.run("CREATE INDEX conversation_turns_parent ON conversation_turns (tenant_id, parent_turn)")


def _alternatives(ddl: Ddl) -> None:
    ddl.table(
        "alternatives",
        """
        tenant_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        alternative_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        speaker TEXT NOT NULL,
        sequence INTEGER NOT NULL CHECK (sequence >= 1),
        is_active INTEGER NOT NULL CHECK (is_active IN (0, 1)),
        parent_turn TEXT,
        parent_key TEXT NOT NULL,
        responds_to TEXT,
        process_id TEXT,
        process_version INTEGER,
        run_id TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, alternative_id),
        UNIQUE (tenant_id, conversation_id, number),
        UNIQUE (tenant_id, conversation_id, alternative_id),
        UNIQUE (tenant_id, turn_id, alternative_id),
        UNIQUE (tenant_id, turn_id, sequence),
        FOREIGN KEY (tenant_id, conversation_id, turn_id, parent_key, speaker)
            REFERENCES conversation_turns (tenant_id, conversation_id, turn_id, parent_key, speaker),
        FOREIGN KEY (tenant_id, parent_turn, responds_to) REFERENCES alternatives (tenant_id, turn_id, alternative_id),
        FOREIGN KEY (tenant_id, process_id, process_version)
            REFERENCES process_versions (tenant_id, process_id, version),
        CHECK (parent_key = COALESCE(parent_turn, '')),
        CHECK ((parent_turn IS NULL) = (responds_to IS NULL)),
        CHECK ((speaker = 'agent') = (process_id IS NOT NULL)),
        CHECK ((process_id IS NULL) = (process_version IS NULL))
        """,
    )
    if ddl.dialect == "postgres":
        ddl.run(f"ALTER TABLE conversation_turns ADD {_VIA}")
    ddl.run(
        "CREATE UNIQUE INDEX alternatives_active ON alternatives (tenant_id, turn_id) WHERE is_active = 1",
        "CREATE INDEX alternatives_answers ON alternatives (tenant_id, responds_to, is_active, number)",
        "CREATE INDEX alternatives_process ON alternatives (tenant_id, process_id)",
    )
    fixed = (
        "tenant_id, conversation_id, turn_id, alternative_id, number, speaker, sequence, parent_turn, parent_key, "
        "responds_to, process_id, process_version, run_id, created_at"
    )
    refuse(ddl, "alternatives", f"UPDATE OF {fixed}", name="fixed")
    refuse(ddl, "alternatives", "DELETE", name="kept")
    refuse_replacing(ddl, "alternatives", "tenant_id", "alternative_id")


def _outcomes(ddl: Ddl) -> None:
    of_alternative = """
        PRIMARY KEY (tenant_id, alternative_id),
        FOREIGN KEY (tenant_id, conversation_id, alternative_id)
            REFERENCES alternatives (tenant_id, conversation_id, alternative_id)"""
    ddl.table(
        "alternative_outcomes",
        f"""
        tenant_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        alternative_id TEXT NOT NULL,
        content TEXT,
        error TEXT,
        tokens INTEGER NOT NULL CHECK (tokens >= 0),
        settled_at INTEGER NOT NULL,
        CHECK ((content IS NULL) <> (error IS NULL)),
        {of_alternative}
        """,
        append_only=[("tenant_id", "alternative_id")],
    )
    ddl.table(
        "alternative_episodes",
        f"""
        tenant_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        alternative_id TEXT NOT NULL,
        episode_id TEXT NOT NULL,
        source TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        UNIQUE (tenant_id, episode_id),
        {of_alternative}
        """,
        append_only=[("tenant_id", "alternative_id"), ("tenant_id", "episode_id")],
    )
    ddl.table(
        "alternative_quotes",
        """
        tenant_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        alternative_id TEXT NOT NULL,
        position INTEGER NOT NULL CHECK (position >= 0),
        quoted_alternative TEXT NOT NULL CHECK (quoted_alternative <> alternative_id),
        PRIMARY KEY (tenant_id, alternative_id, position),
        UNIQUE (tenant_id, alternative_id, quoted_alternative),
        FOREIGN KEY (tenant_id, conversation_id, alternative_id)
            REFERENCES alternatives (tenant_id, conversation_id, alternative_id),
        FOREIGN KEY (tenant_id, conversation_id, quoted_alternative)
            REFERENCES alternatives (tenant_id, conversation_id, alternative_id)
        """,
        append_only=[
            ("tenant_id", "alternative_id", "position"),
            ("tenant_id", "alternative_id", "quoted_alternative"),
        ],
    )
    ddl.table(
        "alternative_pieces",
        """
        tenant_id TEXT NOT NULL,
        alternative_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (tenant_id, alternative_id, attempt, number),
        FOREIGN KEY (tenant_id, alternative_id) REFERENCES alternatives (tenant_id, alternative_id)
        """,
    )
