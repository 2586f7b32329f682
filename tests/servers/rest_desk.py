"""A REST connector for tests, operations to call with it, and ways for a server to answer."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.servers.bindings import Bindings, bound, entry, frame
from tests.servers.http_server import Handler, Reply
from tests.servers.internet import Internet
from twinraven.connectors import AddressGuard, AddressRules, CircuitBreaker, HttpDelivery, HttpLimits, HttpTransport
from twinraven.connectors.rest import RestConnector

GET: dict[str, Any] = {"type": "rest_call", "method": "GET", "path": "/thing"}
POST: dict[str, Any] = {"type": "rest_call", "method": "POST", "path": "/thing", "body": {"text": "{{text}}"}}
LIMITS = HttpLimits(connect_timeout_ms=1_000, max_response_bytes=100_000)


class Desk:
    """A connector, its bindings, and how long it waited between attempts."""

    def __init__(self, *, guard: AddressGuard | None = None, network: Internet | None = None) -> None:
        self.bindings = Bindings()
        self.pauses: list[float] = []
        rules = AddressRules.of(["127.0.0.0/8", "::1"])
        self.transport = HttpTransport(guard or AddressGuard(rules), limits=LIMITS, network=network)
        delivery = HttpDelivery(self.transport, breaker=CircuitBreaker(threshold=4, pause_s=60), sleep=self._sleep)
        self.connector = RestConnector(self.bindings, delivery)

    async def call(
        self,
        operation: dict[str, Any],
        endpoint: str,
        params: dict[str, Any] | None = None,
        *,
        effect: str = "read",
        key: str | None = None,
        timeout_ms: int = 5_000,
        **stated: Any,
    ) -> Any:
        self.bindings.hold(bound(operation, endpoint, **stated))
        tool = entry(effect=effect, timeout_ms=timeout_ms)
        return await self.connector.invoke(tool, params or {}, call=frame(key=key))

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def always(reply: Reply) -> Handler:
    return lambda _: reply


def in_turn(*replies: Any) -> Handler:
    """Each answer once, the last for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
        await writer.drain()
