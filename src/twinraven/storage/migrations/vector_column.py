"""Adds the column and the index of pgvector, where a Postgres server has the extension.

It is no numbered step: a server may get the extension later, so every upgrade looks again. Without it, or without the
right to create it, nothing changes: vectors are bytes, and compared in memory.
"""

from __future__ import annotations

from typing import Final

ADD_VECTOR_COLUMN: Final = """
DO $$ BEGIN
    IF to_regclass('episode_vectors') IS NOT NULL AND EXISTS (
        SELECT 1 FROM pg_available_extensions WHERE name = 'vector'
        AND string_to_array(COALESCE(installed_version, default_version), '.')::int[] >= '{0,8,0}'
    ) AND NOT EXISTS (
        SELECT 1 FROM pg_attribute
        WHERE attrelid = to_regclass('episode_vectors') AND attname = 'embedding' AND NOT attisdropped
    ) THEN
        CREATE EXTENSION IF NOT EXISTS vector;
        ALTER TABLE episode_vectors ADD COLUMN embedding halfvec(384);
        CREATE INDEX episode_vectors_nearest ON episode_vectors USING hnsw (embedding halfvec_ip_ops);
        CREATE INDEX episode_vectors_waiting ON episode_vectors (tenant_id, group_id, model, seq)
            WHERE embedding IS NULL;
    END IF;
-- This login may not create it, or its library is missing or made for another server.
EXCEPTION WHEN insufficient_privilege OR undefined_file OR object_not_in_prerequisite_state THEN
    NULL;
END $$
"""
