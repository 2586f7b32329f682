"""Implements the use cases of dialogue: say, answer, edit, regenerate, switch, quote, preview the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from twinraven.conversations.answering import Answerer
from twinraven.conversations.building import NewAlternative, refuse_archived
from twinraven.conversations.compressing import PathCompression
from twinraven.conversations.episodes import RUN_PREFIX as EPISODES_PREFIX
from twinraven.conversations.model import (
    SPEAKERS,
    TURN_TYPES,
    Alternative,
    Conversation,
    ConversationTurn,
    Speaker,
    TurnType,
    check_content,
    check_word,
)
from twinraven.conversations.ports import Compressor, MemorySources
from twinraven.conversations.reading import MemoryReader
from twinraven.conversations.records import MOST_LISTED, ConversationParts, ConversationRecords
from twinraven.conversations.streaming import Piece, follow_pieces
from twinraven.conversations.working_memory import WorkingMemory
from twinraven.engine import RunEnd
from twinraven.foundation.errors import InvalidInput
from twinraven.storage import Transaction
from twinraven.tenancy import Principal


class Conversations(ConversationRecords):
    """Dialogue of all tenants."""

    def __init__(
        self, parts: ConversationParts, *, sources: MemorySources, compressor: Compressor, budget: int
    ) -> None:
        super().__init__(parts)
        self._reader = MemoryReader(self._store, sources)
        self._budget = budget
        self._compression = PathCompression(self._database, self._store, self._reader, compressor, budget=budget)

    async def say(
        self,
        conversation_id: str,
        content: str,
        *,
        by: Principal,
        speaker: Speaker = "user",
        turn_type: TurnType = "message",
        parent_turn: str | None = None,
        quotes: Sequence[str] = (),
    ) -> ConversationTurn:
        """Append a turn of a person or the system, below the current turn or another one."""
        new = await self._said(by.tenant_id, content, quotes)
        _check_speaker(speaker)
        check_word(turn_type, TURN_TYPES, field="turn_type")

        def work(tx: Transaction, found: Conversation) -> str:
            tree = self._tree(tx, conversation_id, by)
            turn_id, _ = tree.add_turn(parent_turn or found.current_turn_id, speaker, turn_type, new)
            self._look_at(tx, conversation_id, by, turn_id)
            self._episodes.schedule(tx, by.tenant_id, conversation_id)
            return turn_id

        return await self._add(conversation_id, by, work)

    async def answer(
        self,
        conversation_id: str,
        *,
        by: Principal,
        process_id: str | None = None,
        parent_turn: str | None = None,
    ) -> ConversationTurn:
        """Append an agent's turn, and let a process answer what is active above it."""
        answerer = await self._answerer(conversation_id, process_id, by)
        new = self._answering.prepare(answerer)

        def work(tx: Transaction, found: Conversation) -> str:
            return self._answer(tx, found, answerer, new, parent_turn or found.current_turn_id, by=by)

        return await self._add(conversation_id, by, work)

    async def converse(
        self,
        conversation_id: str,
        content: str,
        *,
        by: Principal,
        process_id: str | None = None,
        parent_turn: str | None = None,
        quotes: Sequence[str] = (),
    ) -> tuple[ConversationTurn, ConversationTurn]:
        """Say something and let a process answer it, both or neither: a user's turn and an agent's."""
        said = await self._said(by.tenant_id, content, quotes)
        answerer = await self._answerer(conversation_id, process_id, by)
        new = self._answering.prepare(answerer)
        turn_ids: list[str] = []

        def work(tx: Transaction, found: Conversation) -> str:
            tree = self._tree(tx, conversation_id, by)
            turn_id, _ = tree.add_turn(parent_turn or found.current_turn_id, "user", "message", said)
            turn_ids[:] = [turn_id]
            self._episodes.schedule(tx, by.tenant_id, conversation_id)
            return self._answer(tx, found, answerer, new, turn_id, by=by)

        answered = await self._add(conversation_id, by, work)
        return await self.turn(conversation_id, turn_ids[0], by=by), answered

    async def edit(
        self, conversation_id: str, turn_id: str, content: str, *, by: Principal, quotes: Sequence[str] = ()
    ) -> ConversationTurn:
        """Add another wording of what a person or the system said, and make it the active one."""
        new = await self._said(by.tenant_id, content, quotes)

        def work(tx: Transaction, found: Conversation) -> str:
            del found
            tree = self._tree(tx, conversation_id, by)
            if tree.shape(turn_id, field="turn_id")["speaker"] == "agent":
                raise InvalidInput(
                    "content: an agent's words are its process's; leave content out to let it answer again",
                    field="content",
                )
            tree.add_alternative(turn_id, new)
            self._look_at(tx, conversation_id, by, turn_id)
            self._episodes.schedule(tx, by.tenant_id, conversation_id)
            return turn_id

        return await self._add(conversation_id, by, work)

    async def regenerate(
        self, conversation_id: str, turn_id: str, *, by: Principal, process_id: str | None = None
    ) -> ConversationTurn:
        """Let an agent's turn be answered again: by the process and version of its active answer, or by another."""
        before = (await self.turn(conversation_id, turn_id, by=by)).active
        if before.process_id is None:
            raise InvalidInput("content: this turn is not an agent's; say how it shall read", field="content")
        pinned = before.process_version if process_id is None else None
        answerer = await self._answering.choose(process_id or before.process_id, by=by, version=pinned)
        new = self._answering.prepare(answerer)

        def work(tx: Transaction, found: Conversation) -> str:
            tree = self._tree(tx, conversation_id, by)
            parent = tree.shape(turn_id, field="turn_id")["parent_turn"]
            tree.add_alternative(turn_id, new)
            if process_id is not None:
                self._answering.prefer(tx, found, answerer.process_id, by=by)
            self._look_at(tx, conversation_id, by, turn_id)
            self._answering.start(tx, answerer, new, self._memory(tx, found, parent, self._budget), by=by)
            return turn_id

        return await self._add(conversation_id, by, work)

    async def switch(
        self, conversation_id: str, turn_id: str, alternative_id: str, *, by: Principal
    ) -> ConversationTurn:
        """Make an alternative the active one of its turn, and look at what follows it."""

        def work(tx: Transaction, found: Conversation) -> str:
            del found
            tree = self._tree(tx, conversation_id, by)
            tree.shape(turn_id, field="turn_id")
            chosen = tree.alternative(alternative_id, field="alternative_id")
            if chosen.turn_id != turn_id:
                raise InvalidInput(
                    f"alternative_id: {alternative_id!r} belongs to another turn; name that turn",
                    field="alternative_id",
                    turn_id=chosen.turn_id,
                )
            self._store.activate(tx, by.tenant_id, turn_id, alternative_id)
            self._look_at(tx, conversation_id, by, self._store.deepest(tx, by.tenant_id, turn_id))
            return turn_id

        return await self._add(conversation_id, by, work)

    async def turn(self, conversation_id: str, turn_id: str, *, by: Principal) -> ConversationTurn:
        return await self._database.read(by.tenant_id, lambda tx: self._turn(tx, conversation_id, turn_id, by))

    async def turns(
        self, conversation_id: str, *, by: Principal, limit: int = 50, after: int = 0
    ) -> list[ConversationTurn]:
        """Return all turns with all alternatives, in the order of their arrival; `after` is a turn's number."""
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit must be 1 to {MOST_LISTED}, it is {limit}", field="limit")

        def work(tx: Transaction) -> list[ConversationTurn]:
            self._present(tx, conversation_id, by)
            return self._store.turns(tx, by.tenant_id, conversation_id, limit=limit, after=after)

        return await self._database.read(by.tenant_id, work)

    async def path(self, conversation_id: str, *, by: Principal, turn_id: str | None = None) -> list[ConversationTurn]:
        """Return the turns from the root to a turn, by default the current one, with all their alternatives."""

        def work(tx: Transaction) -> list[ConversationTurn]:
            found = self._present(tx, conversation_id, by)
            last = turn_id or found.current_turn_id
            if last is None:
                return []
            self._turn(tx, conversation_id, last, by)
            ids = [row["turn_id"] for row in self._store.path(tx, by.tenant_id, last)]
            return [self._turn(tx, conversation_id, each, by) for each in ids]

        return await self._database.read(by.tenant_id, work)

    async def alternative(self, conversation_id: str, alternative_id: str, *, by: Principal) -> Alternative:
        def work(tx: Transaction) -> Alternative:
            self._present(tx, conversation_id, by)
            return self._tree(tx, conversation_id, by).alternative(alternative_id, field="alternative_id")

        return await self._database.read(by.tenant_id, work)

    async def memory(
        self, conversation_id: str, *, by: Principal, turn_id: str | None = None, budget: int | None = None
    ) -> WorkingMemory:
        """Return the working memory of the next model call, item by item."""
        if budget is not None and not 1 <= budget <= 100_000_000:
            raise InvalidInput("budget must be 1 to 100000000 tokens", field="budget")

        def work(tx: Transaction) -> WorkingMemory:
            found = self._present(tx, conversation_id, by)
            if turn_id is not None:
                self._tree(tx, conversation_id, by).shape(turn_id, field="turn_id")
            return self._memory(tx, found, turn_id or found.current_turn_id, budget or self._budget)

        return await self._database.read(by.tenant_id, work)

    async def stream(
        self, conversation_id: str, alternative_id: str, *, by: Principal, after: tuple[int, int] = (0, 0)
    ) -> AsyncGenerator[Piece | Alternative | None]:
        """Return an answer as it comes, and at the end the alternative; None now and then as a sign of life."""
        await self.alternative(conversation_id, alternative_id, by=by)
        return follow_pieces(self._database, self._store, by.tenant_id, alternative_id, after=after)

    def on_run_end(self, tx: Transaction, end: RunEnd) -> None:
        """Settle what hangs on a run, in the transaction that ends it."""
        if end.run_id.startswith(EPISODES_PREFIX):
            self._episodes.on_end(tx, end)
        else:
            self._answering.on_end(tx, end)

    async def write_episodes(self, tenant_id: str, conversation_id: str) -> dict[str, Any]:
        """Write the episodes of what was said; work of the house."""
        written = await self._episodes.write(tenant_id, conversation_id)
        return {**written, "compressing": await self._compression.relieve(tenant_id, conversation_id)}

    def _answer(
        self,
        tx: Transaction,
        found: Conversation,
        answerer: Answerer,
        new: NewAlternative,
        parent_turn: str | None,
        *,
        by: Principal,
    ) -> str:
        if parent_turn is None:
            raise InvalidInput("parent_turn: there is nothing to answer yet; say something first", field="parent_turn")
        tree = self._tree(tx, found.conversation_id, by)
        turn_id, _ = tree.add_turn(parent_turn, "agent", "message", new)
        self._answering.prefer(tx, found, answerer.process_id, by=by)
        self._look_at(tx, found.conversation_id, by, turn_id)
        self._answering.start(tx, answerer, new, self._memory(tx, found, parent_turn, self._budget), by=by)
        return turn_id

    async def _answerer(self, conversation_id: str, process_id: str | None, by: Principal) -> Answerer:
        found = await self.get(conversation_id, by=by)
        refuse_archived(found)
        return await self._answering.choose(process_id or found.default_process, by=by)

    async def _said(self, tenant_id: str, content: str, quotes: Sequence[str]) -> NewAlternative:
        check_content(content)
        said = await asyncio.to_thread(self._answering.said, tenant_id, content)
        return NewAlternative(said=said, quotes=tuple(quotes))

    def _memory(self, tx: Transaction, found: Conversation, turn_id: str | None, budget: int) -> WorkingMemory:
        return self._reader.read(tx, found, turn_id, budget=budget)

    def _look_at(self, tx: Transaction, conversation_id: str, by: Principal, turn_id: str) -> None:
        self._set(tx, conversation_id, by, current_turn=turn_id)

    async def _add(
        self, conversation_id: str, by: Principal, work: Callable[[Transaction, Conversation], str]
    ) -> ConversationTurn:
        """Add to a conversation that is not archived; gives the turn that `work` names."""

        def change(tx: Transaction) -> ConversationTurn:
            found = self._present(tx, conversation_id, by)
            refuse_archived(found)
            return self._turn(tx, conversation_id, work(tx, found), by)

        return await self._decide(by.tenant_id, change)


def _check_speaker(speaker: str) -> None:
    check_word(speaker, SPEAKERS, field="speaker")
    if speaker == "agent":
        raise InvalidInput("speaker: an agent's words are its process's; let it answer instead", field="speaker")
