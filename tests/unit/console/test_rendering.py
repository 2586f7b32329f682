"""Pages are made in slices, so that what else the event loop serves goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

from twinraven.console.rendering import joined
from twinraven.foundation.loop_turn import resting

_DEAR_S = 0.002


def dear_parts(count: int) -> Iterator[str]:
    """Parts of a page, each of which keeps the processor busy for longer than a slice."""
    for number in range(count):
        until = perf_counter() + _DEAR_S
        while perf_counter() < until:
            pass
        yield f"{number} "


async def test_others_go_on_between_the_slices_of_a_page() -> None:
    """After each slice the loop serves others, and the page is the same."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await joined(dear_parts(10)) == "0 1 2 3 4 5 6 7 8 9 "
    task.cancel()
    assert turns >= 10


async def test_a_page_with_rests_leaves_the_processor_alone_in_between() -> None:
    """A rest is a time in which the loop does nothing, so that threads have the interpreter."""
    begun = perf_counter()
    with resting(0.02):
        assert await joined(dear_parts(5)) == "0 1 2 3 4 "
    assert perf_counter() - begun >= 5 * (_DEAR_S + 0.02) * 0.99
