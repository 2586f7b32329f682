"""Streams answers as they come, between any two processes: pieces in a table, written in batches and read by number.

An attempt that was cut off leaves its pieces; whoever reads sees that a new attempt began, and starts over. When the
answer is settled its pieces are gone and its content is what counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final, NamedTuple

from twinraven.conversations.answering import clean_text
from twinraven.conversations.model import Alternative
from twinraven.conversations.sql import ConversationStore
from twinraven.storage import Database, Transaction

_EVERY_S: Final = 0.05
_FIRST_LOOK_S: Final = 0.01
_LONGEST_LOOK_S: Final = 0.25


class Piece(NamedTuple):
    """A part of an answer; the first of a new attempt makes what came before void."""

    attempt: int
    number: int
    text: str


class PieceWriter:
    """Writes what a model says of one answer, a few times a second."""

    def __init__(
        self,
        database: Database,
        store: ConversationStore,
        redact: Callable[[str, bytes], bytes],
        tenant_id: str,
        alternative_id: str,
    ) -> None:
        self._database = database
        self._store = store
        self._redact = redact
        self._tenant_id = tenant_id
        self._alternative_id = alternative_id
        self._waiting = ""
        self._attempt = 0
        self._number = 0
        self._written_at = 0.0

    async def add(self, text: str) -> None:
        """Take a piece; it is written with those after it when the time has come."""
        self._waiting += text
        if time.monotonic() - self._written_at >= _EVERY_S:
            await self._write(whole=False)

    async def finish(self) -> None:
        await self._write(whole=True)

    async def _write(self, *, whole: bool) -> None:
        """Write what waits, up to the last space: a secret that comes in two pieces would not be seen as one."""
        cut = len(self._waiting) if whole else max(self._waiting.rfind(" "), self._waiting.rfind("\n")) + 1
        text, self._waiting = self._waiting[:cut], self._waiting[cut:]
        self._written_at = time.monotonic()
        if text:
            await self._database.write(self._tenant_id, lambda tx: self._keep(tx, text))

    def _keep(self, tx: Transaction, text: str) -> None:
        clean = clean_text(self._redact, self._tenant_id, text.encode("utf-8", "replace").decode().replace("\0", ""))
        attempt = self._attempt or self._store.last_attempt(tx, self._tenant_id, self._alternative_id) + 1
        self._store.add_piece(tx, self._tenant_id, self._alternative_id, (attempt, self._number + 1), clean)
        self._attempt, self._number = attempt, self._number + 1


async def follow_pieces(
    database: Database,
    store: ConversationStore,
    tenant_id: str,
    alternative_id: str,
    *,
    after: tuple[int, int] = (0, 0),
    sign_of_life_s: float = 15.0,
) -> AsyncGenerator[Piece | Alternative | None]:
    """Pieces of an answer as they come, None as a sign of life now and then, and at the end the settled alternative."""
    pause_s, last_sign = _FIRST_LOOK_S, time.monotonic()

    def look(tx: Transaction, seen: tuple[int, int]) -> tuple[list[tuple[int, int, str]], Alternative | None]:
        return store.pieces(tx, tenant_id, alternative_id, after=seen), store.alternative(tx, tenant_id, alternative_id)

    while True:
        rows, found = await database.read(tenant_id, lambda tx, seen=after: look(tx, seen))
        if found is None or found.settled_at is not None:
            if found is not None:
                yield found
            return
        for row in rows:
            yield Piece(*row)
            after, pause_s, last_sign = row[:2], _FIRST_LOOK_S, time.monotonic()
        if time.monotonic() - last_sign >= sign_of_life_s:
            last_sign = time.monotonic()
            yield None
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_LOOK_S)
