"""Follows the event log as it grows: new events of a tenant are read once, however many follow them.

One reader per tenant wakes when the change feed tells of events, reads what settled since, and hands the same batch to
every follower. On Postgres it reads only up to where no smaller number can follow, so that nothing is passed over.
A follower that begins further back, or fell so far behind that its batches were dropped, reads for itself until it has
caught up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn.model import MuninnEvent
from twinraven.muninn.store import EventStore

if TYPE_CHECKING:
    from twinraven.storage import Change, ChangeFeed

_AT_ONCE: Final = 500
_MOST_WAITING: Final = 64
_RETRY_S: Final = 0.5
_logger = logging.getLogger("twinraven.muninn")


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Some events in the order of their arrival; with them the log is read up to `through`."""

    events: tuple[MuninnEvent, ...]
    through: int


class EventTail:
    """New events of all tenants, for followers on any event loop."""

    def __init__(self, store: EventStore, changes: ChangeFeed) -> None:
        self._store = store
        self._changes = changes
        self._readers: dict[tuple[int, str], _Reader] = {}

    @asynccontextmanager
    async def following(self, tenant_id: str, *, after: int) -> AsyncGenerator[EventFollower]:
        """Follow the events behind an arrival number, as long as the block lasts."""
        place = id(asyncio.get_running_loop()), tenant_id
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = _Reader(self._store, self._changes, tenant_id)
        follower = EventFollower(reader, after)
        reader.followers.add(follower)
        try:
            await reader.is_ready.wait()
            yield follower
        finally:
            reader.followers.discard(follower)
            if not reader.followers and self._readers.get(place) is reader:
                del self._readers[place]
                reader.close()


class EventFollower:
    """One who follows a tenant's events."""

    def __init__(self, reader: _Reader, after: int) -> None:
        self._reader = reader
        self._after = after
        self._goal = after
        self._waiting: deque[EventBatch] = deque()
        self._arrived = asyncio.Event()
        self._must_catch_up = True

    async def next(self, *, within_s: float) -> EventBatch | None:
        """Return the next batch; None where none comes within this time."""
        while True:
            if self._must_catch_up:
                self._must_catch_up = False
                self._waiting.clear()
                self._goal = self._reader.seen
            if self._after < self._goal:
                return self._passed(await self._reader.read(self._after, self._goal))
            while self._waiting:
                batch = self._waiting.popleft()
                if batch.through > self._after:
                    return self._passed(batch)
            self._arrived.clear()
            try:
                async with asyncio.timeout(within_s):
                    await self._arrived.wait()
            except TimeoutError:
                return None

    def give(self, batch: EventBatch) -> None:
        """Take a batch that was read for all; one too many, and this follower reads for itself what it missed."""
        if len(self._waiting) == _MOST_WAITING:
            self._must_catch_up = True
        else:
            self._waiting.append(batch)
        self._arrived.set()

    def _passed(self, batch: EventBatch) -> EventBatch:
        self._after = batch.through
        return batch


class _Reader:
    """Reads one tenant's new events for all its followers on one event loop."""

    def __init__(self, store: EventStore, changes: ChangeFeed, tenant_id: str) -> None:
        self._store = store
        self._tenant_id = tenant_id
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self.seen = 0
        self.is_ready = asyncio.Event()
        """Set when it is known where the log ends."""
        self.followers: set[EventFollower] = set()
        self._task = asyncio.ensure_future(self._run())
        self._unfollow = changes.subscribe(self._on_change)

    def close(self) -> None:
        self._unfollow()
        self._task.cancel()

    async def read(self, after: int, through: int) -> EventBatch:
        found = await self._store.arrived(self._tenant_id, after=after, through=through, limit=_AT_ONCE)
        return EventBatch(tuple(found), found[-1].arrival if len(found) == _AT_ONCE else through)

    def _on_change(self, change: Change) -> None:
        if change.concerns("events") and change.tenant_id in (None, self._tenant_id) and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _run(self) -> None:
        while True:
            try:
                await self._read_on()
            except TwinRavenError as error:
                _logger.warning("new events cannot be read, trying on: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            await self._woken.wait()
            self._woken.clear()

    async def _read_on(self) -> None:
        through = await self._store.settled(self._tenant_id)
        if not self.is_ready.is_set():
            self.seen = through
            self.is_ready.set()
        while self.seen < through:
            batch = await self.read(self.seen, through)
            self.seen = batch.through
            for follower in self.followers:
                follower.give(batch)
