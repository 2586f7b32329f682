"""From an observed call to a row of the log.

The caller's thread only takes a snapshot (`Observation`): arguments and output as bytes, so that later changes to the
objects cannot rewrite history. Redaction, hashing, summaries and tags happen on the writer's thread, in that order:
what is hashed is what is stored, so equal stays equal and nothing leaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import xxhash

from twinraven.foundation.canonical import content_hash
from twinraven.muninn.columns import Row
from twinraven.muninn.summary import summarize
from twinraven.muninn.tagging import TagExtractor

Redact = Callable[[str, bytes], bytes]
"""Replaces what must not be stored in a JSON text, for a tenant."""


def keep_everything(tenant_id: str, text: bytes) -> bytes:
    """The redaction of a home that has no secrets."""
    del tenant_id
    return text


class Observation(NamedTuple):
    """A call as the caller's thread saw it; bytes are JSON."""

    tenant_id: str
    event_id: UUID
    session_id: str
    tool_id: str
    params: bytes
    output: bytes | None
    timestamp: int
    latency_ms: int
    outcome: str
    tags: tuple[str, ...]
    parent_event_id: UUID | None
    raised: bool
    error_code: str | None
    turn: int | None
    task_id: str | None
    outside_input: str | None
    source_key: str | None
    time_known: bool
    correlation_id: str | None


@dataclass(frozen=True, slots=True)
class EncodingRules:
    """What is kept of a call."""

    store_outputs: bool = True
    summary_chars: int = 280
    """Zero turns summaries off."""


class RowEncoder:
    """Turns observations into rows of the log and blobs; one per writer, because tags look back."""

    def __init__(
        self, rules: EncodingRules, redact: Redact = keep_everything, *, redact_names: Redact | None = None
    ) -> None:
        self._rules = rules
        self._redact = redact
        self._redact_names = redact_names or redact
        self._tagger = TagExtractor()

    def encode(self, seen: Observation) -> tuple[Row, Row | None]:
        """The log's row and, where the output is kept, the blob's."""
        redact, tenant = self._redact, seen.tenant_id
        params = redact(tenant, seen.params)
        output = None if seen.output is None else redact(tenant, seen.output)
        hashed = xxhash.xxh64_hexdigest(params)
        extracted = self._tagger.tags(tenant, seen.session_id, seen.tool_id, hashed, raised=seen.raised, output=output)
        tags = seen.tags if not extracted else (*seen.tags, *(tag for tag in extracted if tag not in seen.tags))
        summary, blob = self._keep(tenant, output)
        session, task, code, source, correlation = self._clean_names(seen)
        row = (
            tenant,
            str(seen.event_id),
            session,
            seen.tool_id,
            hashed,
            params.decode(),
            summary,
            seen.timestamp,
            seen.latency_ms,
            seen.outcome,
            orjson.dumps([self.clean(tenant, tag) for tag in tags]).decode() if tags else "[]",
            None if seen.parent_event_id is None else str(seen.parent_event_id),
            1 if seen.raised else 0,
            code,
            None if blob is None else blob[1],
            seen.turn,
            task,
            None if seen.outside_input is None else self.clean(tenant, seen.outside_input),
            source,
            1 if seen.time_known else 0,
            correlation,
        )
        return row, blob

    def _keep(self, tenant: str, output: bytes | None) -> tuple[str | None, Row | None]:
        if output is None:
            return None, None
        limit = self._rules.summary_chars
        summary = summarize(output, limit) if limit else None
        blob = (tenant, content_hash(output), output) if self._rules.store_outputs else None
        return summary, blob

    def _clean_names(self, seen: Observation) -> tuple[Any, ...]:
        """The short texts that others name an event by; nearly always clean, so one look serves for all of them."""
        names = (seen.session_id, seen.task_id, seen.error_code, seen.source_key, seen.correlation_id)
        redact = self._redact_names
        if redact is keep_everything:
            return names
        together = "\n".join([name for name in names if name is not None]).encode()
        if redact(seen.tenant_id, together) is together:
            return names
        return tuple(None if name is None else redact(seen.tenant_id, name.encode()).decode() for name in names)

    def clean(self, tenant: str, text: str) -> str:
        """Free text without what must not be stored or shown."""
        if self._redact is keep_everything:
            return text
        return self._redact(tenant, text.encode()).decode("utf-8", "replace")
