"""Calls from the event loop of another thread: servers and services answer there too, for every tenant."""

from __future__ import annotations

import asyncio
import json
from asyncio import StreamWriter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.gateways import OLD
from tests.homes import make_home
from tests.servers.http_server import Received, Reply, Write, serving
from tests.unit.catalog.town import CONNECTION, tool_body
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext
from twinraven.catalog import ServiceSpec, ToolSpec
from twinraven.tenancy import LOCAL

T = TypeVar("T")


async def elsewhere(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work on a loop of its own, on a thread of its own."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))


def home_with_server(folder: Path) -> Path:
    home = make_home(folder, connectors={"allow_private": ["127.0.0.0/8"]})
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"old": OLD}}))
    return home


async def call(raven: TwinRaven, tool: str, *, tenant_id: str = "default", **params: Any) -> Any:
    return await raven.calls.call(tool, params, CallContext("s", durable=False), tenant_id=tenant_id)


async def pid_of(raven: TwinRaven, **where: str) -> Any:
    return await call(raven, "old__pid", **where)


async def test_a_server_answers_other_loops(tmp_path: Path) -> None:
    """A program started for one loop serves another thread's; a call there can be cancelled."""
    with open_home(home_with_server(tmp_path)) as raven:
        async with raven.upstreams.of("default") as pool:
            await pool.settle(20)
            here = await pid_of(raven)
            assert await elsewhere(lambda: pid_of(raven)) == here
            assert await elsewhere(lambda: _given_up(pool.call("default", "old", "hang", {})))
        await raven.aclose()


async def _given_up(work: Coroutine[Any, Any, Any]) -> bool:
    """Begin work, and cancel it when it has been sent."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=0.3)
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


async def test_each_tenant_has_servers_of_its_own(tmp_path: Path) -> None:
    """Two tenants call the same configured server in one process, and each has a program of its own."""
    with open_home(home_with_server(tmp_path)) as raven:
        other = await raven.tenancy.create_tenant("acme")
        for tenant_id in ("default", other.tenant_id):
            await raven.upstreams.of(tenant_id).settle(20)
        pids = {tenant_id: await pid_of(raven, tenant_id=tenant_id) for tenant_id in ("default", other.tenant_id)}
        assert len({json.dumps(pid) for pid in pids.values()}) == 2
        await raven.aclose()


async def test_servers_outlive_the_loop_that_started_them(tmp_path: Path) -> None:
    """When the loop on which the servers lived has ended, the next one that calls starts them anew."""
    with open_home(home_with_server(tmp_path)) as raven:

        async def first() -> Any:
            await raven.upstreams.of("default").settle(20)
            return await pid_of(raven)

        before = await elsewhere(first)
        assert await pid_of(raven) != before
        await raven.aclose()


async def test_a_service_answers_other_loops(tmp_path: Path) -> None:
    """A REST service is called on two loops at once, each with connections of its own, and a call can be cancelled."""

    async def never(_: StreamWriter) -> None:
        await asyncio.Event().wait()

    def answer(request: Received) -> Reply | Write:
        return never if request.target == "/orders/late" else Reply(200, {"target": request.target})

    async with serving(answer) as server:
        with open_home(home_with_server(tmp_path)) as raven:
            await _define(raven, server.url)
            found = await asyncio.gather(
                call(raven, "get_order", orderId="1"), elsewhere(lambda: call(raven, "get_order", orderId="2"))
            )
            assert [each["target"] for each in found] == ["/orders/1", "/orders/2"]
            assert server.connections == 2
            assert await elsewhere(lambda: _given_up(call(raven, "get_order", orderId="late")))
            await raven.aclose()


async def _define(raven: TwinRaven, url: str) -> None:
    service = {"name": "shop", "type": "rest_api", "protocol": "http", "connectionSchema": CONNECTION}
    await raven.defined.services.create(LOCAL, ServiceSpec.from_json(service))
    await raven.defined.tools.create(LOCAL, ToolSpec.from_json(tool_body(connectionParams={"endpoint": url})))
