"""The gateway on HTTP: streamable HTTP for clients of every revision, SSE for those that know nothing newer.

A caller shows an API key; only where nobody but this machine can connect may it be left out, and then the caller is the
home's own user. The key is read here and goes no further: not into a log, not to an upstream server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from typing import Any, Final

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from twinraven.gateway.callers import PRINCIPAL
from twinraven.gateway.server import GatewayServer
from twinraven.tenancy import NotAuthenticated, Principal, Tenancy

PATH: Final = "/mcp"
_PATIENCE_S: Final = 2
_MAX_BODY: Final = 16 * 1024 * 1024
_LOOPBACK_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")


class KeyCheck:
    """Turns the key of each request into a principal, or ends the request."""

    def __init__(self, app: ASGIApp, tenancy: Tenancy, *, without_key: Principal | None) -> None:
        self._app = app
        self._tenancy = tenancy
        self._without_key = without_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._principal(Request(scope))
        except NotAuthenticated as error:
            refusal = JSONResponse({"error": error.as_json()}, 401, headers={"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        # The SDK binds a protocol session to the user it finds here, so nobody can go on in somebody else's.
        known = AccessToken(token="", client_id=principal.key_id or principal.user_id, scopes=[])
        await self._app({**scope, PRINCIPAL: principal, "user": AuthenticatedUser(known)}, receive, send)

    async def _principal(self, request: Request) -> Principal:
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and key.strip():
            return await self._tenancy.authenticate(key.strip())
        key = request.headers.get("x-api-key", "")
        if key:
            return await self._tenancy.authenticate(key)
        if self._without_key is None:
            raise NotAuthenticated("send an API key: Authorization: Bearer <key>")
        return self._without_key


def http_app(gateway: GatewayServer, tenancy: Tenancy, *, host: str, local: Principal) -> ASGIApp:
    """The door as an ASGI application, for a server that listens on this host."""
    at_home = is_loopback(host)
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=at_home,
        allowed_hosts=list(_LOOPBACK_HOSTS),
        allowed_origins=[f"http://{name}" for name in _LOOPBACK_HOSTS],
    )
    manager = StreamableHTTPSessionManager(gateway.mcp, security_settings=security, max_request_body_size=_MAX_BODY)
    sse = SseServerTransport("/messages/", security_settings=security, max_request_body_size=_MAX_BODY)

    async def open_events(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as streams:  # pyright: ignore[reportPrivateUsage]
            await gateway.mcp.run(streams[0], streams[1], gateway.mcp.create_initialization_options())
        return Response()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        del app
        async with manager.run():
            yield

    routes: list[Any] = [
        Route(PATH, endpoint=StreamableHTTPASGIApp(manager)),
        Route("/sse", endpoint=open_events, methods=["GET"]),
        Mount("/messages/", app=sse.handle_post_message),
    ]
    return KeyCheck(Starlette(routes=routes, lifespan=lifespan), tenancy, without_key=local if at_home else None)


class _Listener(uvicorn.Server):
    """A server that leaves signals alone: whoever runs it decides when it ends."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listener(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """What listens; told to exit, it does not wait for clients whose streams stay open as long as they live."""
    config = uvicorn.Config(
        app, host=host, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=_PATIENCE_S
    )
    return _Listener(config)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
