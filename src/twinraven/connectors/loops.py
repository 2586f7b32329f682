"""Keeps things per event loop, or on one event loop that every other one can reach.

A connection opened on one loop is of no use on another and must end with it (`PerLoop`). A program that was started
once for the whole process is spoken to on the loop that started it, whichever loop and thread asks (`OwningLoop`).

Commands and tests run one loop after another on one home, so nobody can be relied upon to close things while their loop
still runs. Loops themselves can: before one ends it closes the asynchronous generators that were begun on it. So what
is made for a loop is held by such a generator, and closed by it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class _Held(NamedTuple, Generic[T]):
    thing: T
    holder: AsyncGenerator[None]


class PerLoop(Generic[T]):
    """One thing for each event loop, made on first use and closed with the loop."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held[T]] = WeakKeyDictionary()
        self._making = threading.Lock()

    def get(self) -> T:
        """Return the running loop's own; what loops that were not ended in order left behind is let go of."""
        loop = asyncio.get_running_loop()
        held = self._by_loop.get(loop)
        if held is None:
            thing = self._make()
            held = _Held(thing, self._hold(loop, thing))
            with self._making:
                for closed in [each for each in self._by_loop if each.is_closed()]:
                    del self._by_loop[closed]
                self._by_loop[loop] = held
        return held.thing

    async def aclose(self) -> None:
        """Close what the running loop has now, without waiting for its end."""
        held = self._by_loop.get(asyncio.get_running_loop())
        if held is not None:
            await held.holder.aclose()

    def _hold(self, loop: asyncio.AbstractEventLoop, thing: T) -> AsyncGenerator[None]:
        async def hold() -> AsyncGenerator[None]:
            try:
                yield
            finally:
                with self._making:
                    self._by_loop.pop(loop, None)
                await self._close(thing)

        holder = hold()
        # Its first step waits for nothing, so it can be taken here, and the loop knows the generator from then on.
        try:
            holder.__anext__().send(None)
        except StopIteration:
            return holder
        raise AssertionError("the first step of a holder waits for nothing")


class LoopEnded(Exception):
    """The loop that work was handed to ended before the work did."""


class OwningLoop:
    """Runs work on the one event loop that something lives on, from any loop and thread of the process.

    The first loop that has work done owns it until that loop is closed. Whoever is cancelled cancels the work.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._claiming = threading.Lock()

    def claim(self) -> asyncio.AbstractEventLoop:
        """Return the owner: the running loop, unless another one that is not closed came first."""
        running = asyncio.get_running_loop()
        with self._claiming:
            if self._loop is None or self._loop.is_closed():
                self._loop = running
            return self._loop

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Have work done where it belongs; LoopEnded where that loop ends meanwhile."""
        owner = self.claim()
        if owner is asyncio.get_running_loop():
            return await work()
        begun = work()
        try:
            handed = asyncio.run_coroutine_threadsafe(begun, owner)
        except RuntimeError:
            begun.close()
            raise LoopEnded from None
        try:
            return await asyncio.wrap_future(handed)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() == 0:
                raise LoopEnded from None
            raise
