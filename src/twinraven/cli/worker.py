"""`twinraven worker`: a process that works on runs until it is told to stop."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from twinraven.cli.interrupts import leaving_threads_behind
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "--type",
        dest="types",
        metavar="TYPE",
        action="append",
        help="make steps of this type (rest_api, mcp, llm_call, graph_query, python, …) and leave others to "
        "workers that serve them; may be repeated (default: every type)",
    )
    parser.runs(run, example="twinraven worker --type rest_api --type llm_call")


def run(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with leaving_threads_behind(), opened(options) as raven:
        asyncio.run(_work(raven, options))


async def _work(raven: TwinRaven, options: Namespace) -> None:
    import asyncio
    import signal

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(raven.aclose)
        await stack.enter_async_context(raven.watching())
        if raven.settings.servers:
            await stack.enter_async_context(raven.upstreams.of(options.tenant))
        worker = await stack.enter_async_context(raven.working(options.types))
        print(f"twinraven: worker {worker.worker_id} is up", file=sys.stderr)
        await stop.wait()
