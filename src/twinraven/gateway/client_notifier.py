"""Sends list-changed and resource-updated notifications to MCP clients, in the form their protocol revision supports.

Clients of the newest revision open a subscription and are told through it; older ones are told on their connection, as
long as it lives. A client that does not read is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven.gateway.callers import Callers
from twinraven.gateway.channels import connection_of

_PATIENCE_S: Final = 5.0
_INITIALIZED: Final = "notifications/initialized"
_HANDSHAKE: Final = frozenset({"initialize", _INITIALIZED})
_logger = logging.getLogger("twinraven.gateway")


class ClientNotifier:
    """Keeps the clients of each tenant that want notifications, and sends them."""

    def __init__(self, callers: Callers, *, declarable: Callable[[], Awaitable[None]]) -> None:
        """`declarable` returns when it can be said what is offered."""
        self._callers = callers
        self._declarable = declarable
        self._buses: dict[str, InMemorySubscriptionBus] = {}
        self._listeners: dict[str, ListenHandler] = {}
        self._older: dict[int, tuple[str, ServerSession]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def notice(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """As the server's middleware: remember each older client from its first word to its last."""
        if ctx.method not in _HANDSHAKE:
            return await call_next(ctx)
        if ctx.method != _INITIALIZED:
            await self._declarable()
            return await call_next(ctx)
        result = await call_next(ctx)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._remember(ctx)
        return result

    def _remember(self, context: ServerRequestContext[Any, Any]) -> None:
        connection = connection_of(context)
        self._older[id(connection)] = (self._callers.of(context).principal.tenant_id, context.session)
        connection.exit_stack.callback(self._older.pop, id(connection), None)

    def only(self, tenant_id: str) -> Connection | None:
        """Return the connection of the one older client of a tenant, if there is exactly one."""
        found = [session for of_tenant, session in self._older.values() if of_tenant == tenant_id]
        return found[0]._connection if len(found) == 1 else None  # pyright: ignore[reportPrivateUsage]

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve the subscription of a client of the newest revision."""
        tenant_id = self._callers.of(context).principal.tenant_id
        bus = self._buses.setdefault(tenant_id, InMemorySubscriptionBus())
        listener = self._listeners.setdefault(tenant_id, ListenHandler(bus))
        return await listener(context, params)

    async def announce(self, tenant_id: str, event: ServerEvent, *, only: Collection[int] | None = None) -> None:
        """Notify all clients of a tenant; of older ones only these, where connections are named."""
        bus = self._buses.get(tenant_id)
        if bus is not None:
            await bus.publish(event)
        for client, (of_tenant, session) in list(self._older.items()):
            if of_tenant == tenant_id and (only is None or client in only):
                task = asyncio.ensure_future(_tell(session, event))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()


async def _tell(session: ServerSession, event: ServerEvent) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _send(session, event)
    except (MCPError, OSError) as error:  # closed, or too slow: a time-out is an OSError
        _logger.debug("a client could not be told of a change: %s", error)


async def _send(session: ServerSession, event: ServerEvent) -> None:
    if isinstance(event, ToolsListChanged):
        await session.send_tool_list_changed()
    elif isinstance(event, PromptsListChanged):
        await session.send_prompt_list_changed()
    elif isinstance(event, ResourceUpdated):
        await session.send_resource_updated(event.uri)
    else:
        await session.send_resource_list_changed()
