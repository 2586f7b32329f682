"""A home behind its REST API on a real socket, and a way to it that loses answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from twinraven.api import api_app
from twinraven.app import TwinRaven
from twinraven.serving import Authenticator, listener
from twinraven.tenancy import LOCAL


@asynccontextmanager
async def served(raven: TwinRaven, *, port: int = 0) -> AsyncGenerator[str]:
    """The address at which a home's API answers, on this event loop."""
    app = api_app(raven, Authenticator(raven.tenancy, without_key=LOCAL))
    port = port or free_port()
    server = listener(app, "127.0.0.1", port)
    serving = asyncio.ensure_future(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@dataclass
class Way:
    """A proxy that carries requests to a server and, when told to, loses the answer."""

    url: str = ""
    lose: Callable[[bytes], bool] = field(default=lambda _: False)
    """Whether the answer to a request is lost; asked with the request's first bytes."""
    requests: list[bytes] = field(default_factory=list[bytes])
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    def cut(self) -> None:
        """Break every connection that is open."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()


@asynccontextmanager
async def a_way_to(url: str) -> AsyncGenerator[Way]:
    """A proxy in front of a server."""
    host, _, port = url.removeprefix("http://").partition(":")
    way = Way()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_connection(host, int(port))
        way.writers += [writer, ahead]
        is_lost = asyncio.Event()
        ways = {
            asyncio.ensure_future(_carry_requests(way, reader, ahead, is_lost)),
            asyncio.ensure_future(_carry_answers(behind, writer, is_lost)),
        }
        # Requests go on until an answer is lost: a request may come in several parts.
        _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for end in (writer, ahead):
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    way.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield way
        way.cut()


async def _carry_requests(
    way: Way, reader: asyncio.StreamReader, ahead: asyncio.StreamWriter, is_lost: asyncio.Event
) -> None:
    with suppress(ConnectionError):
        while request := await reader.read(1 << 20):
            way.requests.append(request)
            if way.lose(request):
                is_lost.set()
            ahead.write(request)
            await ahead.drain()


async def _carry_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_lost: asyncio.Event) -> None:
    """Carry answers, until one of them is to be lost: the server has given it, and nobody gets to hear it."""
    with suppress(ConnectionError):
        while (part := await reader.read(1 << 16)) and not is_lost.is_set():
            writer.write(part)
            await writer.drain()
