"""Creates episodes, their postings, and entities with their facts, relations and merges.

An episode never changes. Long content lies in parts, rows that share a name; a group numbers its parts, and a search
knows them by that number. `knowledge_postings` holds for each term of a group the numbers of the parts that have it,
packed, 256 parts to a row and, when sixteen such rows are full, all of those in one. What a merge of entities moved is
kept as its record, so that it can be undone.
"""

from __future__ import annotations

from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.refusals import refuse

_CATEGORIES = "'Person', 'Organization', 'Project', 'Concept', 'Object', 'Event', 'Place'"


def upgrade(ddl: Ddl) -> None:
    _episodes(ddl)
    _entities(ddl)
    _duplicates(ddl)


def _episodes(ddl: Ddl) -> None:
    ddl.table(
        "knowledge_groups",
        """
        tenant_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        parts INTEGER NOT NULL,
        words INTEGER NOT NULL,
        session INTEGER NOT NULL,
        session_key TEXT NOT NULL,
        last_at INTEGER,
        speakers TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, group_id)
        """,
    )
    ddl.table(
        "episodes",
        """
        tenant_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        episode_id TEXT NOT NULL,
        name TEXT NOT NULL,
        part INTEGER NOT NULL CHECK (part >= 0),
        parts INTEGER NOT NULL CHECK (parts > part),
        content TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        source TEXT NOT NULL,
        source_description TEXT,
        speaker TEXT,
        valid_at INTEGER,
        created_at INTEGER NOT NULL,
        session INTEGER NOT NULL,
        words INTEGER NOT NULL,
        marks INTEGER NOT NULL,
        dates TEXT NOT NULL,
        names TEXT NOT NULL,
        PRIMARY KEY (tenant_id, group_id, seq),
        UNIQUE (tenant_id, group_id, name, part),
        UNIQUE (tenant_id, episode_id, part)
        """,
        append_only=[
            ("tenant_id", "group_id", "seq"),
            ("tenant_id", "group_id", "name", "part"),
            ("tenant_id", "episode_id", "part"),
        ],
    )
    ddl.table(
        "knowledge_postings",
        """
        tenant_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        term TEXT NOT NULL,
        block INTEGER NOT NULL,
        data {bytes} NOT NULL,
        PRIMARY KEY (tenant_id, group_id, term, block)
        """,
    )


def _entities(ddl: Ddl) -> None:
    ddl.table(
        "entities",
        f"""
        tenant_id TEXT NOT NULL,
        entity_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        name TEXT NOT NULL,
        name_key TEXT NOT NULL,
        category TEXT CHECK (category IN ({_CATEGORIES})),
        summary TEXT NOT NULL,
        inferred_by TEXT NOT NULL CHECK (inferred_by IN ('user', 'rules', 'spacy', 'model', 'enrichment_process')),
        confidence TEXT NOT NULL,
        facets TEXT NOT NULL,
        aliases TEXT NOT NULL,
        created_by TEXT,
        created_at INTEGER NOT NULL,
        merged_into TEXT,
        PRIMARY KEY (tenant_id, entity_id)
        """,
    )
    ddl.table(
        "entity_mentions",
        """
        tenant_id TEXT NOT NULL,
        entity_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        original_name TEXT NOT NULL,
        source TEXT NOT NULL,
        confidence INTEGER NOT NULL CHECK (confidence BETWEEN 0 AND 100),
        PRIMARY KEY (tenant_id, entity_id, group_id, seq),
        FOREIGN KEY (tenant_id, entity_id) REFERENCES entities (tenant_id, entity_id)
        """,
    )
    ddl.table(
        "entity_facts",
        """
        tenant_id TEXT NOT NULL,
        fact_id TEXT NOT NULL,
        entity_id TEXT NOT NULL,
        relation TEXT NOT NULL,
        value TEXT NOT NULL,
        object_id TEXT,
        is_single INTEGER NOT NULL CHECK (is_single IN (0, 1)),
        valid_at INTEGER,
        invalid_at INTEGER,
        ended_by TEXT,
        source TEXT NOT NULL,
        confidence INTEGER NOT NULL CHECK (confidence BETWEEN 0 AND 100),
        group_id TEXT,
        seq INTEGER,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, fact_id),
        FOREIGN KEY (tenant_id, entity_id) REFERENCES entities (tenant_id, entity_id)
        """,
    )
    ddl.run(
        "CREATE INDEX entities_name ON entities (tenant_id, group_id, name_key)",
        "CREATE INDEX entity_mentions_turn ON entity_mentions (tenant_id, group_id, seq)",
        "CREATE INDEX entity_facts_entity ON entity_facts (tenant_id, entity_id, relation)",
        "CREATE INDEX entity_facts_object ON entity_facts (tenant_id, object_id)",
    )
    refuse(ddl, "entities", "DELETE", name="no_delete")
    refuse(ddl, "entity_facts", "DELETE", name="no_delete")


def _duplicates(ddl: Ddl) -> None:
    ddl.table(
        "entity_proposals",
        """
        tenant_id TEXT NOT NULL,
        proposal_id TEXT NOT NULL,
        first_id TEXT NOT NULL,
        second_id TEXT NOT NULL,
        similarity INTEGER NOT NULL CHECK (similarity BETWEEN 0 AND 100),
        evidence TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'merged', 'rejected')),
        created_at INTEGER NOT NULL,
        decided_at INTEGER,
        decided_by TEXT,
        PRIMARY KEY (tenant_id, proposal_id),
        UNIQUE (tenant_id, first_id, second_id)
        """,
    )
    ddl.table(
        "entity_merges",
        """
        tenant_id TEXT NOT NULL,
        merge_id TEXT NOT NULL,
        kept_id TEXT NOT NULL,
        gone_id TEXT NOT NULL,
        record TEXT NOT NULL,
        merged_at INTEGER NOT NULL,
        merged_by TEXT,
        undone_at INTEGER,
        PRIMARY KEY (tenant_id, merge_id)
        """,
    )
