"""A server that is asked to end: what it waits for, what it does not, and what it says to those it cuts off."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Literal

import httpx2
import pytest
import uvicorn

from tests.gateways import free_port, until
from twinraven.serving import ENDING, Receive, Scope, Send, listener, run, serve
from twinraven.serving.slow_requests import SlowRequestReaper


class Slow:
    """Answers /<seconds> after so many seconds, /stream when the server ends, and /body never."""

    def __init__(self) -> None:
        self.begun = 0
        self.client: tuple[str, int] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        self.client = scope["client"]
        self.begun += 1
        if scope["path"] == "/body":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await scope[ENDING].wait()
        else:
            await asyncio.sleep(float(scope["path"].removeprefix("/")))
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


@asynccontextmanager
async def serving(app: Slow, *, patience_s: float) -> AsyncGenerator[tuple[httpx2.AsyncClient, asyncio.Future[None]]]:
    """A client of a server, and the server, which ends by itself or is ended by signals to this process."""
    port = free_port()
    server = listener(app, "127.0.0.1", port, patience_s=patience_s)
    running = asyncio.ensure_future(serve(server))
    await until(lambda: server.started)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client, running
    await asyncio.wait_for(running, 10)


def ask_to_end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_what_is_under_way_is_answered_and_streams_are_ended() -> None:
    """A request that needs longer than a stream lasts gets its answer; the stream ends whole, and at once."""
    app = Slow()
    async with serving(app, patience_s=20) as (client, running):
        asked = asyncio.ensure_future(client.get("/3"))
        stream = asyncio.ensure_future(client.get("/stream"))
        await until(lambda: app.begun == 2)
        ask_to_end()
        assert (await asyncio.wait_for(stream, 1.5)).content == b"begundone"
        assert not asked.done()
        assert ((await asked).status_code, asked.result().content) == (200, b"done")
        await asyncio.wait_for(running, 2)


@pytest.mark.parametrize("is_hurried", [True, False])
async def test_what_is_cut_off_is_told_so(is_hurried: bool) -> None:
    """After its patience, or with the second signal, the server answers 503 with a problem that says what to do."""
    app = Slow()
    async with serving(app, patience_s=60 if is_hurried else 1) as (client, running):
        asked = asyncio.ensure_future(client.get("/30"))
        await until(lambda: app.begun == 1)
        began = time.monotonic()
        ask_to_end()
        if is_hurried:
            await asyncio.sleep(0.3)
            ask_to_end()
        answer = await asyncio.wait_for(asked, 5)
        await asyncio.wait_for(running, 3)
    assert time.monotonic() - began < 5
    problem = json.loads(answer.content)
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert (problem["code"], problem["retryable"], problem["status"]) == ("SERVER_ENDING", True, 503)
    assert answer.headers["retry-after"] == "1"


async def test_a_header_does_not_say_who_connects() -> None:
    """The peer is who holds the connection, whatever a request says of where it came from."""
    app = Slow()
    async with serving(app, patience_s=5) as (client, _):
        await client.get("/0", headers={"X-Forwarded-For": "203.0.113.9"})
        ask_to_end()
    assert app.client is not None
    assert app.client[0] == "127.0.0.1"


async def test_the_end_of_a_lifeline_ends_a_server_in_order() -> None:
    """When nobody holds the other end of the pipe any more, what is under way is answered, and that is all."""
    app, port = Slow(), free_port()
    lifeline, held = os.pipe()
    server = listener(app, "127.0.0.1", port)
    running = asyncio.ensure_future(serve(server, lifeline=lifeline))
    await until(lambda: server.started)
    async with httpx2.AsyncClient(timeout=20) as client:
        asked = asyncio.ensure_future(client.get(f"http://127.0.0.1:{port}/1"))
        await until(lambda: app.begun == 1)
        os.close(held)
        assert (await asked).status_code == 200
    await asyncio.wait_for(running, 3)
    os.close(lifeline)


@asynccontextmanager
async def listening(app: Slow, *, http: Literal["h11", "httptools"]) -> AsyncGenerator[tuple[int, uvicorn.Server]]:
    """The port of a server that gives a request a second to arrive."""
    port = free_port()
    server = listener(app, "127.0.0.1", port, patience_s=20, arrival_s=1)
    server.config.http = http
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    yield port, server
    server.should_exit = True
    await asyncio.wait_for(running, 5)


@pytest.mark.parametrize("http", ["h11", "httptools"])
@pytest.mark.parametrize(
    "part", [b"", b"GET /0 HTTP/1.1\r\nHost: x\r\n", b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"]
)
async def test_a_request_that_does_not_arrive_is_cut_off(http: Literal["h11", "httptools"], part: bytes) -> None:
    """Nothing, half a head or half a body holds a connection for as long as a request may take to arrive."""
    async with listening(Slow(), http=http) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(part)
        began = time.monotonic()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        assert time.monotonic() - began > 0.9
        writer.close()


@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_what_has_arrived_may_take_its_time(http: Literal["h11", "httptools"]) -> None:
    """Whoever waits for an answer, or rests between two requests, is left alone."""
    async with (
        listening(Slow(), http=http) as (port, _),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        assert (await client.get("/3")).content == b"done"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"done")
        await asyncio.sleep(2.5)
        writer.write(b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"done" in await asyncio.wait_for(reader.readuntil(b"done"), 2)
        writer.close()


async def test_nobody_waits_for_half_a_request_at_the_end() -> None:
    """A server that ends does not wait for the rest of a body."""
    app = Slow()
    port = free_port()
    server = listener(app, "127.0.0.1", port, patience_s=20)
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
    await until(lambda: app.begun == 1)
    server.should_exit = True
    await asyncio.wait_for(running, 3)
    writer.close()


def test_a_server_does_not_go_through_all_it_began_with_again_and_again() -> None:
    """What is there at the start is left out of the search for garbage while the server runs, and only then."""
    before = (gc.get_threshold(), gc.get_freeze_count())
    seen: list[tuple[int, int]] = []

    async def look() -> None:
        seen.append((gc.get_threshold()[0], gc.get_freeze_count()))

    run(look())
    assert seen[0][0] > before[0][0]
    assert seen[0][1] > 10_000
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before[0], 0)


def test_threads_of_a_server_wait_for_the_interpreter_a_short_time() -> None:
    """While a server runs no thread keeps the interpreter for milliseconds, and afterwards as long as before."""
    before = sys.getswitchinterval()
    seen: list[float] = []

    async def look() -> None:
        seen.append(sys.getswitchinterval())

    run(look())
    assert seen[0] <= 0.001 < before
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_an_upgrade_is_no_way_out_of_the_protocol(http: Literal["h11", "httptools"]) -> None:
    """Whoever asks for WebSockets, and however often, is answered as anybody else, and the server goes on."""
    upgrade = (
        b"GET /0 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    async with listening(Slow(), http=http) as (port, server):
        ends = time.monotonic() + 2.5
        while time.monotonic() < ends:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(upgrade)
            assert b" 200 " in await asyncio.wait_for(reader.readline(), 2)
            writer.close()
        assert server.started
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            assert (await client.get("/0")).content == b"done"


async def test_what_waits_behind_another_request_is_not_cut_off_for_it() -> None:
    """A client that sends its next request early loses neither answer, though nobody reads the second one yet."""
    async with listening(Slow(), http="httptools") as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"x" * 4_000_000
        writer.write(b"GET /3 HTTP/1.1\r\nHost: x\r\n\r\n")
        writer.write(b"POST /0 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        for _ in range(2):
            assert (await asyncio.wait_for(reader.readuntil(b"done"), 8)).endswith(b"done")
        writer.close()


def test_what_is_no_request_is_not_looked_at() -> None:
    """A connection of another protocol, and one on which an answer is still owed, are nobody's laggards."""
    closed: list[object] = []

    class Connection:
        transport = SimpleNamespace(close=lambda: closed.append(1))

    other, behind, late = Connection(), Connection(), Connection()
    cycle = SimpleNamespace(response_complete=False, more_body=True)
    vars(behind).update(cycle=cycle, pipeline=["another"], timeout_keep_alive_task=None)
    vars(late).update(cycle=_Cycle(), pipeline=[], timeout_keep_alive_task=None)
    now = [0.0]
    laggards = SlowRequestReaper([other, behind, late], patience_s=5, clock=lambda: now[0])
    laggards.look()
    now[0] = 6.0
    laggards.look()
    assert closed == [1]
    laggards.cut()
    assert closed == [1, 1]


class _Cycle:
    response_complete = False
    more_body = True
