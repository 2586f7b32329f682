"""A supervised server that was suspected: who waits for the verdict, and for which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from twinraven.connectors.mcp.model import Listing, UpstreamEvent
from twinraven.connectors.mcp.placeholders import FilledServer
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.upstream import Upstream, UpstreamLimits


class Desk:
    """A server whose lists are answered when the test says so, and whose tool `slow` never answers."""

    protocol_version = "2025-06-18"
    instructions = None
    abilities = None

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.asked: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()
        self.sent: list[str] = []

    async def tools(self) -> Listing:
        answer = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(answer)
        await answer
        return cast("Listing", None)

    async def answer(self) -> None:
        """Answer the oldest question."""
        (await asyncio.wait_for(self.asked.get(), 2)).set_result(None)

    async def call(self, tool: str, _: dict[str, Any], __: object = None) -> dict[str, Any]:
        self.sent.append(tool)
        if tool == "slow":
            await asyncio.Event().wait()
        return {}

    async def watch_lists(self) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def kept(desk: Desk) -> AsyncGenerator[Upstream]:
    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncGenerator[Any]:
        yield desk

    async def fill(server: ServerConfig) -> FilledServer:
        return FilledServer(server, ())

    async def on_tools(name: str, listing: Listing) -> None: ...

    async def on_event(event: UpstreamEvent) -> None: ...

    server, limits = ServerConfig("desk", "stdio", command="true"), UpstreamLimits()
    upstream = Upstream(server, fill=fill, on_tools=on_tools, on_event=on_event, limits=limits, connect=connect)
    upstream.start()
    try:
        await desk.answer()
        await upstream.tried()
        yield upstream
    finally:
        await upstream.close()


async def leave_a_read(upstream: Upstream) -> None:
    """Somebody asks, and does not wait for the answer."""
    reading = asyncio.create_task(upstream.call("slow", {}, writes=False))
    await asyncio.sleep(0.01)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading


async def test_a_write_waits_only_for_the_suspicion_it_met() -> None:
    """Callers without patience, who suspect the server anew during every probe, do not hold up a write for ever."""
    desk = Desk()
    async with kept(desk) as upstream:
        await leave_a_read(upstream)
        writing = asyncio.create_task(upstream.call("pay", {}))
        await leave_a_read(upstream)
        assert "pay" not in desk.sent
        await desk.answer()
        await asyncio.wait_for(writing, 2)


@pytest.mark.parametrize("again", [1, 3])
async def test_an_answer_to_an_earlier_question_clears_nothing(again: int) -> None:
    """A write that met a suspicion which arose during a probe waits for the next probe, and is sent after that."""
    desk = Desk()
    async with kept(desk) as upstream:
        await leave_a_read(upstream)
        for _ in range(again):
            await leave_a_read(upstream)
        writing = asyncio.create_task(upstream.call("pay", {}))
        await desk.answer()
        await asyncio.sleep(0.05)
        assert "pay" not in desk.sent
        await desk.answer()
        await asyncio.wait_for(writing, 2)
