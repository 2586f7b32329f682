"""Delivers recorded calls to the server exactly once and in order, whatever became of an earlier try.

A call has its id before it is sent, so an id that is taken means that an answer was lost and not the call. What cannot
be accepted is found by halving what was sent, and holds up nothing that was sent with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, Final, cast

from twinraven.foundation.errors import Conflict, InvalidInput, TwinRavenError
from twinraven.sdk.model import ObservedCall

MOST_AT_ONCE: Final = 500
"""How many calls go out in one request."""

_TOO_LARGE: Final = 413
_TOO_LARGE_CODE: Final = "PAYLOAD_TOO_LARGE"

Send = Callable[[Sequence[ObservedCall]], Awaitable[object]]
Turns = AbstractAsyncContextManager[None]


async def deliver(send: Send, calls: Sequence[ObservedCall]) -> list[tuple[ObservedCall, TwinRavenError]]:
    """Send calls; gives those that memory will never accept, and why. What concerns them all is raised."""
    try:
        await send(calls)
    except TwinRavenError as error:
        if _is_there(error, calls):
            return []
        if not _is_about_content(error):
            raise
        if len(calls) == 1:
            return [(calls[0], error)]
        half = len(calls) // 2
        return [*await deliver(send, calls[:half]), *await deliver(send, calls[half:])]
    return []


def _is_there(error: TwinRavenError, calls: Sequence[ObservedCall]) -> bool:
    """Return whether it says that some of these ids are taken; then the others were recorded with it."""
    if error.code != Conflict.code:
        return False
    taken: Any = error.details.get("event_ids")
    own = {str(call.event_id) for call in calls}
    return not isinstance(taken, list) or own.issuperset(map(str, cast("list[object]", taken)))


def _is_about_content(error: TwinRavenError) -> bool:
    if isinstance(error, InvalidInput):
        return True
    return error.code == _TOO_LARGE_CODE or error.details.get("status") == _TOO_LARGE


class FifoLock:
    """A FIFO lock: lets in one at a time, in order of arrival, across event loops and threads.

    An `asyncio.Lock` belongs to one loop, and agent libraries run tools on several.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_taken = False
        self._waiting: deque[Future[None]] = deque()

    async def __aenter__(self) -> None:
        turn: Future[None] = Future()
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return
            self._waiting.append(turn)
        with ExitStack() as undo:
            undo.callback(self._go_away, turn)
            await asyncio.wrap_future(turn)
            undo.pop_all()

    async def __aexit__(self, *_: object) -> None:
        self._let_in_next()

    def _go_away(self, turn: Future[None]) -> None:
        """Stop waiting; a waiter cancelled at the moment of its turn passes the turn on."""
        if not turn.cancel():
            self._let_in_next()

    def _let_in_next(self) -> None:
        with self._guard:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._is_taken = False


class BlockingFifoLock:
    """The same for threads without an event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
