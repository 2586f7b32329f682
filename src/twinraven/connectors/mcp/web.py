"""Connects to an upstream server over streamable HTTP, or SSE for older ones, with limits on what it may send.

A request that could not even be connected is answered with an error of our own, since nothing was sent and the caller
may try again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import httpx2
from httpcore2 import AsyncConnectionPool, AsyncNetworkBackend
from mcp.client.sse import sse_client
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.bodies import ACCEPTED, Gunzip, gunzip_of
from twinraven.connectors.mcp.connection_stack import ConnectionStack
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.streamable import StreamableDispatcher
from twinraven.connectors.mcp.wire import CLOSED, NOT_SENT
from twinraven.connectors.network import GuardedNetwork
from twinraven.connectors.streams import AsyncioNetwork
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidOutput

_CONNECT_S: Final = 10.0
_REFUSALS: Final = {401: "it refuses our credentials", 403: "it forbids the request", 429: "it is asked too often"}


class AnswerTooLong(httpx2.ReadError):
    """The server sends more than it may."""


class AnswerUnreadable(httpx2.ReadError):
    """The server compressed its answer in a way that was not asked for, or broke the compression off."""


class _CappedBody(httpx2.AsyncByteStream):
    """A body, decompressed in small pieces, that ends with an error once it is longer than allowed.

    The limit counts decompressed bytes: a gzip of a hundred kilobytes can hold a hundred megabytes. Between two pieces
    the event loop runs other tasks, so that a long answer delays nobody else.
    """

    def __init__(
        self,
        body: httpx2.AsyncByteStream,
        gunzip: Gunzip | None,
        max_bytes: int | None,
        on_fault: Callable[[str], None],
    ) -> None:
        self._body = body
        self._gunzip = gunzip
        self._max_bytes = max_bytes
        self._on_fault = on_fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for part in self._parts():
            length += len(part)
            if self._max_bytes is not None and length > self._max_bytes:
                reason = f"it sent an answer of more than {self._max_bytes} bytes"
                self._on_fault(reason)
                raise AnswerTooLong(reason)
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()

    async def _parts(self) -> AsyncIterator[bytes]:
        if self._gunzip is None:
            async for part in self._body:
                yield part
            return
        try:
            async for received in self._body:
                for part in self._gunzip.parts(received):
                    yield part
                    await asyncio.sleep(0)
        except InvalidOutput as error:
            raise _unreadable(error, self._on_fault) from None
        if not self._gunzip.is_complete:
            raise _unreadable(InvalidOutput("the answer's compressed body breaks off"), self._on_fault)


class CappedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and bounds what comes back."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int, on_fault: Callable[[str], None]) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._on_fault = on_fault

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = ACCEPTED
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if request.method != "POST":
                raise
            return _error_response(request, 503, NOT_SENT, f"it cannot be reached: {error}")
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            # Such as a server that closes an idle connection at the moment of the request: that request alone is lost.
            if request.method != "POST":
                raise
            return _error_response(request, 502, CLOSED, f"the request was not answered: {error}")
        refusal = _REFUSALS.get(response.status_code)
        if refusal is not None and request.method == "POST":
            await response.aclose()
            reason = f"{refusal} (HTTP {response.status_code})"
            return _error_response(request, response.status_code, NOT_SENT, reason)
        return await self._bounded(response)

    async def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        """Decompress and bound the body here: the client would decompress each received piece whole, however large."""
        try:
            gunzip = gunzip_of(response.headers.pop("content-encoding", ""))
        except InvalidOutput as error:
            await response.aclose()
            raise _unreadable(error, self._on_fault) from None
        # The events of a stream are bounded one by one; the stream itself may last for ever.
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        body = cast("httpx2.AsyncByteStream", response.stream)
        response.stream = _CappedBody(body, gunzip, None if is_stream else self._max_bytes, self._on_fault)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class PooledTransport(httpx2.AsyncHTTPTransport):
    """Sends requests over connections of our own backend, kept on a stack."""

    def __init__(self, network: AsyncNetworkBackend, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = cast("AsyncConnectionPool", ConnectionStack(network, context))


class GuardedTransport(PooledTransport):
    """Connects to addresses that the guard permits, and to no others."""

    def __init__(self, guard: AddressGuard, context: ssl.SSLContext) -> None:
        super().__init__(GuardedNetwork(guard), context)


def _unreadable(error: InvalidOutput, on_fault: Callable[[str], None]) -> AnswerUnreadable:
    reason = error.message
    on_fault(reason)
    return AnswerUnreadable(reason)


def _error_response(request: httpx2.Request, status: int, code: int, message: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(status, headers=headers, content=canonical_json(body), request=request)


@asynccontextmanager
async def web_link(
    server: ServerConfig,
    *,
    max_bytes: int,
    on_fault: Callable[[str], None],
    transport: httpx2.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Dispatcher[Any]]:
    """Speak to the address as long as the block does."""
    if transport is None:
        transport = PooledTransport(AsyncioNetwork(), httpx2.create_ssl_context())
    capped = CappedTransport(transport, max_bytes, on_fault)
    if server.transport == "sse":
        factory = partial(_client, transport=capped)
        async with sse_client(server.url, headers=dict(server.headers), httpx_client_factory=factory) as (read, write):
            yield JSONRPCDispatcher(read, write)
        return
    async with capped:
        posting = StreamableDispatcher(
            server.url,
            capped,
            headers=server.headers,
            connect_s=_CONNECT_S,
            max_bytes=max_bytes,
            on_fault=on_fault,
        )
        try:
            yield posting
        finally:
            await posting.say_goodbye()
            posting.close()


def _client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    *,
    transport: httpx2.AsyncBaseTransport,
) -> httpx2.AsyncClient:
    # Proxies of the environment are left alone: the address is the owner's, and so is the way to it.
    return httpx2.AsyncClient(
        headers=headers,
        timeout=timeout or httpx2.Timeout(None, connect=_CONNECT_S),
        auth=auth,
        transport=transport,
        trust_env=False,
    )
