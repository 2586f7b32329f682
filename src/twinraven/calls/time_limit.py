"""How long a tool may take.

What `asyncio.timeout` does, for the one case that every call has: a limit that is known beforehand and never moved. It
takes half the time of the general one, which a call over a door would notice.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class TimeLimit:
    """Cancels the task inside its block after so many seconds, and turns that into TimeoutError."""

    __slots__ = ("_cancelling", "_handle", "_seconds", "_task", "is_over")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.is_over = False

    def __enter__(self) -> TimeLimit:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a tool is called from a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._handle = loop.call_later(self._seconds, self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._handle.cancel()
        # Somebody else may have cancelled the task meanwhile; then it is cancelled, whatever the time.
        if self.is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _end(self) -> None:
        self.is_over = True
        self._task.cancel()
