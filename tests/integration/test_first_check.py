"""What was never checked is checked before its first call is sent, within the call's own time, and before its key."""

from __future__ import annotations

import asyncio
from asyncio import StreamWriter
from collections.abc import AsyncGenerator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Reply as Answer
from tests.api_homes import ApiHome, api_home, made
from tests.gateways import until
from tests.servers.http_server import HttpServer, Received, Reply, Write, serving

SERVICE = {
    "name": "shop",
    "type": "rest_api",
    "protocol": "http",
    "connectionSchema": {
        "type": "object",
        "required": ["endpoint"],
        "properties": {"endpoint": {"type": "string"}, "health_path": {"type": "string", "default": "/health"}},
    },
}


class Shop:
    """A service whose health can be good, bad or slow to tell."""

    def __init__(self) -> None:
        self.is_well = True
        self.is_slow = False

    def answer(self, request: Received) -> Reply | Write:
        if request.target != "/health":
            return Reply(200, {"state": "done"})
        return self._hang if self.is_slow else Reply(200) if self.is_well else self._hang_up

    async def _hang(self, writer: StreamWriter) -> None:
        del writer
        await asyncio.sleep(60)

    async def _hang_up(self, writer: StreamWriter) -> None:
        writer.close()


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def server(shop: Shop) -> AsyncGenerator[HttpServer]:
    async with serving(shop.answer) as server:
        yield server


@pytest.fixture
async def home(tmp_path: Path, server: HttpServer) -> AsyncGenerator[ApiHome]:
    connectors = {"allow_private": ["127.0.0.0/8"]}
    rules = [{"tool": "forbidden", "then": "deny", "reason": "not this one"}]
    async with api_home(tmp_path, connectors=connectors, policy={"rules": rules}) as home:
        made(await home.door.post("/v1/services", SERVICE))
        await define(home, server, "look", "GET")
        yield home
        await home.raven.aclose()


async def define(home: ApiHome, server: HttpServer, key: str, method: str, **fields: Any) -> None:
    """A tool on the shop."""
    body = {
        "key": key,
        "description": "Something of the shop.",
        "service": "shop",
        "connectionParams": {"endpoint": server.url},
        "operation": {"type": "rest_call", "method": method, "path": f"/{key}"},
        "inputSchema": {"type": "object"},
    }
    made(await home.door.post("/v1/tools", {**body, **fields}))


async def call(home: ApiHome, tool: str, key: str | None = None) -> Answer:
    headers = {} if key is None else {"Idempotency_Key": key}
    return await home.door.post("/v1/calls", {"tool_name": tool, "payload": {}, "session_id": "s"}, **headers)


async def limit(home: ApiHome, tool: str, timeout_ms: int) -> None:
    """Give a tool another time; what is in no hurry gets as much as a busy machine takes."""
    place = f"/v1/tools/{tool}/definition"
    headers = {"If_Match": (await home.door.get(place)).headers["etag"]}
    made(await home.door.patch(place, {"timeout_ms": timeout_ms}, **headers))


def targets(server: HttpServer) -> list[str]:
    return [request.target for request in server.received]


def posts(server: HttpServer) -> list[str]:
    return [target for target in targets(server) if target != "/health"]


async def has_intents(home: ApiHome, count: int) -> bool:
    """Whether so many calls have taken their keys."""
    entries = (await home.door.get("/v1/audit?subject_type=call")).json()["items"]
    return [each["event_type"] for each in entries].count("call.intended") == count


@pytest.mark.req("AD-03")
async def test_the_first_call_is_preceded_by_a_check(home: ApiHome, server: HttpServer) -> None:
    """The check sets what is known of service and tool; it is not made again until one of the two is changed."""
    assert (await call(home, "look")).json()["status"] == "success"
    assert targets(server) == ["/health", "/look"]
    service = (await home.door.get("/v1/services/shop")).json()
    tool = (await home.door.get("/v1/tools/look/definition")).json()
    assert (service["status"], tool["status"]) == ("healthy", "healthy")
    assert service["last_health_check"] is not None
    assert (await call(home, "look")).json()["status"] == "success"
    await define(home, server, "ship", "POST")
    assert (await call(home, "ship", "k")).json()["status"] == "success"
    assert targets(server)[2:] == ["/look", "/health", "/ship"]
    headers = {"If_Match": (await home.door.get("/v1/tools/look/definition")).headers["etag"]}
    changed = {"connectionParams": {"endpoint": f"{server.url}/branch"}}
    assert (await home.door.patch("/v1/tools/look/definition", changed, **headers)).status == 200
    await call(home, "look")
    assert "/branch/health" in targets(server)[5:]


