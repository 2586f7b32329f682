"""The gateway on HTTP: streamable HTTP for clients of every revision, SSE for those that know nothing newer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

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
from twinraven.serving import Doorkeeper, is_loopback
from twinraven.tenancy import NotAuthenticated

PATH: Final = "/mcp"
_MAX_BODY: Final = 16 * 1024 * 1024
_LOOPBACK_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")


class KeyCheck:
    """Lets those in whom the doorkeeper knows, and ends the requests of others."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper) -> None:
        self._app = app
        self._doorkeeper = doorkeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        shown = Request(scope).headers
        try:
            principal = await self._doorkeeper.admit(
                authorization=shown.get("authorization", ""),
                api_key=shown.get("x-api-key", ""),
                host=shown.get("host", ""),
                origin=shown.get("origin"),
            )
        except NotAuthenticated as error:
            refusal = JSONResponse({"error": error.as_json()}, 401, headers={"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        # The SDK binds a protocol session to the user it finds here, so nobody can go on in somebody else's.
        known = AccessToken(token="", client_id=principal.key_id or principal.user_id, scopes=[])
        await self._app({**scope, PRINCIPAL: principal, "user": AuthenticatedUser(known)}, receive, send)


def http_app(gateway: GatewayServer, doorkeeper: Doorkeeper, *, host: str) -> ASGIApp:
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
            await gateway.declarable()
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
    return KeyCheck(Starlette(routes=routes, lifespan=lifespan), doorkeeper)
