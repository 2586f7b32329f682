"""Streamable HTTP to an upstream server: what is sent, how answers arrive, and what becomes of those that cannot."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from mcp_types.version import LATEST_MODERN_VERSION

from twinraven.connectors.mcp.streamable import StreamableDispatcher
from twinraven.connectors.mcp.wire import CLOSED

URL = "http://server.example/mcp"
JSON, EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
NEWER = {MCP_PROTOCOL_VERSION_HEADER: LATEST_MODERN_VERSION}
Answer = Callable[[httpx2.Request], httpx2.Response]


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in pieces; after the last it waits, or breaks off."""

    def __init__(self, *pieces: bytes, breaks: bool = False, waits: bool = False) -> None:
        self._pieces, self._breaks, self._waits = pieces, breaks, waits
        self.is_closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._breaks:
            raise httpx2.ReadError("reset")
        if self._waits:
            await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.is_closed.set()


class Desk(httpx2.AsyncBaseTransport):
    """A server that answers each request as it is told, and keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[httpx2.Request] = []
        self.has_news = asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        self.has_news.set()
        return self._answer(request)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.asked if request.content]

    async def until(self, count: int) -> None:
        """Return once so many requests came."""
        while len(self.asked) < count:
            self.has_news.clear()
            await self.has_news.wait()


@asynccontextmanager
async def link(
    answer: Answer, *, url: str = URL, heard: list[Any] | None = None, faults: list[str] | None = None
) -> AsyncGenerator[tuple[StreamableDispatcher, Desk]]:
    """Open a connection whose other side answers so; what the server says and asks by itself is heard."""
    desk = Desk(answer)
    noted = heard if heard is not None else list[Any]()
    on_fault = (faults if faults is not None else list[str]()).append
    made = StreamableDispatcher(url, desk, headers={"x-key": "k"}, connect_s=1, max_bytes=1000, on_fault=on_fault)

    async def on_request(context: Any, method: str, params: Any) -> dict[str, Any]:
        del context
        noted.append((method, params))
        return {"said": method}

    async def on_notify(context: Any, method: str, params: Any) -> None:
        del context
        noted.append((method, params))

    running = asyncio.create_task(made.run(on_request, on_notify))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(60):
            yield made, desk
    finally:
        made.close()
        await running


def event(body: Any, **fields: Any) -> bytes:
    named = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{named}data: {json.dumps(body)}\n\n".encode()


def result(value: Any, number: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": value}


def stream(*pieces: bytes, **more: bool) -> httpx2.Response:
    return httpx2.Response(200, headers=EVENTS, stream=Pieces(*pieces, **more))


async def error_of(answer: Answer, method: str = "tools/call") -> MCPError:
    async with link(answer) as (made, _):
        with pytest.raises(MCPError) as raised:
            await made.send_raw_request(method, None)
    return raised.value


GIVEN: dict[str, Answer] = {
    "as JSON": lambda _: httpx2.Response(200, headers=JSON, json=result({"n": 1})),
    "under another number": lambda _: httpx2.Response(200, headers=JSON, json=result({"n": 1}, "of its own")),
    "as an event": lambda _: stream(event(result({"n": 1}))),
    "cut anywhere": lambda _: stream(
        b": hello\n\nid: 1\ndata:\n\n", *(bytes([one]) for one in event(result({"n": 1})))
    ),
}


@pytest.mark.parametrize("how", GIVEN)
async def test_an_answer_reaches_its_request(how: str) -> None:
    """As JSON or as an event, cut anywhere, and whatever number it names: it came with the request."""
    async with link(GIVEN[how]) as (made, desk):
        assert await made.send_raw_request("tools/call", {"name": "x"}, {"headers": NEWER}) == {"n": 1}
        (request,) = desk.asked
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["x-key"] == "k"
        assert request.headers[MCP_PROTOCOL_VERSION_HEADER] == LATEST_MODERN_VERSION
        assert desk.bodies() == [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}]


async def test_what_a_server_says_during_a_call_is_passed_on() -> None:
    """Progress reaches the caller, notes their handler, and a question is answered with a request of its own."""
    token = {"progressToken": 1, "progress": 1, "total": 2, "message": "half"}
    said: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": token},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
        {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {}},
    ]
    heard: list[Any] = []
    told: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    def answer(request: httpx2.Request) -> httpx2.Response:
        if "result" in json.loads(request.content):
            return httpx2.Response(202)
        return stream(*(event(one) for one in said), event(result({"n": 1})))

    async with link(answer, heard=heard) as (made, desk):
        assert await made.send_raw_request("tools/call", None, {"on_progress": on_progress}) == {"n": 1}
        await desk.until(2)
        assert told == [(1.0, 2.0, "half")]
        assert ("notifications/message", {"level": "info", "data": "x"}) in heard
        assert desk.bodies()[1] == {"jsonrpc": "2.0", "id": "q", "result": {"said": "elicitation/create"}}


REFUSALS: dict[str, tuple[int, Answer]] = {
    "its own words": (-1, lambda _: httpx2.Response(400, headers=JSON, json={"id": None, "error": {"code": -1}})),
    "accepted without an answer": (INVALID_REQUEST, lambda _: httpx2.Response(202)),
    "a page": (INVALID_REQUEST, lambda _: httpx2.Response(200, html="<html>")),
    "no JSON": (PARSE_ERROR, lambda _: httpx2.Response(200, headers=JSON, content=b"{")),
    "an event that is no JSON": (PARSE_ERROR, lambda _: stream(b"data: {\n\n")),
    "a message that is no answer": (
        CLOSED,
        lambda _: httpx2.Response(200, headers=JSON, json={"method": "x"}),
    ),
    "a method it does not know": (METHOD_NOT_FOUND, lambda _: httpx2.Response(404)),
    "a stream without an answer": (CLOSED, lambda _: stream(b": hello\n\n")),
    "a stream that breaks": (CLOSED, lambda _: stream(b": hello\n\n", breaks=True)),
    "a redirect elsewhere": (
        INVALID_REQUEST,
        lambda _: httpx2.Response(307, headers={"location": "https://elsewhere.example/mcp"}),
    ),
    "a redirect that loses the request": (INVALID_REQUEST, lambda _: httpx2.Response(302, headers={"location": "/"})),
    "a redirect without end": (INVALID_REQUEST, lambda _: httpx2.Response(308, headers={"location": "/mcp"})),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_a_request_without_an_answer_fails(what: str) -> None:
    """Nobody is left to wait, and the error says of what kind it is."""
    code, answer = REFUSALS[what]
    assert (await error_of(answer)).code == code


async def test_a_session_is_kept_and_given_up() -> None:
    """Its id goes with each request, its own messages are listened for, its loss is told, and it ends with DELETE."""
    heard: list[Any] = []
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return stream(event(changed), waits=True)
        if request.method == "DELETE":
            return httpx2.Response(405)
        method = json.loads(request.content).get("method")
        if method == "initialize":
            return httpx2.Response(200, headers={**JSON, "mcp-session-id": "s1"}, json=result({}))
        return httpx2.Response(202 if method.startswith("notifications") else 404)

    async with link(answer, heard=heard) as (made, desk):
        with pytest.raises(MCPError):
            await made.send_raw_request("server/discover", {}, {"headers": NEWER})
        await made.send_raw_request("initialize", {})
        await made.notify("notifications/initialized", None, {"headers": {MCP_PROTOCOL_VERSION_HEADER: "2025-06-18"}})
        await desk.until(4)
        with pytest.raises(MCPError, match="Session terminated"):
            await made.send_raw_request("tools/call", {})
        await made.say_goodbye()
        assert heard == [("notifications/tools/list_changed", None)]
        probe, first, *others = desk.asked
        assert probe.headers[MCP_PROTOCOL_VERSION_HEADER] == LATEST_MODERN_VERSION
        assert "mcp-session-id" not in first.headers
        assert MCP_PROTOCOL_VERSION_HEADER not in first.headers
        assert {one.headers["mcp-session-id"] for one in others} == {"s1"}
        assert {one.headers[MCP_PROTOCOL_VERSION_HEADER] for one in others} == {"2025-06-18"}
        assert [one.method for one in others] == ["POST", "GET", "POST", "DELETE"]


FORGOTTEN: dict[str, tuple[int, Any]] = {
    "as the protocol says": (404, None),
    "with words of its own": (404, {"code": -32001, "message": "Session not found"}),
    "as a bad request": (400, {"code": -32000, "message": "Bad Request: No valid session ID provided"}),
    "as one that was never opened": (400, {"code": -32000, "message": "Bad Request: Server not initialized"}),
}


@pytest.mark.parametrize("how", FORGOTTEN)
async def test_a_session_that_a_server_forgot_is_over(how: str) -> None:
    """However it says so: nothing was run, and the connection is to be made anew. Other refusals are its own words."""
    status, error = FORGOTTEN[how]
    refusal = {} if error is None else {"jsonrpc": "2.0", "id": None, "error": error}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content)["method"] == "initialize":
            return httpx2.Response(200, headers={**JSON, "mcp-session-id": "s1"}, json=result({}))
        if json.loads(request.content)["method"] == "tools/list":
            return httpx2.Response(400, headers=JSON, json={"error": {"code": -32000, "message": "Bad Request: no"}})
        return httpx2.Response(status, headers=JSON, json=refusal)

    async with link(answer) as (made, _):
        with pytest.raises(MCPError, match="session|initialized" if status == 400 else "Not Found|Session not found"):
            await made.send_raw_request("tools/call", {})
        await made.send_raw_request("initialize", {})
        with pytest.raises(MCPError, match="Session terminated"):
            await made.send_raw_request("tools/call", {})
        with pytest.raises(MCPError, match="Bad Request: no"):
            await made.send_raw_request("tools/list", {})


async def test_a_stream_that_breaks_off_goes_on_where_it_was() -> None:
    """It is asked for again from the last event that had a number, after as long as the server said."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            return stream(b"id: 7\nretry: 1\ndata:\n\n", breaks=True)
        assert request.headers["last-event-id"] in ("7", "8")
        return stream(event(result({"n": 1}))) if request.headers["last-event-id"] == "8" else stream(b"id: 8\n\n")

    async with link(answer) as (made, _):
        assert await made.send_raw_request("tools/call", None) == {"n": 1}


