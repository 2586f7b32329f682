"""A home's gateway, put together: upstream servers behind it, clients in front of it, news between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from twinraven.app import TwinRaven
from twinraven.gateway.announcements import Announcements
from twinraven.gateway.callers import Callers
from twinraven.gateway.news import News
from twinraven.gateway.offers import Offers
from twinraven.gateway.server import GatewayServer
from twinraven.gateway.sessions import Sessions
from twinraven.gateway.stdio import serve_stdio
from twinraven.serving import Doorkeeper, ending_with, is_loopback
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Gateway:
    """One process's gateway."""

    def __init__(self, raven: TwinRaven, *, tenant_id: str = DEFAULT_TENANT) -> None:
        settings = raven.settings
        self._raven = raven
        self._local = replace(LOCAL, tenant_id=tenant_id)
        callers = Callers(self._local)
        announcements = Announcements(callers)
        offers = Offers(raven.catalog, raven.upstream_tools, raven.learned.may_use)
        self._news = News(raven.learned, raven.upstream_tools, offers, announcements)
        self.server = GatewayServer(
            raven.calls,
            offers,
            callers=callers,
            sessions=Sessions(idle_gap_s=settings.muninn.session_idle_gap_s),
            announcements=announcements,
            ready=self._ready,
            await_reads=settings.gateway.await_reads,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[GatewayServer]:
        """Upstream servers alive and news passed on, as long as the block lasts."""
        self._raven.upstreams.tenant_id = self._local.tenant_id
        await self._news.start(self._local.tenant_id)
        try:
            async with self._raven.watching(tenant_id=self._local.tenant_id), self._raven.upstreams:
                yield self.server
        finally:
            await self._news.stop()

    async def serve_stdio(self) -> None:
        """Serve the client that started this process, until it leaves or we are asked to end."""
        async with self.running() as server:
            serving = asyncio.ensure_future(serve_stdio(server))
            with ending_with(serving.cancel):
                await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()

    async def serve_http(self, host: str, port: int) -> None:
        """Serve any number of clients over HTTP, until we are asked to end."""
        from twinraven.serving import listener, serve

        without_key = self._local if is_loopback(host) else None
        doorkeeper = Doorkeeper(self._raven.tenancy, without_key=without_key)
        async with self.running() as server:
            await serve(listener(self.http_app(server, doorkeeper, host), host, port))

    def http_app(self, server: GatewayServer, doorkeeper: Doorkeeper, host: str) -> ASGIApp:
        """This gateway as an ASGI application, for a server that listens on this host."""
        from twinraven.gateway.http import http_app

        return http_app(server, doorkeeper, host=host)

    async def _ready(self) -> None:
        await self._raven.upstreams.settle(self._raven.settings.gateway.start_s)
