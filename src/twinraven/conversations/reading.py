"""Reads the material of a working memory from one snapshot of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.conversations.model import Conversation
from twinraven.conversations.ports import MemorySources, PathPlace
from twinraven.conversations.sql import ConversationStore
from twinraven.conversations.tokens import count_tokens
from twinraven.conversations.working_memory import MemoryMaterial, PathText, QuotedText, WorkingMemory, assemble
from twinraven.foundation.clock import from_micros
from twinraven.storage import Row, Transaction, chunks

_IN_ONE = 500


class MemoryReader:
    """Working memories of conversations."""

    def __init__(self, store: ConversationStore, sources: MemorySources) -> None:
        self._store = store
        self._sources = sources

    def read(self, tx: Transaction, conversation: Conversation, turn_id: str | None, *, budget: int) -> WorkingMemory:
        """Read the working memory at a turn; an answer that has not ended, or failed, says nothing and is left out."""
        tenant_id, conversation_id = conversation.tenant_id, conversation.conversation_id
        rows = [] if turn_id is None else self._store.path(tx, tenant_id, turn_id)
        said = [row for row in rows if row["content"] is not None]
        places = [PathPlace(row["turn_id"], row["alternative_id"], row["sequence"], row["episode_id"]) for row in said]
        quotes = self._quotes(tx, tenant_id, [place.alternative_id for place in places])
        path = [
            PathText(place, row["speaker"], row["content"], row["tokens"], tuple(quotes.get(place.alternative_id, ())))
            for place, row in zip(places, said, strict=True)
        ]
        moments = [row["settled_at"] for row in said]
        material = MemoryMaterial(
            conversation_id,
            turn_id,
            rows[-1]["alternative_id"] if rows else None,
            path,
            self._sources.summaries(tx, tenant_id, conversation_id, places),
            self._sources.entities(tx, tenant_id, conversation_id, places),
            self._sources.notes(tx, tenant_id, conversation.owner_id),
            max([conversation.updated_at, *map(from_micros, moments)]),
        )
        return assemble(material, budget=budget, count=count_tokens)

    def _quotes(self, tx: Transaction, tenant_id: str, alternatives: Sequence[str]) -> dict[str, list[QuotedText]]:
        found: dict[str, list[QuotedText]] = {}
        for some in chunks(alternatives, _IN_ONE):
            for row in self._store.quoted(tx, tenant_id, some):
                found.setdefault(row["alternative_id"], []).append(_quoted(row))
        return found


def path_episodes(tx: Transaction, tenant_id: str, conversation_id: str) -> list[str] | None:
    """Return the episodes of a conversation's active path, the oldest first; None where it is no conversation."""
    store = ConversationStore()
    found = store.find(tx, tenant_id, conversation_id)
    if found is None:
        return None
    rows = [] if found.current_turn_id is None else store.path(tx, tenant_id, found.current_turn_id)
    return [row["episode_id"] for row in rows if row["episode_id"] is not None]


def _quoted(row: Row) -> QuotedText:
    return QuotedText(row["quoted_alternative"], row["turn_id"], row["sequence"], row["speaker"], row["content"])
