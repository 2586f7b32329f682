"""Asks for conversations: begin, say, answer, branch, fork, follow an answer, and see what a model would be sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import orjson

from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.server_events import ServerEvent, ServerEventReader
from twinraven.sdk.conversing_model import (
    AlternativeInfo,
    AnswerPiece,
    ConversationInfo,
    ConversationState,
    MemoryInfo,
    MessageSent,
    TurnInfo,
    TurnList,
)
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated

_RESUME_PAUSES_S: Final = (0.1, 0.5, 1.0, 2.0, 4.0)
_ROOT: Final = "conversations"


class ConversationOperations(ServerRequests):
    """Dialogue that branches."""

    async def create_conversation(self, *, title: str | None = None, process_id: str | None = None) -> ConversationInfo:
        """Begin a conversation."""
        return await self._make(ConversationInfo, stated({"title": title, "process_id": process_id}), _ROOT)

    def conversations(self, *, status: ConversationState | None = None) -> AsyncGenerator[ConversationInfo]:
        """Your conversations, the last changed first."""
        return self._list(ConversationInfo, _ROOT, status=status)

    async def conversation(self, conversation_id: str) -> ConversationInfo:
        """Return one conversation."""
        return read(ConversationInfo, await self._get(_ROOT, conversation_id))

    async def rename_conversation(self, conversation_id: str, title: str | None) -> ConversationInfo:
        """Give a conversation another title, or none."""
        return await self._set(conversation_id, {"title": title})

    async def prefer_process(self, conversation_id: str, process_id: str) -> ConversationInfo:
        """Let the next answers be made by another process."""
        return await self._set(conversation_id, {"process_id": process_id})

    async def archive_conversation(self, conversation_id: str) -> ConversationInfo:
        """Archive a conversation; it is never deleted."""
        return await self._set(conversation_id, {"status": "archived"})

    async def unarchive_conversation(self, conversation_id: str) -> ConversationInfo:
        """Take a conversation up again."""
        return await self._set(conversation_id, {"status": "active"})

    async def fork_conversation(
        self,
        conversation_id: str,
        *,
        turn_id: str | None = None,
        alternative_id: str | None = None,
        title: str | None = None,
    ) -> ConversationInfo:
        """Copy the active path up to a turn into a conversation of its own."""
        body = stated({"turn_id": turn_id, "alternative_id": alternative_id, "title": title})
        return await self._make(ConversationInfo, body, _ROOT, conversation_id, "forks")

    async def converse(
        self,
        conversation_id: str,
        content: str,
        *,
        process_id: str | None = None,
        parent_turn: str | None = None,
        quotes: Sequence[str] = (),
    ) -> MessageSent:
        """Say something and let a process answer it; `follow_answer` has the answer as it comes."""
        more = {"process_id": process_id, "parent_turn": parent_turn, "quotes": list(quotes) or None}
        return await self._make(MessageSent, {"content": content, **stated(more)}, _ROOT, conversation_id, "messages")

    async def say(
        self,
        conversation_id: str,
        content: str,
        *,
        speaker: str = "user",
        turn_type: str | None = None,
        parent_turn: str | None = None,
        quotes: Sequence[str] = (),
    ) -> TurnInfo:
        """Append a turn of a user or the system, without an answer."""
        more = {"turn_type": turn_type, "parent_turn": parent_turn, "quotes": list(quotes) or None}
        body = {"speaker": speaker, "content": content, **stated(more)}
        return await self._make(TurnInfo, body, _ROOT, conversation_id, "turns")

    async def answer_turn(
        self, conversation_id: str, *, process_id: str | None = None, parent_turn: str | None = None
    ) -> TurnInfo:
        """Let a process answer what was said last, or at another turn."""
        body = {"speaker": "agent", **stated({"process_id": process_id, "parent_turn": parent_turn})}
        return await self._make(TurnInfo, body, _ROOT, conversation_id, "turns")

    async def edit_turn(
        self, conversation_id: str, turn_id: str, content: str, *, quotes: Sequence[str] = ()
    ) -> TurnInfo:
        """Add another wording of what was said, and make it the active one."""
        body = {"content": content, **stated({"quotes": list(quotes) or None})}
        return await self._make(TurnInfo, body, _ROOT, conversation_id, "turns", turn_id, "alternatives")

    async def regenerate_turn(self, conversation_id: str, turn_id: str, *, process_id: str | None = None) -> TurnInfo:
        """Let an agent's turn be answered again, by the same process and version or by another."""
        body = stated({"process_id": process_id})
        return await self._make(TurnInfo, body, _ROOT, conversation_id, "turns", turn_id, "alternatives")

    async def switch_alternative(self, conversation_id: str, turn_id: str, alternative_id: str) -> TurnInfo:
        """Make an alternative the active one of its turn."""
        where = path_of(_ROOT, conversation_id, "turns", turn_id, "active")
        ask = RequestSpec("POST", where, body={"alternative_id": alternative_id}, is_safe=True)
        return read(TurnInfo, await self._exchange.json(ask))

    def turns(self, conversation_id: str) -> AsyncGenerator[TurnInfo]:
        """Return all turns with all alternatives, in the order of their arrival."""
        return self._list(TurnInfo, _ROOT, conversation_id, "turns")

    async def turn(self, conversation_id: str, turn_id: str) -> TurnInfo:
        """Return one turn with its alternatives."""
        return read(TurnInfo, await self._get(_ROOT, conversation_id, "turns", turn_id))

    async def path(self, conversation_id: str, *, turn_id: str | None = None) -> list[TurnInfo]:
        """Return the turns from the root to the current turn, or to another one."""
        ask = RequestSpec("GET", path_of(_ROOT, conversation_id, "path"), {"turn_id": turn_id})
        return list(read(TurnList, await self._exchange.json(ask)).items)

    async def memory(
        self, conversation_id: str, *, turn_id: str | None = None, budget: int | None = None
    ) -> MemoryInfo:
        """Return the working memory of the next model call, item by item."""
        ask = RequestSpec("GET", path_of(_ROOT, conversation_id, "memory"), {"turn_id": turn_id, "budget": budget})
        return read(MemoryInfo, await self._exchange.json(ask))

    async def follow_answer(self, conversation_id: str, alternative_id: str) -> AsyncGenerator[AnswerPiece]:
        """Yield an answer as it comes; the last piece has the alternative as it was settled.

        A connection that breaks is made again and goes on where it was.
        """
        where = path_of(_ROOT, conversation_id, "alternatives", alternative_id, "stream")
        last_id: str | None = None
        failures, restarts = 0, False
        while True:
            headers = {"Accept": "text/event-stream"} | ({} if last_id is None else {"Last-Event-ID": last_id})
            try:
                async with self._exchange.stream(RequestSpec("GET", where, headers=headers)) as stream:
                    messages = ServerEventReader(last_id=last_id)
                    async for part in stream.parts:
                        for message in messages.feed(part):
                            last_id = message.last_id
                            if message.name == "restart":
                                restarts = True
                                continue
                            piece = _piece(message, restarts=restarts)
                            if piece is not None:
                                failures, restarts = 0, False
                                yield piece
                                if piece.alternative is not None:
                                    return
            except TwinRavenError as error:
                if not error.retryable or failures == len(_RESUME_PAUSES_S):
                    raise
            await self._exchange.pause(_RESUME_PAUSES_S[min(failures, len(_RESUME_PAUSES_S) - 1)])
            failures += 1

    async def _set(self, conversation_id: str, body: JsonObject) -> ConversationInfo:
        ask = RequestSpec("PATCH", path_of(_ROOT, conversation_id), body=body)
        return read(ConversationInfo, await self._exchange.json(ask))


def _piece(message: ServerEvent, *, restarts: bool) -> AnswerPiece | None:
    if not message.data:
        return None
    body = orjson.loads(message.data)
    if message.name == "text":
        return AnswerPiece(body["text"], restarts)
    return AnswerPiece(alternative=read(AlternativeInfo, body))
