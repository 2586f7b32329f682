"""Telling clients that the list of tools is another one, each in the way its revision knows.

Clients of the newest revision open a subscription and are told through it; older ones are told on their connection, as
long as it lives. A client that does not read is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven.gateway.callers import Callers

_PATIENCE_S: Final = 5.0
_INITIALIZED: Final = "notifications/initialized"
_logger = logging.getLogger("twinraven.gateway")


class Announcements:
    """Knows who wants to be told, by tenant."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._buses: dict[str, InMemorySubscriptionBus] = {}
        self._listeners: dict[str, ListenHandler] = {}
        self._older: dict[int, tuple[str, ServerSession]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def notice(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """As the server's middleware: remember each older client from its first word to its last."""
        result = await call_next(ctx)
        if ctx.method == _INITIALIZED and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._remember(ctx)
        return result

    def _remember(self, context: ServerRequestContext[Any, Any]) -> None:
        # The SDK means handlers to push clean-up here and has no public way to it yet.
        connection = context.session._connection  # pyright: ignore[reportPrivateUsage]
        self._older[id(connection)] = (self._callers.of(context).principal.tenant_id, context.session)
        connection.exit_stack.callback(self._older.pop, id(connection), None)

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve the subscription of a client of the newest revision."""
        tenant_id = self._callers.of(context).principal.tenant_id
        bus = self._buses.setdefault(tenant_id, InMemorySubscriptionBus())
        listener = self._listeners.setdefault(tenant_id, ListenHandler(bus))
        return await listener(context, params)

    async def announce(self, tenant_id: str) -> None:
        """Tell everybody of a tenant."""
        bus = self._buses.get(tenant_id)
        if bus is not None:
            await bus.publish(ToolsListChanged())
        for of_tenant, session in list(self._older.values()):
            if of_tenant == tenant_id:
                task = asyncio.ensure_future(_tell(session))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()


async def _tell(session: ServerSession) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await session.send_tool_list_changed()
    except Exception as error:  # noqa: BLE001 - one client's broken connection is not the others' concern
        _logger.debug("a client could not be told of other tools: %s", error)
