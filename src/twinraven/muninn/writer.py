"""The one thread that writes the log, committing for everybody at once.

A commit costs one synchronised write however many events it holds, so callers queue events and the writer commits what
has gathered. Whoever waits for durability is served at once; events nobody waits for linger a few milliseconds to
share a commit. The queue is bounded: when the disk cannot keep up, callers are slowed rather than memory filled.

`Receipt` is what a caller gets: await it (or ask for its `result()`) to know the event is durable, or let it go.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from typing import Any
from uuid import UUID

from twinraven.foundation.ids import new_uuid
from twinraven.foundation.errors import StorageBusy, StorageError, TwinRavenError
from twinraven.muninn.row import BLOB_COLUMNS, COLUMNS, Observation, Row, RowEncoder
from twinraven.storage import Connection, Database, Transaction, forget_after_fork

BATCH = 512
LINGER_S = 0.005
QUEUE_SIZE = 10_000


class Receipt:
    """The promise that an event will be stored; truthful once awaited."""

    __slots__ = ("_done", "_error", "_hurry", "_waiters", "event_id")

    def __init__(self, event_id: UUID, hurry: Callable[[], None]) -> None:
        self.event_id = event_id
        self._hurry = hurry
        self._done = False
        self._error: TwinRavenError | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | threading.Event] = []

    def __await__(self) -> Generator[Any, None, UUID]:
        if not self._done:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
            self._hurry()
            # The writer sets _done before it reads the waiters, so one of the two always sees the other.
            if not self._done:
                yield from future
        if self._error is not None:
            raise self._error
        return self.event_id

    def result(self, timeout: float | None = 60.0) -> UUID:
        """Wait, from a thread without an event loop, until the event is durable."""
        if not self._done:
            arrived = threading.Event()
            self._waiters.append(arrived)
            self._hurry()
            if not self._done and not arrived.wait(timeout):
                raise StorageBusy(f"event {self.event_id} was not stored within {timeout} s", event_id=self.event_id)
        if self._error is not None:
            raise self._error
        return self.event_id

    def settle(self, error: TwinRavenError | None, wake: dict[asyncio.AbstractEventLoop, list[Any]]) -> None:
        """Called by the writer: note the result and collect whom to wake, one wake-up per loop."""
        self._error = error
        self._done = True
        for waiter in self._waiters:
            if isinstance(waiter, threading.Event):
                waiter.set()
            else:
                wake.setdefault(waiter[0], []).append(waiter[1])


class EventWriter:
    """Group-commits observations; made anew in a forked child."""

    def __init__(self, database: Database, encoder: RowEncoder, *, queue_size: int = QUEUE_SIZE) -> None:
        self._database = database
        self._encoder = encoder
        self._queue_size = queue_size
        self._begin()
        forget_after_fork(self)
        atexit.register(_close_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        self._queue: deque[tuple[Observation | None, Receipt]] = deque()
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._room = threading.Condition()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._connection: Connection | None = None

    def after_fork(self) -> None:
        """The parent writes what the parent queued; a child starts empty."""
        self._begin()

    def submit(self, seen: Observation) -> Receipt:
        """Queue one observation; blocks only while the queue is full."""
        if len(self._queue) >= self._queue_size:
            self._wait_for_room()
        receipt = Receipt(seen.event_id, self._urgent.set)
        self._enqueue(seen, receipt)
        return receipt

    @property
    def full(self) -> bool:
        """Whether the next `submit` would block; an event loop should `await room()` first."""
        return len(self._queue) >= self._queue_size

    async def room(self) -> None:
        """Wait for room without blocking the loop."""
        while self.full:
            self._urgent.set()
            await asyncio.sleep(LINGER_S)

    def flush(self, timeout: float = 60.0) -> None:
        """Return when everything queued so far is stored or has failed."""
        marker = Receipt(new_uuid(), self._urgent.set)
        self._enqueue(None, marker)
        marker.result(timeout)

    def close(self) -> None:
        """Write what is queued and stop."""
        thread = self._thread
        self._closing = True
        self._urgent.set()
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _enqueue(self, seen: Observation | None, receipt: Receipt) -> None:
        self._queue.append((seen, receipt))
        if not self._wake.is_set():
            self._rouse()

    def _rouse(self) -> None:
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            with self._start:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="twinraven-muninn", daemon=True)
                    self._thread.start()

    def _wait_for_room(self) -> None:
        with self._room:
            if not self._room.wait_for(lambda: not self.full, timeout=60.0):
                raise StorageBusy("Muninn's queue is full and the store does not keep up; the call was not recorded")

    def _run(self) -> None:
        while True:
            self._wake.wait()
            if not self._closing and len(self._queue) < BATCH:
                self._urgent.wait(LINGER_S)
            self._urgent.clear()
            self._wake.clear()
            while self._queue:
                self._write_batch()
            if self._closing and not self._queue:
                break
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._closing = False
        self._thread = None

    def _write_batch(self) -> None:
        queue = self._queue
        batch = [queue.popleft() for _ in range(min(len(queue), BATCH))]
        if self._room.acquire(blocking=False):
            self._room.notify_all()
            self._room.release()
        errors = self._store(batch)
        wake: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for (_, receipt), error in zip(batch, errors, strict=True):
            receipt.settle(error, wake)
        for loop, futures in wake.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, futures)

    def _store(self, batch: list[tuple[Observation | None, Receipt]]) -> list[TwinRavenError | None]:
        """Commit a batch; if one event spoils it, store the others and blame that one alone."""
        encoded = [None if seen is None else self._encode(seen) for seen, _ in batch]
        good = [item for item in encoded if isinstance(item, tuple)]
        error = self._commit(good)
        if error is not None and not isinstance(error, StorageError) and len(good) > 1:
            return [self._commit([item]) if isinstance(item, tuple) else item for item in encoded]
        return [error if isinstance(item, tuple) else item for item in encoded]

    def _encode(self, seen: Observation) -> tuple[Row, Row | None] | TwinRavenError:
        try:
            return self._encoder.encode(seen)
        except TwinRavenError as error:
            return error
        except Exception as error:  # the thread's edge: one odd event must not silence the log for everybody
            return StorageError(f"the event could not be encoded: {error!r}", event_id=str(seen.event_id))

    def _commit(self, items: list[tuple[Row, Row | None]]) -> TwinRavenError | None:
        if not items:
            return None
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.transaction(items[0][0][0], write=True) as tx:
                write_rows(tx, items)
        except TwinRavenError as error:
            return error
        return None


def write_rows(tx: Transaction, items: list[tuple[Row, Row | None]]) -> None:
    """Insert events and the outputs they name, each tenant under its own name."""
    first = items[0][0][0]
    tenants = [first] if all(row[0] == first for row, _ in items) else list(dict.fromkeys(row[0] for row, _ in items))
    for tenant in tenants:
        if tenant != first:
            tx.act_for(tenant)
        rows = [row for row, _ in items if row[0] == tenant]
        blobs = [blob for _, blob in items if blob is not None and blob[0] == tenant]
        if blobs:
            tx.insert_missing("blobs", BLOB_COLUMNS, blobs)
        tx.insert_rows("muninn_event_log", COLUMNS, rows)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def _close_at_exit(reference: weakref.ref[EventWriter]) -> None:
    writer = reference()
    if writer is not None:
        writer.close()
