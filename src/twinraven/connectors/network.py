"""Pools HTTP connections: opened to the checked address under the requested host name, and reused.

The pool sees host names, so the Host header, SNI and the certificate are those of the name; only the moment of
connecting sees an address, and there the guard decides. There is no second look-up that could answer differently.

Each endpoint has a pool of its own: one that hangs cannot use up the connections of the others. Connections belong to
the event loop that opened them.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from httpcore2 import (
    SOCKET_OPTION,
    AsyncConnectionPool,
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
    default_ssl_context,
)

from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.http_model import HttpLimits, HttpRequest
from twinraven.connectors.loops import PerLoop
from twinraven.connectors.streams import AsyncioNetwork
from twinraven.connectors.tls import make_tls_context
from twinraven.connectors.urls import Origin


class GuardedNetwork(AsyncNetworkBackend):
    """Opens connections to permitted addresses alone."""

    def __init__(self, guard: AddressGuard, *, inner: AsyncNetworkBackend | None = None) -> None:
        self._guard = guard
        self._inner = inner or AsyncioNetwork()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the port is the library's
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        until = time.monotonic() + (60.0 if timeout is None else timeout)
        try:
            async with asyncio.timeout(until - time.monotonic()):
                addresses = await self._guard.addresses(host, port)
        except TimeoutError:
            raise ConnectTimeout(f"the host {host!r} was not resolved in time") from None
        failure: ConnectError | ConnectTimeout = ConnectError(f"no address of {host!r} answers")
        for number, address in enumerate(addresses):
            share = max(0.0, until - time.monotonic()) / (len(addresses) - number)
            try:
                return await self._inner.connect_tcp(str(address), port, share, local_address, socket_options)
            except (ConnectError, ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _PoolKey(NamedTuple):
    origin: Origin
    ca_certificate: str | None
    is_strict: bool


_Pools = OrderedDict[_PoolKey, AsyncConnectionPool]


class ConnectionPools:
    """One pool for each endpoint, on each event loop."""

    def __init__(self, guard: AddressGuard, limits: HttpLimits, *, inner: AsyncNetworkBackend | None = None) -> None:
        self._limits = limits
        self._networks = {
            False: GuardedNetwork(guard, inner=inner),
            True: GuardedNetwork(guard.strict(), inner=inner),
        }
        self._pools = PerLoop(_Pools, _close_pools)
        self._contexts: dict[str | None, ssl.SSLContext] = {}

    async def pool(self, request: HttpRequest) -> AsyncConnectionPool:
        """Return the pool for a request; what was not used for longest is closed when there are too many."""
        key = _PoolKey(request.url.origin, request.ca_certificate, request.is_strict)
        context = await self._context(key.ca_certificate) if key.origin.scheme == "https" else None
        pools = self._pools.get()
        if key not in pools:
            pools[key] = self._open(key, context)
            await self._close_surplus(pools)
        pools.move_to_end(key)
        return pools[key]

    async def aclose(self) -> None:
        """Close what this loop opened."""
        await self._pools.aclose()

    def _open(self, key: _PoolKey, context: ssl.SSLContext | None) -> AsyncConnectionPool:
        return AsyncConnectionPool(
            ssl_context=context,
            max_connections=self._limits.connections_per_endpoint,
            keepalive_expiry=self._limits.keep_alive_s,
            network_backend=self._networks[key.is_strict],
        )

    async def _close_surplus(self, pools: _Pools) -> None:
        idle = [key for key, pool in pools.items() if all(each.is_idle() for each in pool.connections)]
        for key in idle[: max(0, len(pools) - self._limits.open_endpoints)]:
            await pools.pop(key).aclose()

    async def _context(self, ca_certificate: str | None) -> ssl.SSLContext:
        if ca_certificate not in self._contexts:
            self._contexts[ca_certificate] = await asyncio.to_thread(
                make_tls_context, ca_certificate, system=default_ssl_context
            )
        return self._contexts[ca_certificate]


async def _close_pools(pools: _Pools) -> None:
    for pool in pools.values():
        await pool.aclose()
