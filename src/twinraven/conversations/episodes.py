"""Writes episodes of what was said, after the turn and beside it: `Turn:{alternative.id}` in the conversation's group.

One run of the engine at a time writes the episodes of a conversation, in the order in which things were said; it is
started in the transaction that said something, so that nothing is lost and nobody waits. An episode that is there is
found by its name and bound; the binding is one row that is added once. Only what an alternative itself says becomes an
episode: what it was shown (summaries, entities, notes, quotes) and turns that are summaries do not, because that came
from episodes already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twinraven.conversations.sql import ConversationStore
from twinraven.engine import RunEnd, Runs
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import Conflict
from twinraven.foundation.ids import new_id
from twinraven.knowledge import Episode, Knowledge, NewEpisode
from twinraven.storage import Database, Row, Transaction

RUN_PREFIX: Final = "episodes-"
WORK: Final = "house:episodes"
_CONCISE: Final = 2_000
_TAIL: Final = 400


class EpisodeWriter:
    """Writes the episodes of conversations and binds them to alternatives."""

    def __init__(
        self,
        database: Database,
        store: ConversationStore,
        knowledge: Callable[[], Knowledge],
        runs: Callable[[], Runs],
        *,
        micros: Callable[[], int],
    ) -> None:
        self._database = database
        self._store = store
        self._knowledge = knowledge
        self._runs = runs
        self._micros = micros

    def schedule(self, tx: Transaction, tenant_id: str, conversation_id: str) -> None:
        """Start the run that writes what has no episode yet, unless one is under way."""
        if self._store.ingestion(tx, tenant_id, conversation_id) is None:
            run_id = f"{RUN_PREFIX}{conversation_id}-{new_id()}"
            subject = {"conversation_id": conversation_id}
            self._runs().start_house_work_in(tx, tenant_id, WORK, subject, run_id=run_id)
            self._store.set_ingestion(tx, tenant_id, conversation_id, run_id)

    async def write(self, tenant_id: str, conversation_id: str) -> dict[str, Any]:
        """Write and bind one episode after another until there is nothing left; says how many."""
        written = 0
        while True:
            rows = await self._database.read(tenant_id, lambda tx: self._store.unbound(tx, tenant_id, conversation_id))
            if not rows:
                return {"episodes": written}
            episode = await self._remember(tenant_id, conversation_id, rows[0])
            await self._bind(tenant_id, conversation_id, rows[0]["alternative_id"], episode)
            written += 1

    def on_end(self, tx: Transaction, end: RunEnd) -> None:
        """Let the next run begin; what was said while this one ended is written by another."""
        conversation_id = end.run_id.removeprefix(RUN_PREFIX).rpartition("-")[0]
        if self._store.ingestion(tx, end.tenant_id, conversation_id) != end.run_id:
            return
        self._store.set_ingestion(tx, end.tenant_id, conversation_id, None)
        if end.state == "succeeded" and self._store.unbound(tx, end.tenant_id, conversation_id):
            self.schedule(tx, end.tenant_id, conversation_id)

    async def _remember(self, tenant_id: str, conversation_id: str, row: Row) -> Episode:
        content = concise(row["content"]) if row["turn_type"] == "tool_result" else row["content"]
        new = NewEpisode(
            conversation_id,
            f"Turn:{row['alternative_id']}",
            content,
            source=row["turn_type"],
            speaker=row["speaker"],
            valid_at=from_micros(row["settled_at"]),
        )
        try:
            return await self._knowledge().remember(tenant_id, new)
        except Conflict:
            # It was written before a secret of the vault was known, and holds the same but for that.
            return await self._knowledge().named_episode(tenant_id, conversation_id, new.name)

    async def _bind(self, tenant_id: str, conversation_id: str, alternative_id: str, episode: Episode) -> None:
        def work(tx: Transaction) -> None:
            found = self._store.alternative(tx, tenant_id, alternative_id)
            if found is not None and found.episode_id is None:
                row = {
                    "tenant_id": tenant_id,
                    "conversation_id": conversation_id,
                    "alternative_id": alternative_id,
                    "episode_id": episode.episode_id,
                    "source": episode.source,
                    "created_at": self._micros(),
                }
                self._store.insert(tx, "alternative_episodes", row)

        await self._database.write(tenant_id, work)


def concise(content: str) -> str:
    """Return a tool's result as it is remembered: its beginning and its end where it is long."""
    if len(content) <= _CONCISE:
        return content
    left_out = len(content) - _CONCISE
    return f"{content[: _CONCISE - _TAIL]}\n[{left_out:,} characters left out]\n{content[-_TAIL:]}"
