"""Sums the oldest part of a path up before the working memory is full, beside the conversation.

Looked at after the episodes of a turn were written, because summaries are made of episodes. One compression of a
conversation at a time; what it covers leaves the path of the working memory when it is done, and not before.
"""

from __future__ import annotations

from typing import Final

from twinraven.conversations.ports import Compressor, PathPlace
from twinraven.conversations.reading import MemoryReader
from twinraven.conversations.sql import ConversationStore
from twinraven.conversations.working_memory import WorkingMemory
from twinraven.storage import Database, Transaction

_FULL: Final = 0.75
"""The share of the budget from which on the path is summed up."""
_KEPT: Final = 4
"""Places at the end of a path that are never summed up."""
_MOST_SOURCES: Final = 200
_MOST_SUMMARIES: Final = 4
"""From so many summaries on they are summed up themselves, one level higher."""


class PathCompression:
    """Keeps working memories within their budget."""

    def __init__(
        self, database: Database, store: ConversationStore, reader: MemoryReader, compressor: Compressor, *, budget: int
    ) -> None:
        self._database = database
        self._store = store
        self._reader = reader
        self._compressor = compressor
        self._budget = budget

    async def relieve(self, tenant_id: str, conversation_id: str) -> bool:
        """Begin a compression where the working memory is nearly full; whether one was begun."""
        before = await self._database.read(
            tenant_id, lambda tx: self._store.compression(tx, tenant_id, conversation_id)
        )
        if before is not None and await self._compressor.is_running(tenant_id, before):
            return False
        wanted = await self._database.read(tenant_id, lambda tx: self._wanted(tx, tenant_id, conversation_id))
        if wanted is None:
            return False
        owner_id, episodes, last = wanted
        begun = await self._compressor.begin(tenant_id, owner_id, conversation_id, episodes, up_to=last)
        await self._database.write(
            tenant_id, lambda tx: self._store.set_compression(tx, tenant_id, conversation_id, begun)
        )
        return True

    def _wanted(self, tx: Transaction, tenant_id: str, conversation_id: str) -> tuple[str, list[str], PathPlace] | None:
        conversation = self._store.find(tx, tenant_id, conversation_id)
        if conversation is None or conversation.current_turn_id is None:
            return None
        memory = self._reader.read(tx, conversation, conversation.current_turn_id, budget=100 * self._budget)
        if memory.total_tokens < _FULL * self._budget:
            return None
        places = _oldest_half(memory)
        if not places:
            return None
        summaries = [item.episode_id for item in memory.of("summary") if item.episode_id is not None]
        higher = summaries if len(summaries) >= _MOST_SUMMARIES else []
        episodes = [*higher, *(str(place.episode_id) for place in places)]
        return conversation.owner_id, episodes[:_MOST_SOURCES], places[-1]


def _oldest_half(memory: WorkingMemory) -> list[PathPlace]:
    """Return the first places of the path that no summary has, up to half of its tokens; all of them have episodes."""
    shown = {item.alternative_id for item in memory.of("path")}
    places = [each for each in memory.material.path if each.place.alternative_id in shown][:-_KEPT]
    half, spent, chosen = sum(each.tokens for each in places) / 2, 0, list[PathPlace]()
    for each in places:
        if len(chosen) >= _MOST_SOURCES // 2 or (chosen and spent + each.tokens > half):
            break
        if each.place.episode_id is not None:  # a turn that is a summary itself has none
            spent += each.tokens
            chosen.append(each.place)
    return chosen
