"""Ends a command within a second of Ctrl-C, also while it computes or waits for a database.

Python looks at signals between two steps of its main thread, and asyncio then waits for threads that cannot be stopped.
A command that stores whole transactions or nothing may simply be gone: the system writes each signal into a pipe the
moment it arrives, and a thread that reads the pipe ends the process if nobody else has.
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
_PATIENCE_S: Final = 0.5


@contextmanager
def ends_at_once(note: str = "") -> Generator[None]:
    """Let Ctrl-C end the process within a second; `note` says what became of the work so far.

    For commands that may be killed at any point without harm, and in the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_leave_when_told, args=(reading, note), daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        if note:
            print(f"twinraven: {note}", file=sys.stderr)
        raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)


def _leave_when_told(reading: int, note: str) -> None:
    """Wait for SIGINT, give the command a moment to end by itself, then end the process."""
    while told := os.read(reading, 1):
        if told[0] == signal.SIGINT:
            time.sleep(_PATIENCE_S)
            words = "twinraven: interrupted\n" if not note else f"twinraven: {note}\ntwinraven: interrupted\n"
            os.write(2, words.encode())
            os._exit(INTERRUPTED)
    os.close(reading)
