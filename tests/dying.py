"""Serves a test that kills: forks a child for each piece of work, which dies before a chosen write, sync or message.

What a child imported that lived the server imports too, so that a campaign of hundreds of deaths does not import
everything as often. `tests/mortals.py` is the other side.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module


def serve(work: Callable[[str], None]) -> None:
    """Do work in a fork for each line of stdin, `CALL SUBJECT`; say its exit status and how many calls it made."""
    library = ctypes.CDLL(os.environ["TESTS_DYING"])
    for line in sys.stdin:
        number, subject = line.split()
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            _live(library, int(number), there, work, subject)
        os.close(there)
        with os.fdopen(here) as told:
            made, *modules = told.read().split() or ["0"]
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {made}\n")
        sys.stdout.flush()
        for module in modules:
            with suppress(ImportError):
                import_module(module)


def _live(library: ctypes.CDLL, number: int, told: int, work: Callable[[str], None], subject: str) -> None:
    code, imported = 1, set(sys.modules)
    try:
        library.die_before(ctypes.c_long(number))
        work(subject)
        made = library.calls_made()
        modules = [name for name in sys.modules if name not in imported and name != "__main__"]
        with os.fdopen(told, "w") as out:
            out.write(" ".join([str(made), *modules]))
        code = 0
    finally:  # the fork must not go on as the server, whatever happens
        if code:
            traceback.print_exc()
        os._exit(code)
