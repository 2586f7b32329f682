"""Shuts down in order on SIGTERM and SIGINT: flushes what is queued, and ends every server that was started.

The usual fate of a process that gets SIGTERM is to be gone at once, with events unwritten and children left behind. And
whoever is looked after by another process must not outlive it: the end of a pipe that only the other holds open says
so, however the other ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Final

_SIGNS: Final = (signal.SIGTERM, signal.SIGINT)
_MOMENT_S: Final = 1.0


@contextmanager
def ending_with(
    end: Callable[[], object], *, at_once: Callable[[], object] | None = None, lifeline: int | None = None
) -> Generator[None]:
    """Inside the block, a signal that asks this process to end calls `end`, on the event loop.

    Each further signal calls `at_once`. The end of `lifeline`, a pipe, calls `end` as well and does not count: a signal
    to a whole group of processes asks once and arrives by both ways.
    """
    loop = asyncio.get_running_loop()
    calls = chain([end], repeat(at_once or end))

    def on_signal() -> None:
        next(calls)()

    def on_lifeline() -> None:
        assert lifeline is not None
        loop.remove_reader(lifeline)
        end()

    # Windows has no such handlers; there the signal does what it always does.
    with suppress(NotImplementedError):
        for sign in _SIGNS:
            loop.add_signal_handler(sign, on_signal)
    if lifeline is not None:
        loop.add_reader(lifeline, on_lifeline)
    try:
        yield
    finally:
        if lifeline is not None:
            loop.remove_reader(lifeline)
        with suppress(NotImplementedError):
            for sign in _SIGNS:
                loop.remove_signal_handler(sign)


def leave_threads_behind() -> None:
    """From now on this process is gone within a moment, as one that is done, whatever threads still run.

    For the last line of a command that has closed everything: a tool that outlived its call cannot be stopped, and the
    interpreter would wait for it.
    """
    leaving = threading.Timer(_MOMENT_S, os._exit, [0])
    leaving.daemon = True
    leaving.start()
