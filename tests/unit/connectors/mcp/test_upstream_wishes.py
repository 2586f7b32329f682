"""Subscriptions at a supervised server: kept over connections, and announced only where something was missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.gateways import until
from twinraven.connectors.mcp.model import Listing, UpstreamChange, UpstreamEvent
from twinraven.connectors.mcp.placeholders import FilledServer
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.upstream import Upstream, UpstreamLimits

NOTE = "note://today"


class Desk:
    """One connection to a server, and what was subscribed to over it."""

    protocol_version = "2025-06-18"
    instructions = None
    abilities = None

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.wished: list[str] = []

    async def tools(self) -> Listing:
        return cast("Listing", None)

    async def subscribe(self, uri: str) -> None:
        self.wished.append(uri)

    async def watch_lists(self) -> None:
        await asyncio.Event().wait()


async def test_a_wish_made_while_it_comes_up_is_no_missed_change() -> None:
    """Who subscribed as the first connection came up has missed nothing; who was there before the next one may have."""
    desks: list[Desk] = []
    news: list[UpstreamChange] = []
    subscribed = asyncio.Event()

    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncGenerator[Any]:
        desks.append(Desk())
        yield desks[-1]

    async def fill(server: ServerConfig) -> FilledServer:
        return FilledServer(server, ())

    async def on_tools(name: str, listing: Listing) -> None: ...

    async def on_event(event: UpstreamEvent) -> None:
        if event.kind == "up":
            await subscribed.wait()

    upstream = Upstream(
        ServerConfig("desk", "stdio", command="true"),
        fill=fill,
        on_tools=on_tools,
        on_event=on_event,
        limits=UpstreamLimits(first_pause_s=0.01),
        on_news=news.append,
        connect=connect,
    )
    upstream.start()
    try:
        await upstream.subscribe(NOTE)
        subscribed.set()
        await asyncio.sleep(0.05)
        assert (desks[0].wished, [one.kind for one in news if one.uri]) == ([NOTE], [])
        desks[0].lost.set()
        await until(lambda: [one.uri for one in news if one.kind == "updated"] == [NOTE])
        assert desks[1].wished == [NOTE]
    finally:
        await upstream.close()
