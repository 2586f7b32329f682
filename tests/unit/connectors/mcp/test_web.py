"""Servers on HTTP: bounded in what they send, and precise about what was never sent to them."""

from __future__ import annotations

import asyncio
import gzip
import json
import select
import ssl
import zlib
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from twinraven.connectors.addresses import AddressGuard, AddressRules
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.web import AnswerTooLong, AnswerUnreadable, CappedTransport, GuardedTransport, web_link
from twinraven.connectors.mcp.wire import NOT_SENT

POST = httpx2.Request("POST", "http://server/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "x"})


class Answering(httpx2.AsyncBaseTransport):
    """A server that answers as it is told."""

    def __init__(self, answer: Callable[[], httpx2.Response]) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._answer()
        response.request = request
        return response


class Endless(httpx2.AsyncByteStream):
    """A body that does not end, unless its reader does."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000


class Counted(httpx2.AsyncByteStream):
    """A body in pieces that counts how many were asked for."""

    def __init__(self, *pieces: bytes) -> None:
        self.read = 0
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.read += 1
            yield piece


def compressed(body: httpx2.AsyncByteStream, encoding: str, kind: str = "application/json") -> Answering:
    headers = {"content-type": kind, "content-encoding": encoding}
    return Answering(lambda: httpx2.Response(200, headers=headers, stream=body))


async def test_many_calls_of_a_service_run_at_once() -> None:
    """A call that takes long keeps none of twenty others waiting."""
    asked = asyncio.Semaphore(0)
    answers = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.release()
        await answers.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    guard = AddressGuard(AddressRules.of(["127.0.0.0/8"]))
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        transport = GuardedTransport(guard, ssl.create_default_context())
        async with httpx2.AsyncClient(transport=transport, timeout=None) as client:
            calls = [asyncio.create_task(client.post(address)) for _ in range(20)]
            async with asyncio.timeout(60):
                for _ in calls:
                    await asked.acquire()
                answers.set()
                assert {answer.status_code for answer in await asyncio.gather(*calls)} == {204}


async def test_idle_connections_cost_a_call_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that were needed for a moment do not make each later call ask the system about each of them."""
    begun = asyncio.Barrier(20)
    served: list[asyncio.StreamWriter] = []
    answer = b'{"jsonrpc": "2.0", "id": 0, "result": {}}'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        with_others = True
        while await reader.readline():
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
            if with_others:
                await begun.wait()
            with_others = False
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%s" % (len(answer), answer))
        writer.close()

    def refused() -> None:
        raise AssertionError("an idle connection was asked about")

    async with asyncio.timeout(60), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        config = ServerConfig("desk", "http", url=address)
        async with web_link(config, max_bytes=1000, on_fault=list[str]().append) as link:
            await asyncio.gather(*(link.send_raw_request("ping", None) for _ in range(20)))
            monkeypatch.setattr(select, "poll", refused)
            assert await link.send_raw_request("ping", None) == {}
        await asyncio.gather(*(writer.wait_closed() for writer in served), return_exceptions=True)


def refuse() -> httpx2.Response:
    raise httpx2.ConnectError("connection refused")


async def test_a_body_without_end_ends() -> None:
    """An answer beyond the limit is broken off, with the reason, and not read to its end."""
    faults: list[str] = []
    endless = Answering(lambda: httpx2.Response(200, headers={"content-type": "application/json"}, stream=Endless()))
    transport = CappedTransport(endless, 50_000, faults.append)
    response = await transport.handle_async_request(POST)
    with pytest.raises(AnswerTooLong):
        await response.aread()
    assert faults == ["it sent an answer of more than 50000 bytes"]


async def test_a_stream_of_events_may_be_longer_than_any_of_them() -> None:
    """Events are bounded one by one elsewhere; the stream that carries them is not cut."""
    body = b"data: {}\n\n" * 100
    events = Answering(lambda: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body))
    response = await CappedTransport(events, 50, list[str]().append).handle_async_request(POST)
    assert await response.aread() == body


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (refuse, "cannot be reached"),
        (lambda: httpx2.Response(401, text="<html>no</html>"), "credentials"),
        (lambda: httpx2.Response(403), "forbids"),
        (lambda: httpx2.Response(429), "too often"),
    ],
)
async def test_what_was_never_taken_is_told_apart(answer: Callable[[], httpx2.Response], says: str) -> None:
    """A request that did not reach a tool comes back as an error of ours, so that it may be tried again safely."""
    response = await CappedTransport(Answering(answer), 10_000, list[str]().append).handle_async_request(POST)
    error = json.loads(await response.aread())["error"]
    assert error["code"] == NOT_SENT
    assert says in error["message"]


async def test_the_limit_counts_decompressed_bytes() -> None:
    """A gzip bomb is broken off at the limit, and never held in memory as a whole."""
    faults: list[str] = []
    body = Counted(gzip.compress(b"[" + b" " * 64_000_000))
    response = await CappedTransport(compressed(body, "gzip"), 100_000, faults.append).handle_async_request(POST)
    lengths: list[int] = []

    async def read() -> None:
        async for piece in response.aiter_bytes():
            lengths.append(len(piece))  # noqa: PERF401 - what was read before the error counts

    with pytest.raises(AnswerTooLong):
        await read()
    assert sum(lengths) <= 100_000
    assert faults == ["it sent an answer of more than 100000 bytes"]


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip"])
async def test_compression_that_was_not_asked_for_is_refused_unread(encoding: str) -> None:
    """We ask for one layer of gzip; a body in anything else is refused before any of it is read."""
    faults: list[str] = []
    body = Counted(zlib.compress(b"{}" * 1000))
    with pytest.raises(AnswerUnreadable, match="not asked for"):
        await CappedTransport(compressed(body, encoding), 100_000, faults.append).handle_async_request(POST)
    assert body.read == 0
    assert len(faults) == 1


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_gzip_is_read_as_what_it_holds(kind: str) -> None:
    """An honest gzip, whichever way it is cut, arrives decompressed, and the request asked for it."""
    text = b'data: {"n": 1}\n\n' * 50
    packed = gzip.compress(text)
    body = Counted(*(packed[at : at + 7] for at in range(0, len(packed), 7)))
    request = httpx2.Request("POST", "http://server/mcp", headers={"accept-encoding": "gzip, deflate, br"})
    response = await CappedTransport(compressed(body, "gzip", kind), 10_000, list[str]().append).handle_async_request(
        request
    )
    assert await response.aread() == text
    assert request.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("packed", [gzip.compress(b"{}" * 1000, mtime=0)[:-9], b"not gzip at all"])
async def test_broken_compression_is_an_error_and_not_an_answer(packed: bytes) -> None:
    """A compressed body that breaks off or is none is refused with the reason."""
    faults: list[str] = []
    transport = CappedTransport(compressed(Counted(packed), "gzip"), 100_000, faults.append)
    response = await transport.handle_async_request(POST)
    with pytest.raises(AnswerUnreadable):
        await response.aread()
    assert len(faults) == 1
