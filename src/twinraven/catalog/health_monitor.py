"""Monitors the health of services in the background, at jittered intervals.

A home that only answers commands looks at services when it is told to. One that serves others has to know by itself
when a service is gone or back. Several processes may watch one database: each checks what was not checked lately,
at jittered intervals, so that they do not check in step.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from twinraven.catalog.health import HealthChecks
from twinraven.foundation.errors import TwinRavenError

_FIRST_SHARE: Final = 0.1
_logger = logging.getLogger("twinraven.health")


class HealthMonitor:
    """Looks at the services of tenants again and again."""

    def __init__(
        self, health: HealthChecks, tenants: Callable[[], Awaitable[Iterable[str]]], *, every_s: float
    ) -> None:
        """`tenants` is asked before each round, since tenants come and go."""
        self._health = health
        self._tenants = tenants
        self._every_s = every_s

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Watch in the background, as long as the block lasts."""
        watching = asyncio.get_running_loop().create_task(self._watch(), name="health of services")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self) -> None:
        await asyncio.sleep(random.uniform(0, self._every_s * _FIRST_SHARE))
        while True:
            await self._look()
            await asyncio.sleep(self._every_s * random.uniform(0.8, 1.2))

    async def _look(self) -> None:
        """Run one round of checks; a failure in one tenant does not stop the others."""
        try:
            tenants = list(await self._tenants())
        except TwinRavenError as error:
            _logger.warning("services were not looked at: %s", error)
            return
        for tenant_id in tenants:
            try:
                await self._health.check_due(tenant_id, older_than=timedelta(seconds=self._every_s * 0.5))
            except TwinRavenError as error:
                _logger.warning("services of tenant %s were not looked at: %s", tenant_id, error)
