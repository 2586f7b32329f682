"""A whole home: opened, looked after while a door is open, and closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from twinraven.app.learning import Learning
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import SchemaOutdated
from twinraven.foundation.settings import load_settings
from twinraven.storage import check_login, pending_migrations


class TwinRaven(Learning):
    """One home, opened."""

    @asynccontextmanager
    async def watching(self, *, tenant_id: str | None = None) -> AsyncGenerator[None]:
        """Begin with what is stored now, and look after services while the block lasts; of all tenants, or of one."""
        from twinraven.catalog import HealthWatch

        async def tenants() -> list[str]:
            return [each.tenant_id for each in await self.tenancy.tenants()] if tenant_id is None else [tenant_id]

        for each in await tenants():
            await self.learned.refresh(each)
            await self.defined.source.refresh(each)
        every_s = self.settings.connectors.health_every_s
        if every_s == 0:
            yield
            return
        async with HealthWatch(self.defined.health, tenants, every_s=every_s).running():
            yield

    async def aclose(self) -> None:
        """`close`, inside a loop that goes on: connections to services are closed first, and nothing blocks it."""
        import asyncio

        if "services" in self.__dict__:
            await self.services.aclose()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Write what is queued and let go of everything; connections to services end with the loop that opened them."""
        for part in ("rounds", "spans", "collector", "learned", "redactor", "database"):
            if part in self.__dict__:
                getattr(self, part).close()

    def __enter__(self) -> TwinRaven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_home(
    home: Path | None = None,
    *,
    functions: Iterable[Callable[..., Any]] = (),
    micros: Callable[[], int] = now_micros,
    operator: Callable[[], Actor] = lambda: SYSTEM,
) -> TwinRaven:
    """Open a home that exists; the embedded database is brought up to date, a shared one must be."""
    raven = TwinRaven(load_settings(home), functions=functions, micros=micros, operator=operator)
    with ExitStack() as unless_opened:
        unless_opened.callback(raven.close)
        pending = pending_migrations(raven.database)
        if pending and raven.database.dialect == "postgres":
            raise SchemaOutdated(f"the database lacks {', '.join(pending)}", fix="twinraven db upgrade")
        if pending:
            raven.database.migrate()
        check_login(raven.database)
        unless_opened.pop_all()
    return raven