@pytest.mark.parametrize("is_newer", [True, False])
async def test_an_abandoned_request_is_closed(is_newer: bool) -> None:
    """A newer server learns of it by the end of the stream, an older one is told; neither holds a connection."""
    body = Pieces(b": hello\n\n", waits=True)

    def answer(request: httpx2.Request) -> httpx2.Response:
        is_call = json.loads(request.content)["method"] == "tools/call"
        return httpx2.Response(200, headers=EVENTS, stream=body) if is_call else httpx2.Response(202)

    async with link(answer) as (made, desk):
        version = NEWER if is_newer else {MCP_PROTOCOL_VERSION_HEADER: "2025-06-18"}
        calling = asyncio.create_task(made.send_raw_request("tools/call", None, {"headers": version}))
        await desk.until(1)
        calling.cancel()
        await body.is_closed.wait()
        await desk.until(1 if is_newer else 2)
        assert [one["method"] for one in desk.bodies()[1:]] == ([] if is_newer else ["notifications/cancelled"])


async def test_requests_follow_the_server_and_carry_what_it_gave() -> None:
    """A redirect to the same server is followed, cookies come back, and credentials of the address are a header."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/mcp":
            return httpx2.Response(307, headers={"location": "/mcp/", "set-cookie": "lane=2; Path=/"})
        return httpx2.Response(200, headers=JSON, json=result({}))

    async with link(answer, url="http://ada:secret@server.example/mcp") as (made, desk):
        await made.send_raw_request("tools/call", {"n": 1})
        first, second = desk.asked
        assert first.url == httpx2.URL(URL)
        assert base64.b64decode(first.headers["authorization"].split()[1]) == b"ada:secret"
        assert (second.url.path, second.headers["cookie"], second.content) == ("/mcp/", "lane=2", first.content)


async def test_an_event_without_an_end_ends_the_connection() -> None:
    """What is kept of an event is limited; the fault says why, and all calls that wait are told."""
    faults: list[str] = []
    async with link(lambda _: stream(*[b"data: " + b"x" * 100] * 100, waits=True), faults=faults) as (made, _):
        with pytest.raises(MCPError) as raised:
            await made.send_raw_request("tools/call", None)
        assert raised.value.code == CLOSED
        assert faults == ["the stream has an event of more than 1000 bytes"]
        with pytest.raises(MCPError, match="closed"):
            await made.send_raw_request("tools/call", None)
