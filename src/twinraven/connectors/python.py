"""Calling Python functions: async ones on the loop, sync ones on a bounded pool of threads.

A sync function that outlives its time cannot be stopped, only left behind; whoever called it for its effect must
treat the result as unknown.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twinraven.catalog import FunctionTool, FunctionTools, ToolEntry
from twinraven.foundation.errors import ToolUnavailable


class PythonConnector:
    """Runs the functions of a `FunctionTools`."""

    name = "python"

    def __init__(self, tools: FunctionTools, *, threads: int = 16) -> None:
        self._tools = tools
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: object) -> Any:
        """Run the function with these arguments; what it raises is the caller's to judge."""
        del call  # a function is given its arguments and nothing else
        declared = self._tools.function(entry.tool_id)
        if declared is None:
            raise ToolUnavailable(f"tool {entry.tool_id!r} is not loaded in this process", tool_id=entry.tool_id)
        if declared.is_async:
            return await declared.function(**params)
        return await self._on_thread(declared, params)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _on_thread(self, declared: FunctionTool, params: dict[str, Any]) -> Any:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="twinraven-tool")
        run: Callable[..., Any] = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: run(lambda: declared.function(**params))
        )
