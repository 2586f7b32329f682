"""Connections on asyncio's own transports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from httpcore2 import ConnectError

from twinraven.connectors.streams import AsyncioNetwork

SILENT, REFUSING, ALSO_REFUSING, HERE = "192.0.2.1", "192.0.2.2", "192.0.2.3", "127.0.0.1"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives a host addresses, of which one never answers and one refuses."""

    def name(*addresses: str) -> None:
        loop = asyncio.get_running_loop()
        connect: Any = loop.create_connection

        async def resolved(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        async def connected(factory: Any, host: str, port: int, **more: Any) -> Any:
            if host == SILENT:
                await asyncio.Event().wait()
            if host in (REFUSING, ALSO_REFUSING):
                raise ConnectionRefusedError("refused")
            return await connect(factory, host, port, **more)

        monkeypatch.setattr(loop, "getaddrinfo", resolved)
        monkeypatch.setattr(loop, "create_connection", connected)

    return name


@pytest.mark.parametrize("others", [(SILENT,), (REFUSING,), (REFUSING, SILENT), (HERE, SILENT)])
async def test_a_host_is_reached_at_the_address_that_answers(
    named: Callable[..., None], others: tuple[str, ...]
) -> None:
    """An address that leads nowhere, or where nobody listens, keeps nobody from the host's others."""

    greeted: list[asyncio.StreamWriter] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        greeted.append(writer)
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, HERE, 0) as server:
        port = server.sockets[0].getsockname()[1]
        named(*others, HERE)
        stream = await AsyncioNetwork().connect_tcp("desk.example", port, timeout=30)
        assert await stream.read(100) == b"hello"
        await stream.aclose()
        for writer in greeted:
            with suppress(ConnectionError):
                await writer.wait_closed()


async def test_a_host_that_refuses_everywhere_is_an_error(named: Callable[..., None]) -> None:
    """Where no address takes a connection, the last refusal is said."""
    named(REFUSING, ALSO_REFUSING)
    with pytest.raises(ConnectError, match="refused"):
        await AsyncioNetwork().connect_tcp("desk.example", 1, timeout=30)


async def test_what_is_written_at_once_goes_out_together() -> None:
    """A request's head and body are one packet, in their order; a large part does not wait for the loop's next turn."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    writers: list[asyncio.StreamWriter] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError):
            while part := await reader.read(1_000_000):
                arrived.put_nowait(part)
        arrived.put_nowait(b"")
        writer.close()

    async with asyncio.timeout(60), await asyncio.start_server(listen, HERE, 0) as server:
        stream = await AsyncioNetwork().connect_tcp(HERE, server.sockets[0].getsockname()[1], timeout=30)
        for part in (b"head ", b"body ", b"end"):
            await stream.write(part)
        assert await arrived.get() == b"head body end"
        await stream.write(b"a")
        await stream.write(b"b" * 200_000)
        await stream.write(b"c")
        received = b""
        while len(received) < 200_002:
            received += await arrived.get()
        assert received == b"a" + b"b" * 200_000 + b"c"
        await stream.aclose()
        assert await arrived.get() == b""
        with suppress(ConnectionError):
            await writers[0].wait_closed()
