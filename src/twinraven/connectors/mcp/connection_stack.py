"""Keeps idle HTTP connections to one upstream server on a stack, and takes the last one that was used.

httpcore's pool goes through all its connections at each request and again at the end of its answer, to find one that is
free and to close those that have expired; so the more calls came at once, the dearer each became. On a stack the last
used one is free by construction, and the first are those that expire.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from anyio import CancelScope
from httpcore2 import AsyncHTTPConnection, AsyncNetworkBackend, ConnectionNotAvailable, Origin, Request, Response

_MOST: Final = 100
"""How many connections there may be at once: each call holds one until it is answered."""
_IDLE_S: Final = 2.0
"""How long a connection is kept for the next call: servers close an idle one after five seconds and more."""


class ConnectionStack:
    """The connections to a server, as httpx expects a pool."""

    def __init__(self, network: AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context
        self._idle: dict[str, deque[AsyncHTTPConnection]] = {}
        self._places = asyncio.Semaphore(_MOST)

    async def handle_async_request(self, request: Request) -> Response:
        """Send a request; its connection is free again when the response is closed."""
        await self._places.acquire()
        try:
            response, connection = await self._sent(request)
        except BaseException:
            self._places.release()
            raise
        body = _Body(response, connection, request.url.origin, self)
        extensions = cast("dict[str, Any]", response.extensions)
        return Response(response.status, headers=response.headers, content=body, extensions=extensions)

    async def _sent(self, request: Request) -> tuple[Response, AsyncHTTPConnection]:
        idle = self._idle_at(request.url.origin)
        while True:
            connection = idle.pop() if idle else self._opened(request.url.origin)
            if connection.is_idle() and connection.has_expired():
                await connection.aclose()
                continue
            try:
                return await connection.handle_async_request(request), connection
            except ConnectionNotAvailable:
                continue
            except BaseException:
                with CancelScope(shield=True):
                    await connection.aclose()
                raise

    def _idle_at(self, origin: Origin) -> deque[AsyncHTTPConnection]:
        return self._idle.setdefault(str(origin), deque())

    def _opened(self, origin: Origin) -> AsyncHTTPConnection:
        return AsyncHTTPConnection(
            origin, ssl_context=self._context, keepalive_expiry=_IDLE_S, network_backend=self._network
        )

    async def take_back(self, connection: AsyncHTTPConnection, origin: Origin) -> None:
        """Keep a connection whose response was read to its end, and close any other, and those that have expired."""
        self._places.release()
        idle = self._idle_at(origin)
        if connection.is_idle():
            idle.append(connection)
        else:
            await connection.aclose()
        while idle and idle[0].has_expired():
            await idle.popleft().aclose()

    async def aclose(self) -> None:
        for idle in self._idle.values():
            while idle:
                await idle.pop().aclose()

    async def __aenter__(self) -> ConnectionStack:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class _Body:
    """The body of a response, which gives its connection back."""

    def __init__(
        self, response: Response, connection: AsyncHTTPConnection, origin: Origin, stack: ConnectionStack
    ) -> None:
        self._stream = cast("Any", response.stream)
        self._connection = connection
        self._origin = origin
        self._stack = stack
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with CancelScope(shield=True):
                await self._stream.aclose()
                await self._stack.take_back(self._connection, self._origin)
