"""Keeps conversations: creates, lists, renames, archives and forks them, and chooses the process of their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.conversations.answering import ProcessAnswers
from twinraven.conversations.building import TreeBuilder, refuse_archived
from twinraven.conversations.copying import copy_path
from twinraven.conversations.episodes import EpisodeWriter
from twinraven.conversations.errors import AnswerUnfinished
from twinraven.conversations.model import (
    Alternative,
    Conversation,
    ConversationStatus,
    ConversationTurn,
    check_title,
    check_word,
)
from twinraven.conversations.sql import ConversationStore
from twinraven.engine import Runs
from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

T = TypeVar("T")

MOST_LISTED: Final = 1_000


class ConversationParts(NamedTuple):
    """The dependencies of conversations."""

    database: Database
    store: ConversationStore
    answering: ProcessAnswers
    episodes: EpisodeWriter
    runs: Runs
    audit: AuditLog
    micros: Callable[[], int]


class ConversationRecords:
    """Conversations of all tenants; their owners see them, and administrators."""

    def __init__(self, parts: ConversationParts) -> None:
        self._database = parts.database
        self._store = parts.store
        self._answering = parts.answering
        self._episodes = parts.episodes
        self._runs = parts.runs
        self._audit = parts.audit
        self._micros = parts.micros

    async def create(self, *, by: Principal, title: str | None = None, process_id: str | None = None) -> Conversation:
        """Begin a conversation, with a process for its answers if one is preferred."""
        named = check_title(title)
        chosen = None if process_id is None else await self._answering.choose(process_id, by=by)
        conversation_id = new_id()

        def work(tx: Transaction) -> Conversation:
            self._insert(tx, conversation_id, by, title=named)
            if chosen is not None:
                made = self._present(tx, conversation_id, by)
                self._answering.prefer(tx, made, chosen.process_id, by=by)
            self._witness(tx, conversation_id, "conversation.created", by)
            return self._present(tx, conversation_id, by)

        return await self._database.write(by.tenant_id, work)

    async def get(self, conversation_id: str, *, by: Principal) -> Conversation:
        """Return a conversation of the caller, or any where an administrator asks."""
        return await self._database.read(by.tenant_id, lambda tx: self._present(tx, conversation_id, by))

    async def list(
        self,
        *,
        by: Principal,
        status: ConversationStatus | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Conversation]:
        """List conversations, the last changed first; `before` names the last one of the page before."""
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit must be 1 to {MOST_LISTED}, it is {limit}", field="limit")
        if status is not None:
            check_word(status, ("active", "archived"), field="status")
        owner = None if by.role == "admin" else by.user_id

        def work(tx: Transaction) -> list[Conversation]:
            last = None
            if before is not None:
                found = self._present(tx, before, by)
                last = (to_micros(found.updated_at), found.conversation_id)
            return self._store.listing(tx, by.tenant_id, owner=owner, status=status, limit=limit, before=last)

        return await self._database.read(by.tenant_id, work)

    async def rename(self, conversation_id: str, title: str | None, *, by: Principal) -> Conversation:
        named = check_title(title)
        return await self._change(conversation_id, by, lambda tx, _: self._set(tx, conversation_id, by, title=named))

    async def archive(self, conversation_id: str, *, by: Principal) -> Conversation:
        """Archive a conversation: it is kept and can be read, and nothing is added until it is unarchived."""
        return await self._shelve(conversation_id, "archived", by)

    async def unarchive(self, conversation_id: str, *, by: Principal) -> Conversation:
        return await self._shelve(conversation_id, "active", by)

    async def choose_process(self, conversation_id: str, process_id: str, *, by: Principal) -> Conversation:
        """Prefer an enabled process for the next answers; what was answered keeps what it was made by."""
        chosen = await self._answering.choose(process_id, by=by)

        def work(tx: Transaction, found: Conversation) -> None:
            self._answering.prefer(tx, found, chosen.process_id, by=by)

        return await self._change(conversation_id, by, work)

    async def fork(
        self,
        conversation_id: str,
        *,
        by: Principal,
        turn_id: str | None = None,
        alternative_id: str | None = None,
        title: str | None = None,
    ) -> Conversation:
        """Copy the active path up to a turn, by default the current one, into a conversation of its own."""
        named, fork_id = check_title(title), new_id()

        def work(tx: Transaction) -> Conversation:
            found = self._present(tx, conversation_id, by)
            refuse_archived(found)
            origin = self._origin(tx, found, by, turn_id, alternative_id)
            row = {"forked_from": conversation_id, "origin_turn": origin.turn_id}
            row |= {"origin_alternative": origin.alternative_id}
            self._insert(tx, fork_id, by, title=found.title if named is None else named, **row)
            if found.default_process is not None:
                self._answering.prefer(tx, self._present(tx, fork_id, by), found.default_process, by=by)
            path = self._store.path(tx, by.tenant_id, origin.turn_id)
            last = copy_path(self._store, tx, by.tenant_id, fork_id, path, now=self._micros())
            self._set(tx, fork_id, by, current_turn=last)
            self._episodes.schedule(tx, by.tenant_id, fork_id)
            told = {"forked_from": conversation_id, "turn": origin.turn_id, "alternative": origin.alternative_id}
            self._witness(tx, fork_id, "conversation.forked", by, told)
            return self._present(tx, fork_id, by)

        return await self._decide(by.tenant_id, work)

    def _origin(
        self, tx: Transaction, found: Conversation, by: Principal, turn_id: str | None, alternative_id: str | None
    ) -> Alternative:
        last = turn_id or found.current_turn_id
        if last is None:
            raise InvalidInput("turn_id: the conversation has no turn to fork at", field="turn_id")
        active = self._turn(tx, found.conversation_id, last, by).active
        if alternative_id is not None and alternative_id != active.alternative_id:
            raise InvalidInput(
                f"alternative_id: {alternative_id!r} is not the active alternative of the turn; switch to it first",
                field="alternative_id",
            )
        if active.state == "generating":
            raise AnswerUnfinished("turn_id: the answer is still being generated", field="turn_id")
        return active

    def _insert(self, tx: Transaction, conversation_id: str, by: Principal, **columns: Any) -> None:
        now = self._micros()
        row = {
            "tenant_id": by.tenant_id,
            "conversation_id": conversation_id,
            "status": "active",
            "owner_id": by.user_id,
            "changes": 0,
            "created_at": now,
            "updated_at": now,
        }
        self._store.insert(tx, "conversations", row | columns)

    def _set(self, tx: Transaction, conversation_id: str, by: Principal, **columns: Any) -> None:
        self._store.change(tx, by.tenant_id, conversation_id, now=self._micros(), **columns)

    async def _shelve(self, conversation_id: str, status: ConversationStatus, by: Principal) -> Conversation:
        def work(tx: Transaction) -> Conversation:
            found = self._present(tx, conversation_id, by)
            if found.status != status:
                self._set(tx, conversation_id, by, status=status)
                event = "conversation.archived" if status == "archived" else "conversation.unarchived"
                self._witness(tx, conversation_id, event, by)
            return self._present(tx, conversation_id, by)

        return await self._database.write(by.tenant_id, work)

    async def _change(
        self, conversation_id: str, by: Principal, work: Callable[[Transaction, Conversation], object]
    ) -> Conversation:
        """Change a conversation that is not archived."""

        def change(tx: Transaction) -> Conversation:
            found = self._present(tx, conversation_id, by)
            refuse_archived(found)
            work(tx, found)
            return self._present(tx, conversation_id, by)

        return await self._decide(by.tenant_id, change)

    async def _decide(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        """Commit, and let workers of this process look at once."""
        decided = await self._database.write(tenant_id, work)
        self._runs.announce()
        return decided

    def _present(self, tx: Transaction, conversation_id: str, by: Principal) -> Conversation:
        found = self._store.find(tx, by.tenant_id, conversation_id)
        if found is None or (by.role != "admin" and found.owner_id != by.user_id):
            raise NotFound(f"no conversation {conversation_id!r}", conversation_id=conversation_id)
        return found

    def _turn(self, tx: Transaction, conversation_id: str, turn_id: str, by: Principal) -> ConversationTurn:
        self._present(tx, conversation_id, by)
        found = self._store.turn(tx, by.tenant_id, turn_id)
        if found is None or found.conversation_id != conversation_id:
            raise NotFound(f"turn_id: this conversation has no turn {turn_id!r}", field="turn_id", turn_id=turn_id)
        return found

    def _tree(self, tx: Transaction, conversation_id: str, by: Principal) -> TreeBuilder:
        return TreeBuilder(self._store, tx, by.tenant_id, conversation_id, self._micros())

    def _witness(
        self, tx: Transaction, conversation_id: str, event: str, by: Principal, data: dict[str, Any] | None = None
    ) -> None:
        self._audit.append(
            tx,
            NewAuditEntry(
                tenant_id=by.tenant_id,
                event_type=event,
                subject_type="conversation",
                subject_id=conversation_id,
                actor=by.actor,
                data=data or {},
            ),
        )
