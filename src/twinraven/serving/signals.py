"""Shuts down in order on SIGTERM and SIGINT: flushes what is queued, and ends every server that was started.

The usual fate of a process that gets SIGTERM is to be gone at once, with events unwritten and children left behind. And
whoever is looked after by another process must not outlive it: the end of a pipe that only the other holds open says
so, however the other ended.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Final, NoReturn

_SIGNS: Final = (signal.SIGTERM, signal.SIGINT)
_MOMENT_S: Final = 0.5


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


def leave_at_once(code: int = 0) -> NoReturn:
    """End this process now, whatever threads still run.

    For the last line of a command that has closed everything: a tool that outlived its call cannot be stopped, and the
    interpreter would wait for it and then take down, object by object, what the system frees in one step. What modules
    of tools have registered for the end is run, if it does not take long.
    """
    bound = threading.Timer(_MOMENT_S, os._exit, [code])
    bound.daemon = True
    bound.start()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - there is no public way
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
