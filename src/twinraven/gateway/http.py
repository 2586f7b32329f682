"""Serves the gateway over HTTP: streamable HTTP for clients of every revision, SSE for older ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinraven.foundation.errors import PolicyViolation
from twinraven.gateway.callers import PRINCIPAL
from twinraven.gateway.server import GatewayServer
from twinraven.gateway.streamable_http import MAX_BODY, StreamableHttp
from twinraven.serving import ENDING, Authenticator, TooManyStreams, is_loopback
from twinraven.tenancy import NotAuthenticated

PATH: Final = "/mcp"
_EVENTS: Final = "/sse"
_CALL: Final = "tools/call"
_LISTEN: Final = b"subscriptions/listen"
_GLANCE_S: Final = 0.1
_LOOPBACK_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")


class _Running:
    """Counts the calls that are running."""

    def __init__(self) -> None:
        self._count = 0

    async def count(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """As the server's middleware."""
        if ctx.method != _CALL:
            return await call_next(ctx)
        self._count += 1
        try:
            return await call_next(ctx)
        finally:
            self._count -= 1

    async def none(self) -> None:
        """Return when none is running and the last answer is on its way."""
        while self._count:
            await asyncio.sleep(_GLANCE_S)
            if not self._count:
                await asyncio.sleep(_GLANCE_S)


class _Stream:
    """One answer that lasts as long as its client, and can be ended from here."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_open = False

    async def send(self, message: Message) -> None:
        self._is_open = message["type"] == "http.response.start" or message.get("more_body", False)
        await self._send(message)

    async def run(self, answering: Awaitable[None], over: Awaitable[None]) -> None:
        """Answer until the answer is complete, or the stream is over for a reason of ours."""
        tasks = [asyncio.ensure_future(answering), asyncio.ensure_future(over)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            is_over = not tasks[0].done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not is_over:
            tasks[0].result()
        elif self._is_open:
            await self._send({"type": "http.response.body", "body": b""})


class KeyCheck:
    """Lets those in whom the authenticator knows, as long as it does, and ends the requests of others."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, running: _Running) -> None:
        self._app = app
        self._authenticator = authenticator
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            principal = await self._authenticator.admit(headers, client=scope.get("client"))
        except NotAuthenticated as error:
            refusal = JSONResponse({"error": error.as_json()}, 401, headers={"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        if not principal.may_change:
            error = PolicyViolation("a viewer reads, and calls nothing", user_id=principal.user_id)
            await JSONResponse({"error": error.as_json()}, 403)(scope, receive, send)
            return
        # The SDK binds a protocol session to the user it finds here, so nobody can go on in somebody else's.
        known = AccessToken(token="", client_id=principal.key_id or principal.user_id, scopes=[])
        scope = {**scope, PRINCIPAL: principal, "user": AuthenticatedUser(known)}
        # The SDK sees to it that this header says what the body says.
        if scope["method"] == "GET" or headers.get(b"mcp-method") == _LISTEN:
            try:
                with self._authenticator.streams.place(principal):
                    stream = _Stream(send)
                    await stream.run(self._app(scope, receive, stream.send), self._over(scope, headers))
            except TooManyStreams as error:
                await JSONResponse({"error": error.as_json()}, 429)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _over(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        await self._authenticator.over(scope, headers)
        ending: asyncio.Event | None = scope.get(ENDING)
        if scope["path"] == _EVENTS and ending is not None and ending.is_set():
            # Answers to clients of SSE go through their stream, so it stays until they have them.
            await self._running.none()


def http_app(gateway: GatewayServer, authenticator: Authenticator, *, host: str) -> ASGIApp:
    """Yield the door as an ASGI application, for a server that listens on this host."""
    security = TransportSecuritySettings(
        # Where everybody needs a key a proxy may pass on any name, and no page of another site has the key.
        enable_dns_rebinding_protection=is_loopback(host) and not authenticator.needs_key,
        allowed_hosts=list(_LOOPBACK_HOSTS),
        allowed_origins=[f"http://{name}" for name in _LOOPBACK_HOSTS],
    )
    streamable = StreamableHttp(gateway.mcp, security)
    sse = SseServerTransport("/messages/", security_settings=security, max_request_body_size=MAX_BODY)

    async def open_events(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as streams:  # pyright: ignore[reportPrivateUsage]
            await gateway.declarable()
            await gateway.mcp.run(streams[0], streams[1], gateway.mcp.create_initialization_options())
        return Response()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        del app
        async with streamable.running():
            yield

    routes: list[Any] = [
        Route(PATH, endpoint=streamable),
        Route(_EVENTS, endpoint=open_events, methods=["GET"]),
        Mount("/messages/", app=sse.handle_post_message),
    ]
    running = _Running()
    gateway.mcp.middleware.append(running.count)
    return KeyCheck(Starlette(routes=routes, lifespan=lifespan), authenticator, running)