@pytest.mark.req("AD-03")
async def test_what_a_first_check_finds_dead_is_not_called(home: ApiHome, server: HttpServer, shop: Shop) -> None:
    """Neither a read nor a write is sent; the write's key stays free, no intent is recorded, and the failure is."""
    shop.is_well = False
    await define(home, server, "ship", "POST")
    await define(home, server, "forbidden", "POST")
    for tool, key in (("look", None), ("ship", "k")):
        error = (await call(home, tool, key)).json()["error"]
        assert (error["code"], error["retryable"]) == ("TOOL_UNAVAILABLE", True)
        assert "its service 'shop' is down" in error["message"]
    assert set(targets(server)) == {"/health"}
    looked = len(server.received)
    assert (await call(home, "forbidden", "f")).json()["code"] == "POLICY_VIOLATION"
    assert len(server.received) == looked


@pytest.mark.req("AD-03")
async def test_a_check_that_takes_too_long_leaves_no_write_unknown(
    home: ApiHome, server: HttpServer, shop: Shop
) -> None:
    """The check ends with the call's own time: nothing was sent, so nothing is unknown, and the key can be used."""
    shop.is_slow = True
    await define(home, server, "ship", "POST", timeout_ms=300)
    error = (await call(home, "ship", "k")).json()["error"]
    assert (error["code"], error["retryable"]) == ("TOOL_UNAVAILABLE", True)
    assert "checking the service of 'ship' took more than 300 ms" in error["message"]
    assert set(targets(server)) == {"/health"}
    entries = (await home.door.get("/v1/audit?subject_type=call")).json()["items"]
    assert [(each["event_type"], each["code"]) for each in entries] == [("call.failed", "TOOL_UNAVAILABLE")]
    shop.is_slow = False
    made(await home.door.post("/v1/services/shop/checks"))
    await limit(home, "ship", 60_000)
    assert (await call(home, "ship", "k")).json()["status"] == "success"
    assert targets(server)[-1] == "/ship"


@pytest.mark.req("AD-03", "CH-16")
async def test_another_check_of_a_dead_service_leaves_no_write_unknown(
    home: ApiHome, server: HttpServer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service found down is checked again for a call; if that takes the call's time, the key is free again."""
    monkeypatch.setattr("twinraven.catalog.bindings.RECHECK_AFTER", timedelta(0))
    for tool in ("ship", "send"):
        await define(home, server, tool, "POST")
    for tool in ("ship", "send"):
        assert (await call(home, tool, tool)).json()["status"] == "success"
    shop.is_well = False
    checked = made(await home.door.post("/v1/services/shop/checks"))
    assert checked["status"] == "down"
    shop.is_slow = True
    await limit(home, "ship", 300)
    sent = len(posts(server))
    error = (await call(home, "ship", "k")).json()["error"]
    assert (error["code"], error["retryable"]) == ("TOOL_UNAVAILABLE", True)
    assert "nothing was sent: checking the service of 'ship'" in error["message"]
    waiting = asyncio.create_task(call(home, "send", "gone"))
    await until(partial(has_intents, home, 4))
    waiting.cancel()
    await asyncio.wait([waiting])
    shop.is_well, shop.is_slow = True, False
    made(await home.door.post("/v1/services/shop/checks"))
    await limit(home, "ship", 60_000)
    for tool, key in (("ship", "k"), ("send", "gone")):
        assert (await call(home, tool, key)).json()["status"] == "success"
    assert posts(server)[sent:] == ["/ship", "/send"]
