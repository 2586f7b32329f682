"""Assembles a home's gateway: upstream servers behind it, clients in front of it, notifications between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from twinraven.app import TwinRaven
from twinraven.connectors import ACCEPT_SUGGESTIONS
from twinraven.gateway.batch import BatchConnector, BatchTool
from twinraven.gateway.callers import Callers
from twinraven.gateway.client_notifier import ClientNotifier
from twinraven.gateway.client_side import Clients
from twinraven.gateway.prompt_resource_index import PromptResourceIndex
from twinraven.gateway.prompts_and_resources import PromptsAndResources
from twinraven.gateway.repeated_reads import RepeatedReads
from twinraven.gateway.sandbox import check_installed
from twinraven.gateway.scripts import ScriptConnector, ScriptTool
from twinraven.gateway.server import GatewayServer
from twinraven.gateway.sessions import Sessions
from twinraven.gateway.stdio import serve_stdio
from twinraven.gateway.subscriptions import Subscriptions
from twinraven.gateway.tasks import ClientTasks
from twinraven.gateway.tool_exposure import Mode, ToolExposure
from twinraven.gateway.tool_list_watcher import ToolListWatcher
from twinraven.gateway.tool_listings import ToolListings
from twinraven.gateway.upstream_notifications import UpstreamNotifications
from twinraven.serving import Authenticator, ending_with, is_loopback
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_logger = logging.getLogger("twinraven.gateway")


class Gateway:
    """One process's gateway."""

    def __init__(self, raven: TwinRaven, *, tenant_id: str = DEFAULT_TENANT, late_s: float = 0.0) -> None:
        """`late_s` is how long a client has been waiting already, for the program to be loaded."""
        settings = raven.settings
        self._handshake_s = max(0.0, settings.gateway.start_s - late_s)
        self._raven = raven
        self._local = replace(LOCAL, tenant_id=tenant_id)
        callers = Callers(self._local)
        notifier = ClientNotifier(callers, declarable=self._declarable)
        offers = ToolListings(raven.catalog, raven.upstream_tools, prefix=settings.gateway.prefix)
        self._upstreams = upstreams = raven.upstreams.of(tenant_id)
        prefix = settings.gateway.prefix
        library = PromptResourceIndex(upstreams, raven.catalog.may_use, ready=self._declarable, prefix=prefix)
        subscriptions = Subscriptions(upstreams, library)
        self._upstream_notifications = UpstreamNotifications(library, subscriptions, notifier)
        self._clients = Clients(upstreams, settings.gateway, notifier=notifier, audit=raven.audit)
        self._tasks = ClientTasks(callers)
        toolbox = ToolExposure(offers, cast("Mode", settings.gateway.mode))
        self._tool_list = ToolListWatcher(raven.learned, raven.upstream_tools, toolbox, notifier)
        self._scripts = self._add_scripts(toolbox) if toolbox.mode == "code" else None
        if settings.gateway.batch and toolbox.mode != "code":
            raven.catalog.add(BatchTool())
            await_reads = settings.gateway.await_reads
            raven.calls.add_connector(BatchConnector(raven.calls, offers, await_reads=await_reads))
        self.server = GatewayServer(
            raven.calls,
            toolbox,
            callers=callers,
            sessions=Sessions(
                idle_gap_s=settings.muninn.session_idle_gap_s, guessed_gap_s=settings.gateway.guessed_gap_s
            ),
            notifier=notifier,
            reading=PromptsAndResources(
                upstreams,
                library,
                callers=callers,
                subscriptions=subscriptions,
                notifier=notifier,
                audit=raven.audit,
                declarable=self._declarable,
                channel=self._clients.channel,
            ),
            clients=self._clients,
            tasks=self._tasks,
            ready=self._ready,
            await_reads=settings.gateway.await_reads,
            repeats=self._repeated_reads(),
        )

    def _repeated_reads(self) -> RepeatedReads | None:
        """Return what answers repeated reads from the record, if the settings want that."""
        raven, max_age_s = self._raven, self._raven.settings.gateway.repeat_reads_s
        return RepeatedReads(raven.events, raven.catalog, max_age_s=max_age_s) if max_age_s else None

    def _add_scripts(self, toolbox: ToolExposure) -> ScriptConnector:
        """Put the sandbox for scripts on the call path, if it is installed."""
        raven = self._raven
        check_installed()
        limits, await_reads = raven.settings.code, raven.settings.gateway.await_reads
        raven.catalog.add(ScriptTool(limits))
        connector = ScriptConnector(raven.calls, toolbox, limits, await_reads=await_reads)
        raven.calls.add_connector(connector)
        return connector

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[GatewayServer]:
        """Upstream servers alive and news passed on, as long as the block lasts."""
        tenant_id = self._local.tenant_id
        unlisten = self._upstreams.listen(self._upstream_notifications.note)
        await self._tool_list.start(tenant_id)
        beside = [
            asyncio.create_task(self._upstream_notifications.pass_on(tenant_id), name="gateway upstream notifications"),
            asyncio.create_task(self._advise(tenant_id), name="gateway advice"),
        ]
        try:
            async with self._upstreams:
                yield self.server
        finally:
            unlisten()
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            await self._tool_list.stop()
            await self._clients.held.close()
            await self._tasks.close()
            if self._scripts is not None:
                await self._scripts.close()

    async def serve_stdio(self) -> None:
        """Serve the client that started this process, until it leaves or we are asked to end."""
        self._clients.expect_one()
        async with self._raven.watching(tenant_id=self._local.tenant_id), self.running() as server:
            serving = asyncio.ensure_future(serve_stdio(server))
            with ending_with(serving.cancel):
                await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()

    async def serve_http(
        self,
        host: str,
        port: int,
        *,
        require_keys: bool = False,
        lifeline: int | None = None,
        on_listening: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve any number of clients over HTTP, until a signal or the end of the lifeline's holder."""
        from twinraven.serving import listener, open_socket, patience_for, serve, with_cors

        settings = self._raven.settings
        # Before servers are started: a port that is taken is known at once.
        opened = open_socket(host, port).detach()
        is_open = is_loopback(host) and not (require_keys or settings.serving.require_keys)
        authenticator = Authenticator(
            self._raven.tenancy,
            without_key=self._local if is_open else None,
            max_streams=self._raven.settings.serving.max_streams,
        )
        async with self._raven.watching(), self.running() as server:
            app = with_cors(self.http_app(server, authenticator, host), settings.serving.allow_origins)
            patience_s = patience_for(settings.calls.default_timeout_ms)
            listening = listener(app, host, port, fd=opened, patience_s=patience_s)
            await serve(listening, lifeline=lifeline, on_listening=on_listening)

    def http_app(self, server: GatewayServer, authenticator: Authenticator, host: str) -> ASGIApp:
        """This gateway as an ASGI application, for a server that listens on this host."""
        from twinraven.gateway.http import http_app

        return http_app(server, authenticator, host=host)

    async def _ready(self) -> None:
        await self._upstreams.settle(self._raven.settings.gateway.start_s)

    async def _advise(self, tenant_id: str) -> None:
        """Log once that unclassified tools count as writes, which keeps calls from being learned from."""
        await self._ready()
        tools = await self._raven.upstream_tools.listed(tenant_id)
        unclassified = sum(tool.is_present and tool.classification is None for tool in tools)
        if unclassified:
            _logger.warning(
                "%d tools of MCP servers are unclassified and count as writes, so nothing is learned from them: %s",
                unclassified,
                ACCEPT_SUGGESTIONS,
            )

    async def _declarable(self) -> None:
        await self._upstreams.heard(self._handshake_s)
