"""Ending in order when asked to: what is queued is written, and every server that was started is ended.

The usual fate of a process that gets SIGTERM is to be gone at once, with events unwritten and children left behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

_SIGNS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ending_with(end: Callable[[], object]) -> Generator[None]:
    """Inside the block, a signal that asks this process to end calls `end`, on the event loop."""
    loop = asyncio.get_running_loop()
    # Windows has no such handlers; there the signal does what it always does.
    with suppress(NotImplementedError):
        for sign in _SIGNS:
            loop.add_signal_handler(sign, end)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            for sign in _SIGNS:
                loop.remove_signal_handler(sign)
