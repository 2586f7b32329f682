"""Connections to an upstream server: used again, bounded in number, and closed when they expire."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
from httpcore2 import Request, Response

from twinraven.connectors.mcp import connection_stack
from twinraven.connectors.mcp.connection_stack import ConnectionStack
from twinraven.connectors.streams import AsyncioNetwork

HERE = "127.0.0.1"


class Desk:
    """A server that answers each request when it is let."""

    def __init__(self) -> None:
        self.open = 0
        self.opened = 0
        self.asked = asyncio.Semaphore(0)
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.address = ""
        self.has_closed = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.opened += 1
        self.writers.append(writer)
        with suppress(ConnectionError):
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                self.asked.release()
                await self.may_answer.wait()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        self.open -= 1
        self.has_closed.set()
        writer.close()

    async def until_open(self, most: int) -> None:
        """Return once no more connections than that are open."""
        while self.open > most:
            self.has_closed.clear()
            await self.has_closed.wait()


@asynccontextmanager
async def desk() -> AsyncGenerator[tuple[Desk, ConnectionStack]]:
    made = Desk()
    async with asyncio.timeout(60), await asyncio.start_server(made.serve, HERE, 0) as server:
        made.address = f"http://{HERE}:{server.sockets[0].getsockname()[1]}/"
        async with ConnectionStack(AsyncioNetwork(), ssl.create_default_context()) as stack:
            yield made, stack
        await made.until_open(0)
        await asyncio.gather(*(writer.wait_closed() for writer in made.writers), return_exceptions=True)


async def ask(stack: ConnectionStack, address: str) -> Response:
    response = await stack.handle_async_request(Request("GET", address, headers=[("host", HERE)]))
    assert await response.aread() == b"ok"
    await response.aclose()
    return response


async def test_a_connection_is_used_again() -> None:
    """One after the other needs one connection, and a burst leaves no more behind than it opened."""
    async with desk() as (server, stack):
        for _ in range(5):
            await ask(stack, server.address)
        assert server.opened == 1
        await asyncio.gather(*(ask(stack, server.address) for _ in range(10)))
        await asyncio.gather(*(ask(stack, server.address) for _ in range(10)))
        assert server.opened <= 10


async def test_the_number_of_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request more than there may be connections waits for one of them, and goes on when it is answered."""
    monkeypatch.setattr(connection_stack, "_MOST", 3)
    async with desk() as (server, stack):
        server.may_answer.clear()
        asking = [asyncio.create_task(ask(stack, server.address)) for _ in range(5)]
        for _ in range(3):
            await server.asked.acquire()
        assert (server.opened, server.asked.locked()) == (3, True)
        server.may_answer.set()
        await asyncio.gather(*asking)
        assert server.opened == 3


async def test_a_request_that_is_given_up_leaves_its_place() -> None:
    """A cancelled request closes its connection, and others find places as before."""
    async with desk() as (server, stack):
        server.may_answer.clear()
        for _ in range(connection_stack._MOST + 1):  # pyright: ignore[reportPrivateUsage]
            asking = asyncio.create_task(ask(stack, server.address))
            await server.asked.acquire()
            asking.cancel()
            await asyncio.wait([asking])
        server.may_answer.set()
        await ask(stack, server.address)
        await server.until_open(1)


async def test_connections_that_expired_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a burst left behind is closed by later requests, and never used after its time."""
    monkeypatch.setattr(connection_stack, "_IDLE_S", 0.05)
    async with desk() as (server, stack):
        await asyncio.gather(*(ask(stack, server.address) for _ in range(10)))
        await asyncio.sleep(0.1)
        before = server.opened
        await ask(stack, server.address)
        assert server.opened == before + 1
        await server.until_open(1)
