"""Gives the event loop a turn within long work, so that other tasks go on.

What asyncio's `sleep(0)` does, for code that short commands run, too: those drive coroutines without an event loop, and
importing asyncio would be a third of their time. Whoever drives such a coroutine goes on at once after a bare yield.
"""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine


@coroutine
def loop_turn() -> Generator[None]:
    """Return after the other tasks that are ready have had their turn."""
    yield
