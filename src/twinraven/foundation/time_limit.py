"""Limits the time of calls with timers that calls share.

What `asyncio.timeout` does, for what every call needs: a limit that is known beforehand and can only begin anew. Calls
with the same limit end in the order in which they began, so one timer, set for the oldest of them, serves them all. A
timer for each would cost more than checking the arguments does, and hardly one ever fires.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final


class TimeLimits:
    """The limits of all calls under way; those of one event loop share their timers."""

    def __init__(self) -> None:
        self._lanes: tuple[asyncio.AbstractEventLoop | None, dict[float, _Lane]] = (None, {})

    def of(self, seconds: float) -> TimeLimit:
        """Return a limit for the task that asks, from the moment its block is entered."""
        running = asyncio.get_running_loop()
        loop, lanes = self._lanes
        if loop is not running:
            lanes: dict[float, _Lane] = {}
            self._lanes = (running, lanes)
        lane = lanes.get(seconds)
        if lane is None:
            lane = lanes[seconds] = _Lane(running, seconds)
        return TimeLimit(lane)

    def once(self, seconds: float) -> TimeLimit:
        """Return a limit whose length no other call has, with a timer of its own."""
        return TimeLimit(_Lane(asyncio.get_running_loop(), seconds, is_shared=False))


class TimeLimit:
    """Cancels the task inside its block when the time is over, and turns that into TimeoutError."""

    __slots__ = ("_cancelling", "_lane", "_task", "begun", "end", "is_over")

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
        self.begun = lane.loop.time()
        self.end = self.begun + lane.seconds
        lane.running[self] = None
        if not lane.is_watched:
            lane.watch(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        lane = self._lane
        lane.running.pop(self, None)
        if not lane.is_shared and lane.timer is not None:
            lane.timer.cancel()
        # Somebody else may have cancelled the task meanwhile; then it is cancelled, whatever the time.
        if self.is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def extend(self, longest: float) -> None:
        """Begin the time anew, unless the block would then last longer than `longest` seconds in all."""
        lane = self._lane
        end = lane.loop.time() + lane.seconds
        if not self.is_over and end - self.begun <= longest and self in lane.running:
            self.end = end
            # The last to begin is the last to end.
            del lane.running[self]
            lane.running[self] = None

    def renew(self) -> None:
        """Begin the time anew, for the next of several things that one block does; not after the time is over."""
        lane = self._lane
        self.begun = lane.loop.time()
        self.end = self.begun + lane.seconds
        del lane.running[self]
        lane.running[self] = None

    def strike(self) -> None:
        """End the block now."""
        if not self.is_over:
            self.is_over = True
            self._task.cancel()


class _NoTimeLimit(TimeLimit):
    """Stands where a limit around the block is at least as tight; it is never over."""

    __slots__ = ()

    def __init__(self) -> None:
        self.is_over = False

    def __enter__(self) -> TimeLimit:
        return self

    def renew(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


UNLIMITED: Final[TimeLimit] = _NoTimeLimit()


class _Lane:
    """Calls that may take equally long, the oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, *, is_shared: bool = True) -> None:
        self.loop = loop
        self.running: dict[TimeLimit, None] = {}
        self.seconds = seconds
        self.is_shared = is_shared
        self.is_watched = False
        self.timer: asyncio.TimerHandle | None = None

    def watch(self, oldest: TimeLimit) -> None:
        """Look again when this one's time is over."""
        self.is_watched = True
        self.timer = self.loop.call_at(oldest.end, self._look)

    def _look(self) -> None:
        self.is_watched = False
        now = self.loop.time()
        for limit in list(self.running):
            if limit.end > now:
                self.watch(limit)
                return
            del self.running[limit]
            limit.strike()
