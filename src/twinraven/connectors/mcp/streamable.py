"""Speaks streamable HTTP to an upstream server: each message is a request of its own, and answers come with it.

The SDK's client passes each message through four streams and two tasks before anything is sent. Here a message is
posted where it is written, and what comes back is handed to its waiter as it is read. A server that keeps sessions may
also speak by itself, on a stream that is asked for with GET. A stream that breaks off is asked for again from the last
event that it numbered; a request whose answer can never come fails at once.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import httpx2
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry.propagate import inject

from twinraven.connectors.mcp.messages import MessageDispatcher, Way
from twinraven.connectors.mcp.wire import Message, closed, encode_message, peer_error, unsent
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput
from twinraven.foundation.server_events import ServerEventReader

_SESSION: Final = "mcp-session-id"
_LAST_EVENT: Final = "last-event-id"
_JSON, _EVENTS = "application/json", "text/event-stream"
_PLAIN: Final = {"accept": f"{_JSON}, {_EVENTS}", "content-type": _JSON, "user-agent": "twinraven"}
_MOST_REDIRECTS: Final = 10
_REPEATING: Final = frozenset({307, 308})
"""The redirects after which a request is sent again as it was."""
_MOVED: Final = frozenset({301, 302, 303, *_REPEATING})
_MOST_RESUMED: Final = 2
"""How often in a row a stream is asked for again that gives nothing."""
_PAUSE_MS: Final = 1_000
_FAREWELL_S: Final = 2.0
_PORTS: Final = {"http": 80, "https": 443}
_logger = logging.getLogger("twinraven.mcp")


class StreamableDispatcher(MessageDispatcher):
    """A connection to one address, as a dispatcher for the SDK's session."""

    def __init__(
        self,
        url: str,
        transport: httpx2.AsyncBaseTransport,
        *,
        headers: Mapping[str, str],
        connect_s: float,
        max_bytes: int,
        on_fault: Callable[[str], None],
    ) -> None:
        super().__init__(on_fault=on_fault)
        self._url, credentials = _without_credentials(httpx2.URL(url))
        self._transport = transport
        self._headers = httpx2.Headers({**_PLAIN, **credentials, **headers})
        self._limits = {"timeout": httpx2.Timeout(None, connect=connect_s).as_dict()}
        self._max_bytes = max_bytes
        self._cookies = httpx2.Cookies()
        self._session_id: str | None = None
        self._version: str | None = None
        """The revision that requests were last stamped with, for those that the session does not stamp."""
        self._posts: dict[RequestId, asyncio.Task[None]] = {}

    # What the dispatcher calls.

    async def write(self, message: Message, opts: CallOptions | None = None) -> None:
        """Post a message; one that is answered is posted beside its caller, who waits for the answer."""
        stated = dict((opts or {}).get("headers") or {})
        method = message.get("method")
        if method == "initialize":
            self._version = None  # it has yet to be agreed on
        else:
            self._version = stated.get(MCP_PROTOCOL_VERSION_HEADER, self._version)
        if method is None or "id" not in message:
            await self._post(message, stated)
            if method == "notifications/initialized" and self._session_id is not None:
                self.spawn(self._listen())
            return
        if self.is_closed:
            raise unsent()
        _inject_trace(message)
        key = coerce_request_id(message["id"])
        self._posts[key] = self.spawn(self._post(message, stated))

    def write_now(self, message: Message) -> None:
        self.spawn(self._post(message, {}))

    def abandon(self, request_id: RequestId, options: CallOptions, way: Way) -> None:
        """Close the request's stream, which tells newer servers that nobody waits; older ones are told in words."""
        if self._version not in MODERN_PROTOCOL_VERSIONS:
            super().abandon(request_id, options, way)
        post = self._posts.pop(coerce_request_id(request_id), None)
        if post is not None:
            post.cancel()

    async def say_goodbye(self) -> None:
        """End the session that the server keeps for us."""
        if self._session_id is None:
            return
        with suppress(TimeoutError, httpx2.HTTPError, httpx2.StreamError):
            async with asyncio.timeout(_FAREWELL_S), self._asked("DELETE", {}) as response:
                _logger.debug("the session was ended: HTTP %d", response.status_code)

    # Inside.

    async def _post(self, message: Message, stated: Mapping[str, str]) -> None:
        """Send one message and hand on what comes back; a request fails if that holds no answer."""
        method = message.get("method")
        request_id: RequestId | None = message.get("id") if method is not None else None
        try:
            async with self._asked("POST", stated, encode_message(message)) as response:
                if method == "initialize" and response.status_code < 400:
                    self._session_id = response.headers.get(_SESSION) or self._session_id
                if request_id is not None:
                    await self._take_answer(response, request_id)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            _logger.debug("a message was not answered: %s", error)
            if request_id is not None:
                self.fail(request_id, closed())
        finally:
            if request_id is not None and self._posts.get(coerce_request_id(request_id)) is asyncio.current_task():
                del self._posts[coerce_request_id(request_id)]

    async def _take_answer(self, response: httpx2.Response, request_id: RequestId) -> None:
        kind = response.headers.get("content-type", "").lower()
        if response.status_code >= 300:
            self.fail(request_id, await self._refusal(response, kind))
        elif response.status_code == 202:
            self.fail(request_id, MCPError(INVALID_REQUEST, "the server answered a request with 202 Accepted"))
        elif kind.startswith(_JSON):
            if not self._hand_in(await _whole(response), request_id):
                self.fail(request_id, closed())
        elif kind.startswith(_EVENTS):
            await self._take_events(response, request_id)
        else:
            self.fail(request_id, MCPError(INVALID_REQUEST, f"Unexpected content type: {kind}"))

    async def _refusal(self, response: httpx2.Response, kind: str) -> MCPError:
        """Return why a request was refused: the server's own words, if it answered in the protocol."""
        status = response.status_code
        if status < 400:
            where = str(response.request.url.join(response.headers.get("location", "")).copy_with(query=None))
            return MCPError(INVALID_REQUEST, f"it redirects to {where}; use that address if it is the server's own")
        said: MCPError | None = None
        if kind.startswith(_JSON):
            with suppress(InvalidInput):
                found = parse_json(await _whole(response), field="message")
                if isinstance(found, dict) and isinstance(cast("Message", found).get("error"), dict):
                    said = peer_error(cast("Message", found)["error"])
        if self._session_id is not None and (status == 404 or (status == 400 and said and _is_about_session(said))):
            return session_over()
        if said is not None:
            return said
        # Without a session this is how a server says over HTTP that it does not know the method.
        known = {404: MCPError(METHOD_NOT_FOUND, "Not Found")}
        return known.get(status) or MCPError(INTERNAL_ERROR, f"the server answered with HTTP {status}")

    async def _take_events(self, response: httpx2.Response, request_id: RequestId) -> None:
        """Read a request's stream up to its answer, and ask for it again where it breaks off in between."""
        reader = ServerEventReader(max_bytes=self._max_bytes)
        place = _Place()
        for attempt in range(_MOST_RESUMED + 1):
            if attempt:
                await asyncio.sleep(place.pause_ms / 1000)
            try:
                if await self._resumed(response if not attempt else None, reader, place, request_id):
                    return
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                _logger.debug("a stream of events ended: %s", error)
            if place.last_id is None or self.is_closed:
                break
            reader = ServerEventReader(last_id=place.last_id, max_bytes=self._max_bytes)
        self.fail(request_id, closed())

    async def _resumed(
        self, response: httpx2.Response | None, reader: ServerEventReader, place: _Place, request_id: RequestId
    ) -> bool:
        """Return whether the answer came, on the stream that there is or on one that goes on where it ended."""
        if response is not None:
            return await self._read_events(response, reader, place, request_id)
        async with self._asked("GET", {_LAST_EVENT: place.last_id or ""}) as again:
            return again.status_code < 300 and await self._read_events(again, reader, place, request_id)

    async def _read_events(
        self, response: httpx2.Response, reader: ServerEventReader, place: _Place, request_id: RequestId | None
    ) -> bool:
        try:
            async for part in _parts(response):
                for event in reader.feed(part):
                    place.note(event.last_id, event.retry_ms)
                    if event.name == "message" and event.data and self._hand_in(event.data, request_id):
                        return True
        except InvalidOutput as error:
            self.give_up(error.message)
        return False

    def _hand_in(self, text: bytes | str, request_id: RequestId | None) -> bool:
        """Hand in what was received; says whether the answer to this request was among it."""
        try:
            found = parse_json(text, field="message")
        except InvalidInput:
            found = None
        if not isinstance(found, dict):
            if request_id is None:
                self.give_up("it sent something that is not JSON-RPC")
            else:
                self.fail(request_id, MCPError(PARSE_ERROR, "the server answered with something that is not JSON-RPC"))
            return True
        message = cast("Message", found)
        is_answer = "method" not in message
        if is_answer and request_id is not None:
            # It came with the request, so it is the answer to it, whatever number it names.
            message = {**message, "id": request_id}
        self.dispatch(message)
        return is_answer

    async def _listen(self) -> None:
        """Read what the server says by itself, as long as it lets us."""
        place, failures = _Place(), 0
        while failures < _MOST_RESUMED and not self.is_closed:
            stated = {} if place.last_id is None else {_LAST_EVENT: place.last_id}
            reader = ServerEventReader(last_id=place.last_id, max_bytes=self._max_bytes)
            try:
                async with self._asked("GET", {"accept": _EVENTS, **stated}) as response:
                    if 300 <= response.status_code < 500:
                        return
                    is_given = response.status_code < 300
                    if is_given:
                        await self._read_events(response, reader, place, None)
                failures = 0 if is_given else failures + 1
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                _logger.debug("the stream of a server's own messages ended: %s", error)
                failures += 1
            await asyncio.sleep(place.pause_ms / 1000)

    @asynccontextmanager
    async def _asked(
        self, method: str, stated: Mapping[str, str], body: bytes | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request, and follow redirects that stay with the server and leave the request as it is."""
        headers = self._headers.copy()
        if self._session_id is not None:
            headers[_SESSION] = self._session_id
        if self._version is not None:
            headers[MCP_PROTOCOL_VERSION_HEADER] = self._version
        headers.update(stated)
        url: httpx2.URL | None = self._url
        response: httpx2.Response | None = None
        for _ in range(_MOST_REDIRECTS):
            request = httpx2.Request(method, url, headers=headers, content=body, extensions=self._limits)
            if self._cookies.jar:
                self._cookies.set_cookie_header(request)
            response = await self._transport.handle_async_request(request)
            response.request = request
            if "set-cookie" in response.headers:
                self._cookies.extract_cookies(response)
            url = _next_url(request, response)
            if url is None:
                break
            await response.aclose()
        assert response is not None
        try:
            yield response
        finally:
            await response.aclose()


class _Place:
    """How far a stream was read, and when it may be asked for again."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.pause_ms = _PAUSE_MS

    def note(self, last_id: str | None, retry_ms: int | None) -> None:
        self.last_id = last_id or self.last_id
        self.pause_ms = self.pause_ms if retry_ms is None else retry_ms


def session_over() -> MCPError:
    """Build the error of a request whose session the server does not know any more."""
    return MCPError(INVALID_REQUEST, "Session terminated")


def _is_about_session(error: MCPError) -> bool:
    """Return whether a request was refused for its session: some servers that forgot one do not answer with 404."""
    words = error.message.lower()
    return "session" in words or "not initialized" in words


async def _parts(response: httpx2.Response) -> AsyncIterator[bytes]:
    # Not through the response's own iterators, which decode and chunk what the transport has decoded already.
    async for part in cast("httpx2.AsyncByteStream", response.stream):
        yield part


async def _whole(response: httpx2.Response) -> bytes:
    return b"".join([part async for part in _parts(response)])


def _inject_trace(message: Message) -> None:
    """Pass the trace that the request belongs to on, where OpenTelemetry is at work."""
    trace: dict[str, Any] = {}
    inject(trace)
    if trace:
        params = message.setdefault("params", {})
        params["_meta"] = {**(params.get("_meta") or {}), **trace}


def _without_credentials(url: httpx2.URL) -> tuple[httpx2.URL, dict[str, str]]:
    """Return the address, and the header that says what stood before its host."""
    if not url.userinfo:
        return url, {}
    known = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
    return url.copy_with(userinfo=b""), {"authorization": f"Basic {known}"}


def _next_url(request: httpx2.Request, response: httpx2.Response) -> httpx2.URL | None:
    """Return where to send the request instead, if that is the same server and the request stays what it is."""
    location = response.headers.get("location")
    if location is None or response.status_code not in (_MOVED if request.method == "GET" else _REPEATING):
        return None
    try:
        target = request.url.join(location)
    except httpx2.InvalidURL:
        return None
    return target if not target.userinfo and _is_same_server(request.url, target) else None


def _is_same_server(one: httpx2.URL, other: httpx2.URL) -> bool:
    if one.host != other.host:
        return False
    if one.scheme == other.scheme:
        return _port(one) == _port(other)
    is_upgrade = one.scheme == "http" and other.scheme == "https"
    return is_upgrade and _port(one) == _PORTS["http"] and _port(other) == _PORTS["https"]


def _port(url: httpx2.URL) -> int | None:
    return url.port or _PORTS.get(url.scheme)
