"""Serves MCP over streamable HTTP: finds the session of a request, or opens one; newer revisions have none.

A session belongs to the key or user that opened it and ends with DELETE, or when nobody has used it for a while. The
newest revision is served by the SDK, for which each request stands alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.dispatcher import as_request_id
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_id
from twinraven.gateway.callers import PRINCIPAL
from twinraven.gateway.http_session import SESSION, HttpSession, Message
from twinraven.gateway.session_limit import IDLE_S, SessionLimit, TooManySessions
from twinraven.tenancy import Principal

MAX_BODY: Final = 16 * 1024 * 1024
_VERSION: Final = b"mcp-protocol-version"
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
_ANY: Final = "*/*"
_LOOK_S: Final = 30.0
"""How often sessions that nobody uses any more are looked for."""


class _Refused(Exception):
    """The request is answered with an error of HTTP."""

    def __init__(self, status: int, message: str, code: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class StreamableHttp:
    """The door at one path, as an ASGI application."""

    def __init__(
        self,
        server: Server[Any],
        security: TransportSecuritySettings,
        *,
        limit: SessionLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._security = TransportSecurityMiddleware(security)
        self._newer = StreamableHTTPSessionManager(server, security_settings=security, max_request_body_size=MAX_BODY)
        self._limit = limit or SessionLimit()
        self._clock = clock
        self._sessions: dict[str, HttpSession] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep sessions as long as the block lasts."""
        looking = asyncio.ensure_future(self._end_idle())
        try:
            async with self._newer.run():
                yield
        finally:
            looking.cancel()
            await asyncio.gather(*(self._end(session_id) for session_id in list(self._sessions)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = next((value for name, value in scope["headers"] if name == _VERSION), None)
        if version is not None and version not in _HANDSHAKE:
            await self._newer.asgi_app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = await self._security.validate_request(request, is_post=scope["method"] == "POST")
        try:
            if answer is None:
                answer = await self._take(request, receive, send)
        except TooManySessions as error:
            answer = JSONResponse({"error": error.as_json()}, 429)
        except _Refused as refused:
            answer = _error(refused.status, refused.message, refused.code)
        if answer is not None:
            await answer(scope, receive, send)

    async def _take(self, request: Request, receive: Receive, send: Send) -> Response | None:
        """Serve a request; returns its response unless that has been sent."""
        if request.method == "POST":
            return await self._post(request, receive, send)
        if request.method not in ("GET", "DELETE"):
            return _error(405, "Method Not Allowed", headers={"Allow": "GET, POST, DELETE"})
        if request.method == "GET" and not _accepts(request, "text", "event-stream"):
            raise _Refused(406, "Not Acceptable: Client must accept text/event-stream")
        session = self._session(request)
        if request.method == "DELETE":
            await self._end(session.session_id)
            return _accepted(session, 200)
        if session.own is not None:
            raise _Refused(409, "Conflict: Only one SSE stream is allowed per session")
        await session.listen(receive, send)
        return None

    async def _post(self, request: Request, receive: Receive, send: Send) -> Response | None:
        # Known or not comes first: a client whose session is over is to open another, whatever it sends.
        session = self._session(request) if SESSION.decode() in request.headers else None
        if not (_accepts(request, "application", "json") and _accepts(request, "text", "event-stream")):
            raise _Refused(406, "Not Acceptable: Client must accept both application/json and text/event-stream")
        message = _message(await _body(request, receive))
        session = session or self._opened(request, message)
        response = session.receive(message, request)
        if response is None:
            return _accepted(session, 202)
        await session.answer(response, receive, send)
        return None

    def _session(self, request: Request) -> HttpSession:
        """Return the session that the request names, if it is the caller's own."""
        session_id = request.headers.get(SESSION.decode())
        if session_id is None:
            raise _Refused(400, "Bad Request: Missing session ID")
        session = self._sessions.get(session_id)
        if session is None or session.is_closed or session.owner != _owner(request):
            raise _Refused(404, "Session not found")
        self._limit.used(session_id)
        return session

    def _opened(self, request: Request, message: Message) -> HttpSession:
        if message.get("method") != "initialize" or "id" not in message:
            raise _Refused(400, "Bad Request: Missing session ID")
        who = _principal(request)
        self._limit.refuse_greedy(who)
        session = HttpSession(self._server, new_id(), _owner(request), clock=self._clock)
        self._sessions[session.session_id] = session
        self._limit.opened(who, session.session_id)
        session.start()
        return session

    async def _end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        self._limit.ended(session_id)
        if session is not None:
            await session.end()

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for session_id in [one for one, session in self._sessions.items() if session.idle_s() > IDLE_S]:
                await self._end(session_id)


def _principal(request: Request) -> Principal:
    return request.scope[PRINCIPAL]


def _owner(request: Request) -> str:
    who = _principal(request)
    return f"{who.tenant_id}\0{who.key_id or who.user_id}"


def _accepts(request: Request, kind: str, form: str) -> bool:
    stated = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")}
    return not stated.isdisjoint((_ANY, f"{kind}/*", f"{kind}/{form}"))


async def _body(request: Request, receive: Receive) -> bytes:
    """Read a body that is not too large."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated[:20]) > MAX_BODY:
        raise _Refused(413, "Request body too large")
    body, more = b"", True
    parts: list[bytes] = []
    length = 0
    while more:
        part = await receive()
        if part["type"] != "http.request":
            raise _Refused(400, "the request broke off")
        body, more = part.get("body", b""), part.get("more_body", False)
        parts.append(body)
        length += len(body)
        if length > MAX_BODY:
            raise _Refused(413, "Request body too large")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _message(body: bytes) -> Message:
    """Return the JSON-RPC message that a body is."""
    try:
        found = parse_json(body, field="body")
    except InvalidInput as error:
        raise _Refused(400, f"Parse error: {error.message}", PARSE_ERROR) from error
    if not isinstance(found, dict) or cast("Message", found).get("jsonrpc") != "2.0":
        raise _Refused(400, "Validation error: the body is one message of JSON-RPC 2.0, as an object", INVALID_PARAMS)
    message = cast("Message", found)
    is_named = "id" not in message or as_request_id(message["id"]) is not None
    if "method" in message:
        params = message.get("params")
        fits = isinstance(message["method"], str) and isinstance(params, (dict, type(None))) and is_named
    else:
        fits = isinstance(message.get("result", message.get("error")), dict) and (is_named or "error" in message)
    if not fits:
        raise _Refused(
            400, "Validation error: method, params, id, result or error is not what it must be", INVALID_PARAMS
        )
    return message


def _accepted(session: HttpSession, status: int) -> Response:
    headers = {SESSION.decode(): session.session_id, "content-type": "application/json"}
    return Response(None, status, headers)


def _error(status: int, message: str, code: int = INVALID_REQUEST, headers: dict[str, str] | None = None) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(body, status, headers)
