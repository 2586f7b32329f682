"""Runs database work on a thread, with one hop from the event loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def hop(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run `work` on the pool in the caller's context; a cancelled caller stops waiting, the work itself is finished."""
    import asyncio

    # What is written on the thread belongs to the same request, whose correlation id is a context variable.
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(pool, copy_context().run, work))
