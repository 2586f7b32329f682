"""Pools connections to graph databases: one driver per endpoint and credential.

The driver asks us for addresses each time it opens a connection. It is given those that the guard permits, under the
name that was asked for, so that the certificate is checked against the name and the connection goes where we looked.
Routing is not used: a server's own list of other servers is a list of addresses that nobody checked.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from neo4j import AsyncDriver, AsyncGraphDatabase, basic_auth, bearer_auth
from neo4j._addressing import ResolvedAddress  # pyright: ignore[reportPrivateUsage] - the only form that keeps a name
from neo4j.addressing import Address

from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.graph_target import GraphTarget
from twinraven.connectors.loops import PerLoop
from twinraven.connectors.tls import make_tls_context

MAX_DRIVERS = 64

_CONNECT_TIMEOUT_S = 5.0

OpenDriver = Callable[..., AsyncDriver]


@dataclass(slots=True)
class _Kept:
    driver: AsyncDriver
    users: int = 0


class GraphDrivers:
    """Pools drivers per event loop; above the limit, unused ones are closed, oldest first."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._drivers = PerLoop(OrderedDict[str, _Kept], _close_drivers)

    @asynccontextmanager
    async def lease(self, target: GraphTarget) -> AsyncGenerator[AsyncDriver]:
        """Provide a driver for the target, which stays open meanwhile."""
        drivers = self._drivers.get()
        context = None
        if target.is_encrypted and target.key not in drivers:
            context = await asyncio.to_thread(make_tls_context, target.ca_certificate)
        if target.key not in drivers:
            drivers[target.key] = _Kept(self._open(target, context))
        drivers.move_to_end(target.key)
        kept = drivers[target.key]
        kept.users += 1
        try:
            yield kept.driver
        finally:
            kept.users -= 1
            await _close_surplus(drivers)

    async def aclose(self) -> None:
        """Close what this loop opened."""
        await self._drivers.aclose()

    def _open(self, target: GraphTarget, context: ssl.SSLContext | None) -> AsyncDriver:
        auth = None
        if target.secret is not None:
            auth = bearer_auth(target.secret) if target.is_token else basic_auth(target.user, target.secret)
        open_driver = cast("OpenDriver", AsyncGraphDatabase.driver)  # pyright: ignore[reportUnknownMemberType]
        return open_driver(
            target.name,
            auth=auth,
            resolver=self._resolve,
            max_connection_pool_size=target.pool_size,
            connection_timeout=_CONNECT_TIMEOUT_S,
            connection_acquisition_timeout=_CONNECT_TIMEOUT_S * 2,
            liveness_check_timeout=30.0,
            user_agent="twinraven",
            telemetry_disabled=True,
            **({} if context is None else {"ssl_context": context}),
        )

    async def _resolve(self, address: Address) -> list[Address]:
        permitted = await self._guard.addresses(str(address.host), int(address.port))
        return [ResolvedAddress((str(found), int(address.port)), host_name=str(address.host)) for found in permitted]


async def _close_drivers(drivers: OrderedDict[str, _Kept]) -> None:
    for kept in drivers.values():
        await kept.driver.close()


async def _close_surplus(drivers: OrderedDict[str, _Kept]) -> None:
    unused = [key for key, kept in drivers.items() if kept.users == 0]
    for key in unused[: max(0, len(drivers) - MAX_DRIVERS)]:
        await drivers.pop(key).driver.close()
