"""Returns a receipt for each event: an awaitable that completes when the event is durable.

A receipt may have any number of waiters, on any number of event loops and threads, or none at all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any, Protocol
from uuid import UUID

from twinraven.foundation.errors import StorageBusy, TwinRavenError

Wakeups = dict[asyncio.AbstractEventLoop, list["asyncio.Future[None]"]]


class CommitSignal(Protocol):
    """Signals the writer to commit at once, because a caller waits."""

    def hurry(self) -> None:
        """Store what is queued at once."""
        ...

    def hurry_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Store it once the tasks that are ready on this loop have had their turn to queue more."""
        ...


class Receipt:
    """The promise that an event will be stored."""

    __slots__ = ("_done", "_error", "_is_expected", "_waiters", "_writer", "event_id")

    def __init__(self, event_id: UUID, writer: CommitSignal) -> None:
        self.event_id = event_id
        self._writer = writer
        self._done = False
        self._is_expected = False
        self._error: TwinRavenError | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | threading.Event] = []

    def __await__(self) -> Generator[Any, None, UUID]:
        if not self._done:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
            self._writer.hurry_soon(loop)
            # The writer sets _done before it reads the waiters, so one of the two always sees the other.
            if not self._done:
                yield from future
        return self._settled()

    def result(self, timeout: float | None = 60.0) -> UUID:
        """Wait, from a thread without an event loop, until the event is durable."""
        if not self._done:
            arrived = threading.Event()
            self._waiters.append(arrived)
            self._writer.hurry()
            if not self._done and not arrived.wait(timeout):
                raise StorageBusy(
                    f"event {self.event_id} was not stored within {timeout} s; it may still be",
                    event_id=str(self.event_id),
                )
        return self._settled()

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the event."""
        return self._is_expected or bool(self._waiters)

    def expect(self) -> Receipt:
        """Say that this one will be awaited, only later: for those who have many and wait for one after the other."""
        self._is_expected = True
        return self

    def settle(self, error: TwinRavenError | None, wake: Wakeups) -> None:
        """Called by the writer: note the result and collect whom to wake, one wake-up per loop."""
        self._error = error
        self._done = True
        for waiter in self._waiters:
            if isinstance(waiter, threading.Event):
                waiter.set()
            else:
                wake.setdefault(waiter[0], []).append(waiter[1])

    def give_up(self, error: TwinRavenError) -> None:
        """Settle with an error in a forked child, without wake-ups: the waiting threads are the parent's."""
        self._waiters = []
        self._error = error
        self._done = True

    def _settled(self) -> UUID:
        if self._error is not None:
            raise self._error
        return self.event_id


def wake_loops(wake: Wakeups) -> None:
    """Resume all waiting tasks, with one hop per event loop; closed loops are skipped."""
    for loop, futures in wake.items():
        try:
            loop.call_soon_threadsafe(_resolve, futures)
        except RuntimeError:
            continue


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
