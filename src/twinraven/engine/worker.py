"""Works on queues: takes due runs and steps into the free slots of its pools, and lets go of them in good order.

One queue holds runs; each other queue holds the steps of one worker type, which is the connector that makes them. A
step whose type this process serves takes a slot of that pool, without a row or a commit; one that it does not serve is
put on its queue for a process that does.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from twinraven.engine.advance import Advancer
from twinraven.engine.dispatch import Lease
from twinraven.engine.dispatch_sql import EmbeddedDispatcher
from twinraven.engine.heartbeat import Heartbeat
from twinraven.engine.loading import LoadedRun
from twinraven.engine.model import RUNS_QUEUE
from twinraven.engine.pools import Pool, PoolSlots
from twinraven.engine.schedules import Schedules
from twinraven.foundation.errors import StorageError
from twinraven.foundation.ids import new_id
from twinraven.storage import Database

_logger = logging.getLogger("twinraven.engine")


class WorkerParts(NamedTuple):
    """The dependencies of a worker process."""

    database: Database
    dispatcher: EmbeddedDispatcher
    advancer: Advancer
    schedules: Schedules
    pools: Mapping[str, Pool]
    slots: PoolSlots


class EngineWorker:
    """A process that works on queues."""

    def __init__(self, parts: WorkerParts, *, lease_s: float, poll_s: float) -> None:
        self.worker_id = f"{os.getpid()}-{new_id()[:12]}"
        self._parts = parts
        self._poll_s = poll_s
        self._heart = Heartbeat(
            parts.database, self.worker_id, parts.slots.counts, lease_s=lease_s, now=parts.dispatcher.now
        )
        self._busy: dict[asyncio.Task[None], Lease] = {}
        self._unended: list[Lease] = []

    async def work(self, stop: asyncio.Event, *, drain_s: float = 30.0) -> None:
        """Work until told to stop; then calls under way end, and what is left goes on elsewhere."""
        loop = asyncio.get_running_loop()
        nudged = asyncio.Event()

        def nudge() -> None:
            loop.call_soon_threadsafe(nudged.set)

        self._parts.dispatcher.subscribe(nudge)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await self._start_heart(stopping)
            while not stop.is_set():
                nudged.clear()
                if not await self._look():
                    news = asyncio.ensure_future(nudged.wait())
                    await asyncio.wait(
                        {stopping, news, *self._busy}, timeout=self._poll_s, return_when="FIRST_COMPLETED"
                    )
                    news.cancel()
        finally:
            self._parts.dispatcher.unsubscribe(nudge)
            stopping.cancel()
            await self._drain(drain_s)
            await asyncio.to_thread(self._heart.stop)

    async def _start_heart(self, stopping: asyncio.Future[Literal[True]]) -> None:
        """Beat for the first time; a store that is away for the moment is waited for, as it is later."""
        while not stopping.done():
            try:
                await asyncio.to_thread(self._heart.start)
            except StorageError as error:
                if not error.retryable:
                    raise
                self._warn(error)
                await asyncio.wait({stopping}, timeout=self._poll_s)
            else:
                return

    async def _look(self) -> bool:
        """Take what is due; whether there was anything, so that there may be more."""
        try:
            await self._give_back()
            await self._parts.schedules.start_due()
            taken = await self._parts.dispatcher.take(self.worker_id, self._free())
        except StorageError as error:
            self._warn(error)
            return False
        loaded = await self._load(taken)
        for lease in taken:
            self._busy[asyncio.create_task(self._advance(lease, loaded.get(lease)))] = lease
        return bool(taken)

    async def _load(self, taken: Sequence[Lease]) -> Mapping[Lease, LoadedRun]:
        """Read at once what was taken; where that fails, each run is read by itself and says why it cannot be."""
        try:
            return await self._parts.advancer.load(taken)
        except StorageError:
            return {}

    def _warn(self, error: Exception) -> None:
        _logger.warning("no work could be taken: %s", error)

    def _free(self) -> dict[str, int]:
        used: dict[str, int] = {}
        for task, lease in list(self._busy.items()):
            if task.done():
                del self._busy[task]
            else:
                used[lease.queue] = used.get(lease.queue, 0) + 1
        # What was taken and has not begun yet holds no slot, so both are counted.
        return {
            name: min(pool.slots - used.get(name, 0), self._parts.slots.room(name))
            for name, pool in self._parts.pools.items()
        }

    async def _advance(self, lease: Lease, run: LoadedRun | None = None) -> None:
        try:
            if lease.place:
                await self._parts.advancer.make_step(lease, run)
                return
            async with self._parts.slots.hold(RUNS_QUEUE) as count:
                count.errors += not await self._parts.advancer.advance(lease, run)
        except StorageError as error:
            _logger.warning("run %s rests, because the store failed: %s", lease.run_id, error.message)
            self._unended.append(lease)
        except Exception:
            # The edge of a job: a fault in one run must not end the others; it counts against this one.
            _logger.exception("run %s could not be advanced", lease.run_id)
            self._unended.append(lease)

    async def _give_back(self) -> None:
        """Let go of what could not be ended when it should have been."""
        while self._unended:
            lease = self._unended[-1]
            await self._parts.database.write(
                lease.tenant_id, lambda tx, lease=lease: self._parts.dispatcher.give_back(tx, lease)
            )
            self._unended.pop()

    async def _drain(self, drain_s: float) -> None:
        self._parts.advancer.drain()
        if self._busy:
            _, late = await asyncio.wait(self._busy, timeout=drain_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=5)
        try:
            await self._give_back()
        except StorageError as error:
            _logger.warning("runs are left to whoever takes them over: %s", error.message)
