"""One hop from the event loop to a database thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def hop(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run `work` on the pool; a cancelled caller stops waiting, the work itself is finished."""
    import asyncio

    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(pool, work))
