"""Writes the event log on one thread, with group commit.

A commit costs one synchronised write however many events it holds, so callers queue events and the writer commits what
has gathered. Whoever waits for durability is served at once; events nobody waits for linger a few milliseconds to
share a commit. The queue is bounded: when the disk cannot keep up, threads are slowed, and a coroutine, which must not
block its loop, is refused once the queue is twice as full as it should be.

An event that nobody waits for and that cannot be stored is not lost in silence: the log (Python's) says so, and so does
the next `flush`.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import partial

from twinraven.foundation.errors import StorageBusy, StorageError, StorageUnavailable, TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.muninn.batch import BatchCommitter, Encoded
from twinraven.muninn.model import Observation
from twinraven.muninn.receipt import Receipt, Wakeups, wake_loops
from twinraven.muninn.row import RowEncoder
from twinraven.muninn.transactional_events import TransactionalEvent
from twinraven.storage import Database, forget_after_fork

BATCH = 512
LINGER_S = 0.005
WATCHES = 40
QUEUE_SIZE = 10_000
PATIENCE_S = 60.0

_logger = logging.getLogger("twinraven.muninn")

Queued = tuple[Observation | TransactionalEvent | None, Receipt]
"""An observation and its receipt; a marker, for `flush`, has no observation. A carried event may be stored already."""


class EventWriter:
    """Group-commits observations; made anew in a forked child."""

    def __init__(self, database: Database, encoder: RowEncoder, *, queue_size: int = QUEUE_SIZE) -> None:
        self._encoder = encoder
        self._database = database
        self._queue_size = queue_size
        self._closed = False
        self._begin()
        forget_after_fork(self)
        _close_at_exit(self)

    def _begin(self) -> None:
        self._queue: deque[Queued] = deque()
        self._in_hand: list[Queued] = []
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._room = threading.Condition()
        self._turn = threading.RLock()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_asleep = True
        self._hurrying: asyncio.AbstractEventLoop | None = None
        self._lost: TwinRavenError | None = None
        self._encoder.unlock()
        self._committer = BatchCommitter(self._database, may_wait=lambda: not self._closed)

    def after_fork(self) -> None:
        """Start empty in a forked child: the parent writes what it queued."""
        inherited = [*self._in_hand, *self._queue]
        self._begin()
        error = StorageError("the event was queued in the parent process; only the parent learns whether it is stored")
        for _, receipt in inherited:
            receipt.give_up(error)

    def submit(self, seen: Observation) -> Receipt:
        """Queue one observation."""
        if len(self._queue) >= self._queue_size:
            self._wait_for_room()
        receipt = Receipt(seen.event_id, self)
        self._enqueue(seen, receipt)
        return receipt

    def carry(self, seen: Observation) -> TransactionalEvent | None:
        """Return the observation for a transaction of its caller's.

        None where events before it are still to be stored.
        """
        if self._closed or self._queue or self._in_hand or self._encoder.is_slow:
            return None
        return TransactionalEvent(seen, self._encoder, self)

    def submit_again(self, event: TransactionalEvent) -> Receipt:
        """Queue an event whose transaction failed, unless it is stored after all."""
        receipt = Receipt(event.event_id, self)
        self._enqueue(event, receipt)
        return receipt

    @property
    def waiting(self) -> int:
        """The number of queued observations."""
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether the next `submit` would block; an event loop should `await room()` first."""
        return len(self._queue) >= self._queue_size

    async def room(self) -> None:
        """Wait for room without blocking the loop."""
        while self.is_full:
            self.hurry()
            await asyncio.sleep(LINGER_S)

    def hurry(self) -> None:
        """Commit what is queued now, because a caller waits."""
        self._urgent.set()
        self._ensure_thread()

    def hurry_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit once every task that is ready on this loop has had its turn, so that they share the commit."""
        if self._hurrying is not loop:
            self._hurrying = loop
            loop.call_soon(self._hurry_now)

    def _hurry_now(self) -> None:
        self._hurrying = None
        self.hurry()

    def flush(self, timeout: float = PATIENCE_S) -> None:
        """Return when everything queued so far is stored; raise if an event without a waiting caller was lost."""
        if self._thread is not None and not self._closed:
            marker = Receipt(new_uuid(), self)
            self._enqueue(None, marker)
            marker.result(timeout)
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    def close(self) -> None:
        """Write what is queued and stop; nothing can be recorded afterwards."""
        with self._starting:
            self._closed = True
            thread = self._thread
        self._urgent.set()
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._finish()

    def _enqueue(self, seen: Observation | TransactionalEvent | None, receipt: Receipt) -> None:
        if self._closed:
            raise StorageError("Muninn's collector is closed; open another one to record")
        self._queue.append((seen, receipt))
        if self._is_asleep and not self._wake.is_set():
            self._ensure_thread()
            self._wake.set()
        if self._closed:
            # Closed in between: the thread may have looked at the queue for the last time.
            self._finish()

    def _ensure_thread(self) -> None:
        thread = self._thread
        if thread is None or not thread.is_alive():
            with self._starting:
                if self._thread is thread and not self._closed:
                    self._thread = threading.Thread(target=self._run, name="twinraven-muninn", daemon=True)
                    self._thread.start()

    def _wait_for_room(self) -> None:
        self.hurry()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with self._room:
                if self._room.wait_for(lambda: not self.is_full, timeout=PATIENCE_S):
                    return
        else:
            if len(self._queue) < 2 * self._queue_size:
                return
        raise StorageBusy(
            "Muninn's queue is full and the store does not keep up, so the call was not recorded; "
            "await the receipts, or `await collector.room()` before recording"
        )

    def _run(self) -> None:
        self._is_asleep = False
        try:
            while not self._closed:
                self._wait_for_events()
                self._urgent.clear()
                self._write_queue()
        finally:
            self._thread = None
            self._wake.clear()
            self._is_asleep = True
            if self._closed:
                self._finish()
            elif self._queue:
                self._ensure_thread()

    def _wait_for_events(self) -> None:
        """Stay half awake for a while after the last event, since waking a sleeping thread is what callers pay for."""
        for _ in range(WATCHES):
            if self._urgent.wait(LINGER_S) or self._queue or self._closed:
                return
        self._wake.clear()
        # In this order: whoever queues an event either is seen here or sees that somebody must be woken.
        self._is_asleep = True
        if not self._queue and not self._closed:
            self._wake.wait()
            self._urgent.wait(LINGER_S)
        self._is_asleep = False

    def _finish(self) -> None:
        """After the last event: write what came in between, and let go of the connection."""
        with self._turn:
            self._write_queue()
            self._committer.close()

    def _write_queue(self) -> None:
        gone = None
        while self._queue:
            with self._turn:
                batch = self._take()
                # Once closed, a store that is away is asked once and not for every batch: the process wants to end.
                error = self._write(batch) if gone is None else self._fail(batch, gone)
                gone = error if self._closed and isinstance(error, StorageUnavailable) else None

    def _take(self) -> list[Queued]:
        queue = self._queue
        # In hand before it leaves the queue: whoever asks whether events are still to be stored must see it in one.
        self._in_hand = batch = [queue[number] for number in range(min(len(queue), BATCH))]
        for _ in batch:
            queue.popleft()
        with self._room:
            self._room.notify_all()
        return batch

    def _write(self, batch: list[Queued]) -> TwinRavenError | None:
        """Store a batch and settle its receipts; returns the last error."""
        try:
            errors = self._store(batch)
        except BaseException as surprise:
            # The thread's edge: nobody may be left waiting, and only what is meant to end a thread ends this one.
            error = self._fail(batch, StorageError(f"the events could not be stored: {surprise!r}"))
            if not isinstance(surprise, Exception):
                raise
            return error
        return self._tell(batch, errors)

    def _fail(self, batch: list[Queued], error: TwinRavenError) -> TwinRavenError | None:
        return self._tell(batch, [None if seen is None else error for seen, _ in batch])

    def _store(self, batch: list[Queued]) -> list[TwinRavenError | None]:
        encoded = [None if seen is None else self._encode(seen) for seen, _ in batch]
        may_be_stored = any(isinstance(seen, TransactionalEvent) for seen, _ in batch)
        commit = self._committer.commit_missing if may_be_stored else self._committer.commit
        results = iter(commit([item for item in encoded if isinstance(item, tuple)]))
        return [next(results) if isinstance(item, tuple) else item for item in encoded]

    def _encode(self, seen: Observation | TransactionalEvent) -> Encoded | TwinRavenError:
        try:
            return seen.encoded() if isinstance(seen, TransactionalEvent) else self._encoder.encode(seen)
        except TwinRavenError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the thread's edge: one odd event must not cost the others
            return StorageError(f"the event could not be encoded: {error!r}", event_id=str(seen.event_id))

    def _tell(self, batch: list[Queued], errors: list[TwinRavenError | None]) -> TwinRavenError | None:
        failed = [error for error in errors if error is not None]
        if failed:
            self._note_losses(batch, errors)
        wake: Wakeups = {}
        for (_, receipt), error in zip(batch, errors, strict=True):
            receipt.settle(error, wake)
        self._in_hand = []
        wake_loops(wake)
        return failed[-1] if failed else None

    def _note_losses(self, batch: list[Queued], errors: list[TwinRavenError | None]) -> None:
        """Note losses without a waiting caller before any is woken: a flush behind it must find them."""
        pairs = zip(batch, errors, strict=True)
        lost = [error for (_, receipt), error in pairs if error is not None and not receipt.is_awaited]
        if lost:
            self._lost = lost[-1]
            _logger.error("%d events that nobody waits for were not stored: %s", len(lost), lost[-1])


def _close_at_exit(writer: EventWriter) -> None:
    """Nothing that was queued is lost at an orderly exit.

    `atexit` runs after other threads have ended. A child of `multiprocessing` skips it, but does shut its threads down,
    which is when the second hook runs.
    """
    reference = weakref.ref(writer)
    atexit.register(partial(_end, reference, close=True))
    threading._register_atexit(partial(_end, reference, close=False))  # type: ignore[attr-defined] # pyright: ignore


def _end(reference: weakref.ref[EventWriter], *, close: bool) -> None:
    writer = reference()
    if writer is None:
        return
    if close:
        writer.close()
        return
    # What could not be stored has been logged already, and nobody is left to be told.
    with suppress(TwinRavenError):
        writer.flush()
