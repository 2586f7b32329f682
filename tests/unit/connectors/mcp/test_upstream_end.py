"""A supervised server: it is let go of when that is asked, whatever its library does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from twinraven.connectors.mcp.model import Listing, UpstreamEvent
from twinraven.connectors.mcp.placeholders import FilledServer
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.upstream import Upstream, UpstreamLimits


async def test_closing_ends_it_although_a_failure_hides_the_cancellation() -> None:
    """A library that answers a cancellation with an error of its own does not make the supervisor start again."""
    begun: list[None] = []
    underway = asyncio.Event()

    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncGenerator[Any]:
        begun.append(None)
        underway.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionResetError("the other side is gone") from None
        yield None

    async def fill(server: ServerConfig) -> FilledServer:
        return FilledServer(server, ())

    async def on_tools(name: str, listing: Listing) -> None: ...

    async def on_event(event: UpstreamEvent) -> None: ...

    upstream = Upstream(
        ServerConfig("desk", "stdio", command="true"),
        fill=fill,
        on_tools=on_tools,
        on_event=on_event,
        limits=UpstreamLimits(),
        connect=connect,
    )
    upstream.start()
    await underway.wait()
    await asyncio.wait_for(upstream.close(), 2)
    assert upstream.status.state == "closed"
    assert len(begun) == 1
