"""Runs a coroutine on an event loop of its own, as `asyncio.run` does, without a `repr` of what it returns.

`asyncio.run` installs a SIGINT handler that holds the main task, and takes it away again when the task is done. The
`signal` module then looks the handler up among its enum members and, failing that, builds an error text with the
handler's `repr`: the task's, and so the result's. For a log of a hundred thousand sessions that text took a quarter of
the time and more than half of the memory of a learning run. Here the task's own result is None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop and return its result; meant for large results."""
    results: list[T] = []

    async def main() -> None:
        results.append(await coroutine)

    asyncio.run(main())
    return results[0]
