"""Runs coroutines on the event loop of a thread of its own, for a library whose connections belong to one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop on a thread; both begin with the first coroutine."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._beginning = Lock()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine that runs over there; cancelling this one cancels that one."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._begun()))

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Run the last coroutine and end the thread; without a first one there is nothing to do."""
        with self._beginning:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return

        async def finish() -> None:
            await last()

        asyncio.run_coroutine_threadsafe(finish(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._beginning:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop
