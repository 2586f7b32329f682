"""Forwards list-changed and resource-updated notifications of upstream servers to clients, debounced.

A server may announce far more often than anybody wants to read, so what comes within a moment is told once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated

from twinraven.connectors import UpstreamChange
from twinraven.gateway.client_notifier import ClientNotifier
from twinraven.gateway.prompt_resource_index import PromptResourceIndex
from twinraven.gateway.subscriptions import Subscriptions

_MOMENT_S: Final = 0.1


class UpstreamNotifications:
    """Collects notifications of upstream servers and forwards them to clients."""

    def __init__(self, library: PromptResourceIndex, subscriptions: Subscriptions, notifier: ClientNotifier) -> None:
        self._library = library
        self._subscriptions = subscriptions
        self._notifier = notifier
        self._pending: dict[UpstreamChange, None] = {}
        self._arrived = asyncio.Event()

    def note(self, news: UpstreamChange) -> None:
        """Take a notification; never waits."""
        if news.kind != "updated":
            self._library.forget(news.server, news.kind)
        elif not self._subscriptions.wanting(news.server, news.uri or ""):
            return
        self._pending[news] = None
        self._arrived.set()

    async def pass_on(self, tenant_id: str) -> None:
        """Tell the clients of the tenant, as long as this runs."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_MOMENT_S)
            self._arrived.clear()
            pending, self._pending = self._pending, {}
            kinds = {news.kind for news in pending}
            if "prompts" in kinds:
                await self._notifier.announce(tenant_id, PromptsListChanged())
            if "resources" in kinds:
                await self._notifier.announce(tenant_id, ResourcesListChanged())
            for news in pending:
                if news.uri is not None:
                    await self._tell_of(tenant_id, news.server, news.uri)

    async def _tell_of(self, tenant_id: str, server: str, uri: str) -> None:
        for asked, clients in self._subscriptions.wanting(server, uri).items():
            await self._notifier.announce(tenant_id, ResourceUpdated(asked), only=clients)
