"""Services are looked after while a door is open, on both stores."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import forked_command
from tests.gateways import free_port, home_with, until
from tests.homes import opened_home
from tests.postgres import PostgresLogin
from tests.servers.http_server import HttpServer, Received, Reply, Write, serving
from tests.unit.catalog.town import CONNECTION, service_body, tool_body
from twinraven.app import TwinRaven, open_home
from twinraven.catalog import HealthStatus, Service, ServiceSpec, ToolSpec
from twinraven.tenancy import LOCAL, Principal


class Shop:
    """A service that is well or not, as the test wants it."""

    def __init__(self) -> None:
        self.status = 200

    def answer(self, request: Received) -> Reply:
        del request
        return Reply(self.status)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def server(shop: Shop) -> AsyncGenerator[HttpServer]:
    async with serving(shop.answer) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
async def raven(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param == "postgres":
        login = request.getfixturevalue("postgres_login")
    settings: dict[str, Any] = {"allow_private": ["127.0.0.0/8"], "health_every_s": 0.1}
    with opened_home(tmp_path, postgres=login, connectors=settings) as raven:
        yield raven
        await raven.aclose()


async def define(raven: TwinRaven, who: Principal, server: HttpServer, **fields: Any) -> None:
    schema = {**CONNECTION, "properties": {**CONNECTION["properties"], "health_path": {"type": "string"}}}
    body = service_body(protocol="http", connectionSchema=schema, **fields)
    await raven.defined.services.create(who, ServiceSpec.from_json(body))
    params = {"endpoint": server.url, "health_path": "/health"}
    await raven.defined.tools.create(who, ToolSpec.from_json(tool_body(connectionParams=params)))


async def seen(raven: TwinRaven, who: Principal = LOCAL) -> Service:
    return await raven.defined.services.service(who, "shop")


def is_found(raven: TwinRaven, status: HealthStatus, who: Principal = LOCAL) -> Callable[[], Awaitable[bool]]:
    async def met() -> bool:
        return (await seen(raven, who)).status is status

    return met


@pytest.mark.req("AD-03")
async def test_a_service_that_fails_and_recovers_is_noticed(raven: TwinRaven, shop: Shop, server: HttpServer) -> None:
    """Nobody asks, and still the catalogue says what is so, for every tenant."""
    tenant = await raven.tenancy.create_tenant("other")
    eve = await raven.tenancy.add_user(tenant.tenant_id, "eve")
    stranger = Principal(tenant.tenant_id, eve.user_id, "member")
    await define(raven, LOCAL, server)
    await define(raven, stranger, server)
    assert (await seen(raven)).last_health_check is None
    async with raven.watching():
        await until(is_found(raven, HealthStatus.HEALTHY))
        await until(is_found(raven, HealthStatus.HEALTHY, stranger))
        shop.status = 503
        await until(is_found(raven, HealthStatus.DEGRADED))
        assert "503" in str((await seen(raven)).error_message)
        shop.status = 200
        await until(is_found(raven, HealthStatus.HEALTHY))
    looked = len(server.received)
    await asyncio.sleep(0.3)
    assert len(server.received) == looked


async def test_one_tenants_services_alone_are_watched_where_that_is_asked(raven: TwinRaven, server: HttpServer) -> None:
    """A door of one tenant looks after that tenant; a disabled service is left alone."""
    tenant = await raven.tenancy.create_tenant("other")
    eve = await raven.tenancy.add_user(tenant.tenant_id, "eve")
    stranger = Principal(tenant.tenant_id, eve.user_id, "member")
    await define(raven, LOCAL, server, enabled=False)
    await define(raven, stranger, server)
    async with raven.watching(tenant_id=tenant.tenant_id):
        await until(is_found(raven, HealthStatus.HEALTHY, stranger))
    assert (await seen(raven)).last_health_check is None


async def test_a_door_opens_with_what_is_stored(raven: TwinRaven, server: HttpServer) -> None:
    """What another process changed before is known when the block begins."""
    assert raven.catalog.entries("default") == []
    with open_home(raven.home) as other:
        await define(other, LOCAL, server)
        await other.aclose()
    async with raven.watching():
        assert [entry.tool_id for entry in raven.defined.source.entries("default")] == ["get_order"]


async def test_watching_can_be_switched_off(tmp_path: Path, server: HttpServer) -> None:
    """With no seconds between looks there are none."""
    settings: dict[str, Any] = {"allow_private": ["127.0.0.0/8"], "health_every_s": 0}
    with opened_home(tmp_path, connectors=settings) as raven:
        await define(raven, LOCAL, server)
        async with raven.watching():
            await asyncio.sleep(0.2)
        assert server.received == []


async def test_a_look_ends_in_the_time_that_is_set(tmp_path: Path, server: HttpServer) -> None:
    """How long a service may take to answer a look is a setting, and one that takes longer says which."""
    settings: dict[str, Any] = {"allow_private": ["127.0.0.0/8"], "health_timeout_s": 0.05}
    blocked = asyncio.Event()

    async def say_nothing(_writer: asyncio.StreamWriter) -> None:
        await blocked.wait()

    def listen(_request: Received) -> Write:
        return say_nothing

    server.handler = listen
    with opened_home(tmp_path, connectors=settings) as raven:
        await define(raven, LOCAL, server)
        found = await raven.defined.health.check_health(LOCAL, "shop")
        blocked.set()
        assert (found.status, found.error_message) == (
            HealthStatus.DOWN,
            "did not answer within 0.05 s (connectors.health_timeout_s)",
        )


@pytest.mark.req("AD-03")
@pytest.mark.parametrize("door", [("gateway",), ("gateway", "--http"), ("worker",)], ids=" ".join)
async def test_every_door_watches_while_it_is_open(tmp_path: Path, server: HttpServer, door: tuple[str, ...]) -> None:
    """A gateway on stdio, one on a port and a worker each look again and again, and nobody asks them to."""
    shell = home_with(tmp_path, {}, connectors={"allow_private": ["127.0.0.0/8"], "health_every_s": 0.1})
    with open_home(tmp_path / ".twinraven") as raven:
        await define(raven, LOCAL, server)
        await raven.aclose()
    arguments = [*door, f"127.0.0.1:{free_port()}"] if "--http" in door else [*door]
    with subprocess.Popen(
        [*forked_command(), *arguments], cwd=shell.folder, env=shell.environment(), stdin=subprocess.PIPE
    ) as process:
        try:
            await until(lambda: len(server.received) > 1)
        finally:
            process.kill()
    assert {request.target for request in server.received} == {"/health"}
