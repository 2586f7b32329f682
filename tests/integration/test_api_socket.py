"""The API behind a real server on a real socket, with requests that no tidy client would send."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.api_homes import ApiHome, api_home, made
from tests.gateways import free_port, until
from twinraven.serving import listener
from twinraven.serving.request_parsing import LARGEST_BODY

_POST: Final = b"POST /v1/users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path) as opened:
        yield opened


@pytest.fixture
async def port(home: ApiHome) -> AsyncGenerator[int]:
    """Where the home's API listens."""
    port = free_port()
    server = listener(home.door.app, "127.0.0.1", port)
    serving = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    yield port
    server.should_exit = True
    await serving


async def raw(port: int, *parts: bytes) -> bytes:
    """What a server answers to bytes as they are, until it has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        with suppress(ConnectionError):
            for part in (parts[0].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), *parts[1:]):
                writer.write(part)
                await writer.drain()
        with suppress(TimeoutError, ConnectionError):
            while part := await asyncio.wait_for(reader.read(65_536), 1.0):
                found += part
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return found


async def test_a_call_over_the_wire(port: int) -> None:
    """A tool is called, its event is there, and the answer has the headers that keep it private."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        body = {"tool_name": "search", "payload": {"query": "ravens"}, "session_id": "wire"}
        reply = await client.post("/v1/calls", json=body)
        assert (reply.status_code, reply.json()["output"]) == (200, {"top_result_url": "doc:ravens"})
        assert "server" not in reply.headers
        events = await client.get("/v1/events", params={"session_id": "wire"})
        assert events.headers["cache-control"] == "no-store"
        assert events.headers["x-content-type-options"] == "nosniff"
        assert [event["event_id"] for event in events.json()["items"]] == [reply.json()["event_id"]]
        assert (await client.head("/v1/me")).status_code == 200
        document = (await client.get("/openapi.json")).json()
        assert document["openapi"] == "3.1.0"
        assert "/v1/calls" in document["paths"]
        ready = await client.get("/readyz")
        assert ready.json() == {"status": "ok"}


async def test_a_body_in_chunks_is_refused_when_it_is_too_large(port: int) -> None:
    """Without a stated length the server stops at the limit and says 413."""
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    count = LARGEST_BODY // 0x100000 + 1
    answer = await raw(port, _POST + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * count, b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"PAYLOAD_TOO_LARGE" in answer
    stated = await raw(port, _POST + b"Content-Length: 99999999\r\n\r\n")
    assert stated.startswith(b"HTTP/1.1 413 ")


async def test_requests_that_no_client_sends_get_an_answer(port: int) -> None:
    """Odd targets, headers and bodies: a 4xx each, and the server goes on."""
    odd = {
        b"GET /v1/me%00 HTTP/1.1\r\nHost: localhost\r\n\r\n": b"404",
        b"GET /%FF%FE HTTP/1.1\r\nHost: localhost\r\n\r\n": b"404",
        b"GET //evil.example/v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n": b"404",
        b"GET /v1/me HTTP/1.1\r\nHost: evil.example\r\n\r\n": b"401",
        b"GET /v1/me HTTP/1.0\r\n\r\n": b"401",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n": b"204",
        b"DELETE /v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n": b"405",
        b"GET /v1/me?%zz=1 HTTP/1.1\r\nHost: localhost\r\n\r\n": b"400",
        b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nX-Correlation-Id: \xff\r\n\r\n": b"400",
        b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n": b"401",
        _POST + b"Content-Length: 1\r\n\r\n{": b"400",
        b"NONSENSE\r\n\r\n": b"400",
    }
    for request, status in odd.items():
        answer = await raw(port, request)
        assert answer[9:12] == status, (request, answer[:200])
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_who_breaks_off_costs_nobody_anything(home: ApiHome, port: int) -> None:
    """A client that leaves in the middle of its body, or of a stream, leaves nothing behind."""
    for request in (
        _POST + b'Content-Length: 99\r\n\r\n{"na',
        b"GET /v1/events/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(request)
                await asyncio.sleep(0.02)

    async def is_free() -> bool:
        return b"\ntwinraven_live_streams 0\n" in (await home.door.get("/metrics")).body

    await until(is_free)
    users = made(await home.door.get("/v1/users"))["items"]
    assert [user["user_id"] for user in users] in ([], ["local"])


async def test_live_events_over_the_wire(home: ApiHome, port: int) -> None:
    """A stream begins at once, carries what is recorded, and does not keep the server from ending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v1/events/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    begun = await asyncio.wait_for(reader.readuntil(b": listening\nid: 0\n\n"), 10)
    assert b"content-type: text/event-stream" in begun
    event = {"session_id": "s", "tool_id": "t", "input_params": {"number": 7}}
    made(await home.door.post("/v1/events", {"events": [event]}))
    heard = await asyncio.wait_for(reader.readuntil(b"\n\n"), 10)
    assert b'"number":7' in heard
    writer.close()
