"""Gives the event loop a turn within long work, so that other tasks go on; work that nobody waits for rests instead.

What asyncio's `sleep(0)` does, for code that short commands run, too: those drive coroutines without an event loop, and
importing asyncio would be a third of their time. Whoever drives such a coroutine goes on at once after a bare yield.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import coroutine

_rest_s: ContextVar[float] = ContextVar("twinraven_rest", default=0.0)


async def loop_turn() -> None:
    """Return after the other tasks that are ready have had their turn, or after a rest."""
    rest_s = _rest_s.get()
    if rest_s:
        from asyncio import sleep

        await sleep(rest_s)
    else:
        await _turn()


@contextmanager
def resting(seconds: float) -> Generator[None]:
    """Have each turn within the block take so long: a loop that goes on at once keeps the interpreter from threads."""
    token = _rest_s.set(seconds)
    try:
        yield
    finally:
        _rest_s.reset(token)


@coroutine
def _turn() -> Generator[None]:
    yield
