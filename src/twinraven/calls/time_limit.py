"""How long a tool may take.

What `asyncio.timeout` does, for what every call needs: a limit that is known beforehand and never moved. Calls with the
same limit end in the order in which they began, so one timer, set for the oldest of them, serves them all. A timer for
each would cost more than checking the arguments does, and hardly one ever fires.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class TimeLimits:
    """The limits of all calls under way; those of one event loop share their timers."""

    def __init__(self) -> None:
        self._lanes: tuple[asyncio.AbstractEventLoop | None, dict[float, _Lane]] = (None, {})

    def of(self, seconds: float) -> TimeLimit:
        """A limit for the task that asks, from the moment its block is entered."""
        running = asyncio.get_running_loop()
        loop, lanes = self._lanes
        if loop is not running:
            lanes: dict[float, _Lane] = {}
            self._lanes = (running, lanes)
        lane = lanes.get(seconds)
        if lane is None:
            lane = lanes[seconds] = _Lane(running, seconds)
        return TimeLimit(lane)


class TimeLimit:
    """Cancels the task inside its block when the time is over, and turns that into TimeoutError."""

    __slots__ = ("_cancelling", "_lane", "_task", "end", "is_over")

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane
        self.is_over = False

    def __enter__(self) -> TimeLimit:
        task = asyncio.current_task(self._lane.loop)
        if task is None:
            raise RuntimeError("a tool is called from a task")
        self._task = task
        self._cancelling = task.cancelling()
        lane = self._lane
        self.end = lane.loop.time() + lane.seconds
        lane.running[self] = None
        if not lane.is_watched:
            lane.watch(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._lane.running.pop(self, None)
        # Somebody else may have cancelled the task meanwhile; then it is cancelled, whatever the time.
        if self.is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def strike(self) -> None:
        self.is_over = True
        self._task.cancel()


class _Lane:
    """Calls that may take equally long, the oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.loop = loop
        self.running: dict[TimeLimit, None] = {}
        self.seconds = seconds
        self.is_watched = False

    def watch(self, oldest: TimeLimit) -> None:
        """Look again when this one's time is over."""
        self.is_watched = True
        self.loop.call_at(oldest.end, self._look)

    def _look(self) -> None:
        self.is_watched = False
        now = self.loop.time()
        for limit in list(self.running):
            if limit.end > now:
                self.watch(limit)
                return
            del self.running[limit]
            limit.strike()
