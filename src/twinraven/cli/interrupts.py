"""Ends a command the moment Ctrl-C is pressed, also while it computes or waits for a database.

Python looks at signals between two steps of its main thread, and asyncio then waits for threads that cannot be stopped.
A command that stores whole transactions or nothing may simply be gone: whichever comes first, the main thread's next
look at signals or a thread that reads the pipe into which the system writes each of them, says so and ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130
_MOMENT_S: Final = 0.5


@contextmanager
def ends_at_once(note: str = "") -> Generator[None]:
    """Let Ctrl-C end the process at once; `note` says what became of the work so far.

    For commands that may be killed at any point without harm, and in the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    leave = _Leaving(note)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGINT, leave.on_signal)
    threading.Thread(target=leave.when_told, args=(reading,), daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(before)
        os.close(writing)


@contextmanager
def leaving_threads_behind() -> Generator[None]:
    """End the process after the block, done or interrupted, without waiting for threads that tools have started."""
    from twinraven.serving import leave_at_once

    with not_waiting_when_interrupted():
        yield
    leave_at_once()


@contextmanager
def not_waiting_when_interrupted() -> Generator[None]:
    """End the process with the block if Ctrl-C ended the block: no thread can be stopped, and a tool may take hours."""
    try:
        yield
    except KeyboardInterrupt:
        from twinraven.serving import leave_at_once

        print("twinraven: interrupted", file=sys.stderr)
        leave_at_once(INTERRUPTED)


class _Leaving:
    """Ends the process once, without what an interpreter does at its end."""

    def __init__(self, note: str) -> None:
        # A progress line is written over, as a command that ends by itself does.
        cleared = "\r\033[K" if sys.stderr.isatty() else ""
        noted = f"twinraven: {note}\n" if note else ""
        self._words = f"{cleared}{noted}twinraven: interrupted\n".encode()
        self._first = threading.Lock()

    def on_signal(self, number: int, frame: object) -> None:
        del number, frame
        self._leave()

    def when_told(self, reading: int) -> None:
        """Wait for SIGINT; a thread, for a main thread that waits or computes outside of Python."""
        while told := os.read(reading, 1):
            if told[0] == signal.SIGINT:
                self._leave()
        os.close(reading)

    def _leave(self) -> None:
        if self._first.acquire(blocking=False):
            os.write(2, self._words)
        else:
            # The other has said so and ends the process once it gets the interpreter back, let go for writing. The
            # main thread may come from a call that keeps it for years: it waits here, instead of going back there.
            time.sleep(_MOMENT_S)
        os._exit(INTERRUPTED)
