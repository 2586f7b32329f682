"""Calls Python functions: async ones on the event loop, sync ones on a bounded thread pool.

A sync function that outlives its time cannot be stopped, only left behind; whoever called it for its effect must
treat the result as unknown.
"""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from twinraven.catalog import FunctionTool, FunctionTools, ToolEntry
from twinraven.foundation.errors import ToolUnavailable
from twinraven.storage import forget_after_fork


class KeyedCall(Protocol):
    """The idempotency key of a call, as a function may receive it."""

    key: str | None


class PythonConnector:
    """Runs the functions of a `FunctionTools`."""

    name = "python"

    def __init__(self, tools: FunctionTools, *, threads: int = 16) -> None:
        self._tools = tools
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        forget_after_fork(self)

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: KeyedCall) -> Any:
        """Run the function with these arguments; what it raises is the caller's to judge."""
        declared = self._tools.function(entry.tool_id)
        if declared is None:
            raise ToolUnavailable(f"tool {entry.tool_id!r} is not loaded in this process", tool_id=entry.tool_id)
        arguments = declared.arguments(params, key=call.key)
        if declared.is_async:
            return await declared.function(**arguments)
        return await self._on_thread(declared, arguments)

    def close(self) -> None:
        """Let the threads end; one that is needed again is made anew."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def after_fork(self) -> None:
        """A child has none of the pool's threads."""
        self._pool = None

    async def _on_thread(self, declared: FunctionTool, arguments: dict[str, Any]) -> Any:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="twinraven-tool")
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: context.run(_run, declared, arguments)
        )


def _run(declared: FunctionTool, arguments: dict[str, Any]) -> Any:
    try:
        return declared.function(**arguments)
    except StopIteration as error:
        # A future cannot carry this one: whoever awaits it would wait for ever.
        raise RuntimeError("the function raised StopIteration") from error
