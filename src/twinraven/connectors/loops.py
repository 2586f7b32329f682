"""What belongs to one event loop: a connection opened on one is of no use on another, and must end with it.

Commands and tests run one loop after another on one home, so nobody can be relied upon to close things while their loop
still runs. Loops themselves can: before one ends it closes the asynchronous generators that were begun on it. So what
is made for a loop is held by such a generator, and closed by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar
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

    def get(self) -> T:
        """The running loop's own; what loops that were not ended in order left behind is let go of."""
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            for closed in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[closed]
            thing = self._make()
            self._by_loop[loop] = _Held(thing, self._hold(loop, thing))
        return self._by_loop[loop].thing

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
                self._by_loop.pop(loop, None)
                await self._close(thing)

        holder = hold()
        # Its first step waits for nothing, so it can be taken here, and the loop knows the generator from then on.
        try:
            holder.__anext__().send(None)
        except StopIteration:
            return holder
        raise AssertionError("the first step of a holder waits for nothing")
