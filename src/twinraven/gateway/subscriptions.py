"""Tracks which client subscribed to which resource.

A client names a resource by the address it was shown, an upstream server by its own; who told of the one must hear of
the other. Clients with a handshake subscribe one by one and are told on their connection; clients of the newest
revision name their resources with the stream on which they listen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.gateway.callers import Caller
from twinraven.gateway.prompt_resource_index import LocatedItem, PromptResourceIndex

_PATIENCE_S: Final = 10.0
_MOST: Final = 256
"""How many resources one client may want to hear of."""
_logger = logging.getLogger("twinraven.gateway")


class SubscribableServers(Protocol):
    """Subscribes to resources of the upstream servers."""

    async def subscribe(self, tenant_id: str, server: str, uri: str) -> None: ...

    async def unsubscribe(self, tenant_id: str, server: str, uri: str) -> None: ...


class Subscriptions:
    """Every wish of every client that is connected."""

    def __init__(self, upstreams: SubscribableServers, library: PromptResourceIndex) -> None:
        self._upstreams = upstreams
        self._library = library
        self._wishes: dict[int, dict[str, tuple[str, LocatedItem]]] = {}

    async def add(self, client: int, caller: Caller, uri: str) -> None:
        """Subscribe a client to a resource, under the URI it uses itself."""
        wishes = self._wishes.setdefault(client, {})
        if uri in wishes:
            return
        if len(wishes) >= _MOST:
            raise InvalidInput(f"a client may subscribe to {_MOST} resources", field="uri")
        tenant_id = caller.principal.tenant_id
        async with asyncio.timeout(_PATIENCE_S):
            found = await self._library.find_resource(tenant_id, caller.name, uri)
            await self._upstreams.subscribe(tenant_id, found.server, found.identity)
        if self._wishes.get(client) is wishes:
            wishes[uri] = (tenant_id, found)
        else:
            await self._give_up(tenant_id, found)

    def knows(self, client: int) -> bool:
        """Return whether a client has wanted anything yet."""
        return client in self._wishes

    async def remove(self, client: int, uri: str) -> None:
        """It does not any more."""
        held = self._wishes.get(client, {}).pop(uri, None)
        if held is not None:
            await self._give_up(*held)

    async def _give_up(self, tenant_id: str, found: LocatedItem) -> None:
        """Let go of a wish; a server that cannot be told has forgotten anyway."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._upstreams.unsubscribe(tenant_id, found.server, found.identity)
        except (TwinRavenError, TimeoutError) as error:
            _logger.debug("%r could not be told that nobody listens any more: %s", found.server, error)

    async def leave(self, client: int) -> None:
        """Remove all subscriptions of a client."""
        await asyncio.gather(*(self.remove(client, uri) for uri in list(self._wishes.get(client, {}))))
        self._wishes.pop(client, None)

    @asynccontextmanager
    async def held(self, client: int, caller: Caller, uris: Iterable[str]) -> AsyncGenerator[None]:
        """Provide the wishes of one stream, as long as it is open.

        One that cannot be met is no reason to refuse the stream.
        """
        try:
            await asyncio.gather(*(self._try(client, caller, uri) for uri in dict.fromkeys(uris)))
            yield
        finally:
            await asyncio.shield(self.leave(client))

    async def _try(self, client: int, caller: Caller, uri: str) -> None:
        try:
            await self.add(client, caller, uri)
        except (TwinRavenError, TimeoutError) as error:
            _logger.warning("changes of %r cannot be announced: %s", uri[:200], error)

    def wanting(self, server: str, uri: str) -> dict[str, set[int]]:
        """Return the subscribers to a server's resource or to one that contains it, by the URI they use."""
        wanted: dict[str, set[int]] = {}
        for client, wishes in self._wishes.items():
            for asked, (_, found) in wishes.items():
                if found.server == server and _is_inside(uri, found.identity):
                    wanted.setdefault(asked, set()).add(client)
        return wanted


def _is_inside(uri: str, subscribed: str) -> bool:
    return uri == subscribed or uri.startswith(f"{subscribed.rstrip('/')}/")
