"""The limit on a tool's time: when it strikes, whom it strikes, and what it leaves alone."""

from __future__ import annotations

import asyncio
import time
from threading import Thread

import pytest

from twinraven.foundation.time_limit import TimeLimits


async def _sleep(limits: TimeLimits, limit_s: float, seconds: float) -> str:
    limit = limits.of(limit_s)
    try:
        with limit:
            await asyncio.sleep(seconds)
    except TimeoutError:
        assert limit.is_over
        return "late"
    assert not limit.is_over
    return "done"


async def test_each_call_has_its_own_time() -> None:
    """Those that began together and those that began later end when their own time is over, not before."""
    limits = TimeLimits()
    began = time.monotonic()
    first = [asyncio.ensure_future(_sleep(limits, 1, seconds)) for seconds in (99, 0.01, 99)]
    await asyncio.sleep(0.5)
    second_began = time.monotonic()
    later = [asyncio.ensure_future(_sleep(limits, 1, seconds)) for seconds in (99, 0.02)]
    assert await asyncio.gather(*first) == ["late", "done", "late"]
    assert time.monotonic() - began >= 0.99
    assert not later[0].done()
    assert await asyncio.gather(*later) == ["late", "done"]
    assert 0.99 <= time.monotonic() - second_began < 60
    assert await _sleep(limits, 0.2, 9) == "late"


async def test_a_shorter_limit_does_not_wait_for_a_longer_one() -> None:
    """Calls with different limits do not stand in each other's way."""
    limits = TimeLimits()
    slow = asyncio.ensure_future(_sleep(limits, 60, 0.3))
    await asyncio.sleep(0)
    assert await asyncio.wait_for(_sleep(limits, 0.05, 9), 1) == "late"
    assert await slow == "done"


async def test_a_task_that_somebody_else_cancels_is_cancelled() -> None:
    """A cancellation from outside stays one, also when the time is over at the same moment."""
    limits = TimeLimits()
    task = asyncio.ensure_future(_sleep(limits, 60, 9))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    both = asyncio.ensure_future(_sleep(limits, 0.02, 9))
    await asyncio.sleep(0)
    # The loop must find the time over and the cancellation at once.
    time.sleep(0.05)
    both.cancel()
    await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await both


async def test_a_limit_that_struck_does_not_spoil_what_comes_after() -> None:
    """The task goes on as one that nobody cancelled."""
    assert await _sleep(TimeLimits(), 0.01, 9) == "late"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0.01)


async def test_an_inner_limit_and_an_outer_one() -> None:
    """A tool that calls tools: whichever limit is over first strikes, and only its own block."""
    limits = TimeLimits()
    with limits.of(5):
        assert await _sleep(limits, 0.02, 9) == "late"
    with pytest.raises(TimeoutError), limits.of(0.05):
        assert await _sleep(limits, 5, 9) == "done"


def test_loops_in_several_threads_share_one_set_of_limits() -> None:
    """Each loop has its own timers, however they take turns."""
    limits = TimeLimits()
    found: list[list[str]] = []

    async def many() -> list[str]:
        return [await _sleep(limits, 0.01 if number % 2 else 5, 0.03) for number in range(20)]

    threads = [Thread(target=lambda: found.append(asyncio.run(many()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["done", "late"] * 10] * 4
