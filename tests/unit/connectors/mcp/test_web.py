"""Servers on HTTP: bounded in what they send, and precise about what was never sent to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from twinraven.connectors.mcp.web import AnswerTooLong, CappedTransport
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
