"""An HTTP server on loopback that does what a test tells it to, misbehaving included.

Answers are written to the socket by the test's own code where need be, so a server can drip, flood, lie about lengths
or hang up in the middle. What was received is kept.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """One well-formed answer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def encoded(self) -> bytes:
        raw = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(raw)), **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} Whatever\r\n{head}\r\n".encode() + raw


_PATIENCE_S = 0.05

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]
Handler = Callable[[Received], Reply | Write]


class HttpServer:
    """Answers with what `handler` says; a coroutine function writes to the socket itself and ends the connection."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.received: list[Received] = []
        self.connections = 0
        self.port = 0
        self.is_rude = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._tasks)

    async def left(self) -> None:
        """Return when nobody is connected any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.received.append(request)
                answer = self.handler(request)
                if not isinstance(answer, Reply):
                    self.is_rude = True
                    await answer(writer)
                    break
                writer.write(answer.encoded())
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            if self.is_rude:
                # What a client does not read any more would keep the socket open for ever.
                asyncio.get_running_loop().call_later(_PATIENCE_S, writer.transport.abort)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serving(handler: Handler, *, context: ssl.SSLContext | None = None) -> AsyncGenerator[HttpServer]:
    """A server for the time of a test."""
    server = HttpServer(handler)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()
        await listener.wait_closed()
        await asyncio.sleep(_PATIENCE_S * 1.2 if server.is_rude else 0)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body)
