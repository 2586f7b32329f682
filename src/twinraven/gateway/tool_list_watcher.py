"""Detects changes to a tenant's tool list, made by any process, and triggers `tools/list_changed`.

Every change (a promotion, a retirement, a quarantine, an owner's word, an upstream's new tools) raises the catalogue's
version; the change feed tells the registry, which reports it here within a second. What was offered before is compared
with what is offered now, so that clients are told only when something they can see has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcp.server.subscriptions import ToolsListChanged

from twinraven.connectors import UpstreamTools
from twinraven.foundation.errors import TwinRavenError
from twinraven.gateway.client_notifier import ClientNotifier
from twinraven.gateway.tool_exposure import ToolExposure
from twinraven.registry import LearnedTools

_logger = logging.getLogger("twinraven.gateway")


class ToolListWatcher:
    """Compares what is offered with what was, whenever the catalogue changed, and notifies clients if it differs."""

    def __init__(
        self, learned: LearnedTools, tools: UpstreamTools, toolbox: ToolExposure, notifier: ClientNotifier
    ) -> None:
        self._learned = learned
        self._tools = tools
        self._toolbox = toolbox
        self._notifier = notifier
        self._shown: dict[str, list[object]] = {}
        self._arrived: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self, tenant_id: str) -> None:
        """Begin to watch, and know what is offered now."""
        loop = asyncio.get_running_loop()

        def arrived(changed: str, version: int) -> None:
            del version
            self._tools.reload(changed)
            loop.call_soon_threadsafe(self._arrived.put_nowait, changed)

        await self._learned.refresh(tenant_id)
        self._unsubscribe = self._learned.subscribe(arrived)
        self._has_changed(tenant_id)
        self._task = asyncio.create_task(self._pass_on(), name="gateway tool list watcher")

    async def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._notifier.close()

    async def _pass_on(self) -> None:
        while True:
            tenant_id = await self._arrived.get()
            try:
                if self._has_changed(tenant_id):
                    await self._notifier.announce(tenant_id, ToolsListChanged())
            except TwinRavenError as error:
                _logger.warning("clients could not be told of other tools: %s", error)

    def _has_changed(self, tenant_id: str) -> bool:
        shown: list[object] = list(self._toolbox.shown(tenant_id))
        before = self._shown.get(tenant_id)
        self._shown[tenant_id] = shown
        return before != shown
