"""Keeps one protocol session of an MCP client over HTTP, and writes what belongs to a request into its response.

The SDK's transport moves each message through four streams and six tasks. Here a request is handed to its handler in
one task, and its answer goes out in one piece if it comes soon. A response that has to wait, or that carries more than
the answer (progress, log messages, questions), becomes a stream with a sign of life now and then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, RequestId
from starlette.requests import Request
from starlette.types import Receive, Send

from twinraven.connectors import (
    MessageContext,
    MessageDispatcher,
    MessageOrigin,
    encode_message,
    notification_message,
)

Message = dict[str, Any]

SESSION: Final = b"mcp-session-id"
EVENTS: Final = b"text/event-stream"
_HELD_BACK_S: Final = 1.0
"""How long a response is held back for an answer that may be all there is to say."""
_PING_S: Final = 15.0
_PING: Final = b": ping\r\n\r\n"
_MOST_WAITING: Final = 64
"""How many messages may wait for a client to read before their sender waits."""
_CANCELLED: Final = {"code": -32_800, "message": "Request cancelled"}
_CLOSED: Final = {"code": CONNECTION_CLOSED, "message": "Connection closed"}
_OVER_HTTP: Final = TransportContext(kind="streamable-http", can_send_request=True)


class EventResponse(Outbound):
    """One HTTP response that carries messages: that of a request, or the stream of what belongs to none."""

    def __init__(self, session: HttpSession, request_id: RequestId | None = None) -> None:
        self._session = session
        self.request_id = request_id
        """The request that it answers, if any."""
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.is_over = False
        """Whether nothing more will be written."""

    # As the way to the client.

    def can_write_now(self) -> bool:
        return not self.is_over and self._room.is_set()

    async def write(self, message: Message, opts: CallOptions | None = None) -> None:
        del opts
        await self._room.wait()
        self.write_now(message)

    def write_now(self, message: Message) -> None:
        if self.is_over:
            return
        self._waiting.append(b"event: message\r\ndata: %b\r\n\r\n" % encode_message(message))
        if len(self._waiting) >= _MOST_WAITING:
            self._room.clear()
        self._news.set()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        if self.is_over:
            raise NoBackChannelError(method)
        return await self._session.request(method, params, opts, way=self)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self.write(notification_message(method, params), opts)

    def end(self, last: Message | None = None) -> None:
        """Write the last message, and nothing after it."""
        if last is not None:
            self.write_now(last)
        self.is_over = True
        self._news.set()
        self._room.set()

    # As the response to an HTTP request.

    async def serve(self, receive: Receive, send: Send, *, is_answer: bool) -> None:
        """Send what is written, until the last message or the client's end."""
        headers = [
            (b"content-type", EVENTS),
            (b"cache-control", b"no-cache, no-transform"),
            (b"connection", b"keep-alive"),
            (b"x-accel-buffering", b"no"),
            (SESSION, self._session.session_id.encode()),
        ]
        if is_answer:
            await self._heard(_HELD_BACK_S)
            if self.is_over:
                body = self._take()
                await send(_start([*headers, (b"content-length", b"%d" % len(body))]))
                await send({"type": "http.response.body", "body": body})
                return
        await send(_start(headers))
        leaving = asyncio.ensure_future(self._leave(receive))
        try:
            while not self.is_over or self._waiting:
                await send({"type": "http.response.body", "body": self._take() or _PING, "more_body": True})
                if not self.is_over:
                    await self._heard(_PING_S)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.is_over = True
            leaving.cancel()

    async def _heard(self, within_s: float) -> None:
        """Return when there is something to send, or the time is over."""
        if not self._news.is_set():
            try:
                async with asyncio.timeout(within_s):
                    await self._news.wait()
            except TimeoutError:
                return

    def _take(self) -> bytes:
        written = b"".join(self._waiting)
        self._waiting.clear()
        self._news.clear()
        self._room.set()
        return written

    async def _leave(self, receive: Receive) -> None:
        """Wait for the client to close the connection; a call goes on without it, and its answer is dropped."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._waiting.clear()
        self.end()


class HttpSession(MessageDispatcher):
    """A session that a client opened with the handshake, as a dispatcher for the SDK's server."""

    def __init__(self, server: Server[Any], session_id: str, owner: str, *, clock: Callable[[], float]) -> None:
        super().__init__()
        self.session_id = session_id
        self.owner = owner
        """The key or user that opened it, and that alone may use it."""
        self.own: EventResponse | None = None
        """The stream of messages that belong to no request, if the client has asked for it."""
        self._clock = clock
        self._used_at = clock()
        self._open: set[EventResponse] = set()
        self._connection = Connection.for_loop(self, session_id=session_id)
        self._runner = ServerRunner(server, self._connection, None)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve messages from now on."""
        self._running = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self.run(self._runner.on_request, self._runner.on_notify)
        finally:
            await aclose_shielded(self._connection)

    async def end(self) -> None:
        """Close the session, and wait for what it does then."""
        self.close()
        if self._running is not None:
            await asyncio.wait([self._running])

    def idle_s(self) -> float:
        """Return for how long no request was under way."""
        return 0.0 if self._open else self._clock() - self._used_at

    # What the dispatcher calls.

    async def write(self, message: Message, opts: CallOptions | None = None) -> None:
        """Write a message that belongs to no request; where no stream takes it, news are dropped and questions fail."""
        if self.own is not None:
            await self.own.write(message, opts)
        elif "id" in message:
            raise NoBackChannelError(message["method"])

    def write_now(self, message: Message) -> None:
        if self.own is not None:
            self.own.write_now(message)

    async def reply(self, context: MessageContext, message: Message) -> None:
        assert isinstance(context.line, EventResponse)
        context.line.end(message)

    def unanswered(self, context: MessageContext) -> None:
        assert isinstance(context.line, EventResponse)
        context.line.end(_error(context.request_id, _CANCELLED))

    def close(self) -> None:
        """End all responses, and everything that waits for the client."""
        if self.is_closed:
            return
        super().close()
        for response in self._open:
            response.end(None if response.request_id is None else _error(response.request_id, _CLOSED))

    # What the door calls.

    def receive(self, message: Message, request: Request) -> EventResponse | None:
        """Take a message; returns the response of one that is a request."""
        response = EventResponse(self, message.get("id") if "method" in message else None)
        metadata = ServerMessageMetadata(request_context=request)
        self._used_at = self._clock()
        self.dispatch(message, MessageOrigin(response, metadata, _OVER_HTTP))
        return response if "method" in message and "id" in message else None

    async def answer(self, response: EventResponse, receive: Receive, send: Send) -> None:
        """Send the response of a request."""
        await self._counted(response.serve(receive, send, is_answer=True), response)

    async def listen(self, receive: Receive, send: Send) -> None:
        """Send what belongs to no request, as long as the client reads it."""
        response = self.own = EventResponse(self)
        try:
            await self._counted(response.serve(receive, send, is_answer=False), response)
        finally:
            self.own = None

    async def _counted(self, serving: Awaitable[None], response: EventResponse) -> None:
        self._open.add(response)
        try:
            await serving
        finally:
            self._open.discard(response)
            self._used_at = self._clock()


def _error(request_id: RequestId | None, error: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def _start(headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": headers}
