"""Messages on a pipe: however they are cut, whoever sends them, and whatever else comes along."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp_types import REQUEST_TIMEOUT

from twinraven.connectors import LineDispatcher
from twinraven.connectors.mcp.wire import CLOSED, NOT_SENT


class Wire(asyncio.WriteTransport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def write(self, data: Any) -> None:
        self.lines += [json.loads(line) for line in bytes(data).splitlines()]

    def is_closing(self) -> bool:
        return False


class Peer:
    """A dispatcher with a wire, and what became of both."""

    def __init__(self, *, max_bytes: int = 10_000, trusted: bool = False) -> None:
        self.faults: list[str] = []
        self.seen: list[tuple[str, Any]] = []
        self.wire = Wire()
        self.now = 0.0
        self.line = LineDispatcher(
            max_bytes=max_bytes,
            on_fault=None if trusted else self.faults.append,
            monotonic=lambda: self.now,
        )
        self.line.attach(self.wire)
        self.running = asyncio.ensure_future(self.line.run(self.on_request, self.on_notify))

    async def on_request(self, context: Any, method: str, params: Any) -> dict[str, Any]:
        self.seen.append((method, params))
        if method == "wait":
            await asyncio.sleep(60)
        if method == "fail":
            raise RuntimeError("inside")
        await context.progress(0.5)
        return {"method": method}

    async def on_notify(self, context: Any, method: str, params: Any) -> None:
        del context
        self.seen.append((method, params))

    def receive(self, *messages: Any) -> None:
        self.line.data_received(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def end(self) -> None:
        self.line.close()
        await self.running


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_messages_survive_every_way_of_cutting_them(cuts: list[int], words: list[str]) -> None:
    """The same notifications arrive in the same order however the pipe cuts the bytes."""

    async def run() -> list[Any]:
        peer = Peer()
        await peer.settle()
        body = b"".join(
            json.dumps({"jsonrpc": "2.0", "method": "say", "params": {"text": word}}).encode() + b"\n" for word in words
        )
        at, turn = 0, 0
        while at < len(body):
            size = cuts[turn % len(cuts)]
            peer.line.data_received(body[at : at + size])
            at, turn = at + size, turn + 1
        await peer.settle()
        await peer.end()
        return [params["text"] for _, params in peer.seen]

    assert asyncio.run(run()) == words


async def test_an_answer_finds_whoever_asked() -> None:
    """Answers come in any order, and an id that comes back as text is still the same id."""
    peer = Peer()
    await peer.settle()
    asking = [asyncio.ensure_future(peer.line.send_raw_request("ask", {"n": n})) for n in range(2)]
    await peer.settle()
    peer.receive({"jsonrpc": "2.0", "id": "2", "result": {"n": 1}}, {"jsonrpc": "2.0", "id": 1, "result": {"n": 0}})
    assert await asyncio.gather(*asking) == [{"n": 0}, {"n": 1}]
    await peer.end()


async def test_requests_are_answered_and_failures_say_nothing_inside() -> None:
    """Each request has one answer; what a handler raised stays on this side."""
    peer = Peer()
    await peer.settle()
    peer.receive({"jsonrpc": "2.0", "id": "a", "method": "hello"}, {"jsonrpc": "2.0", "id": "b", "method": "fail"})
    await peer.settle()
    answers = {line["id"]: line for line in peer.wire.lines}
    assert answers["a"]["result"] == {"method": "hello"}
    assert "inside" not in json.dumps(answers["b"]["error"])
    await peer.end()


async def test_a_cancelled_request_is_stopped_and_not_answered() -> None:
    """A peer that lost interest costs no more work and gets no more words about it."""
    peer = Peer()
    await peer.settle()
    peer.receive({"jsonrpc": "2.0", "id": 1, "method": "wait"})
    await peer.settle()
    peer.receive({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await peer.settle()
    assert peer.wire.lines == []
    await peer.end()


async def test_the_end_of_the_pipe_wakes_everybody() -> None:
    """Whoever waits for an answer learns at once that none will come; whoever asks later, that nothing was sent."""
    peer = Peer()
    await peer.settle()
    asking = asyncio.ensure_future(peer.line.send_raw_request("ask", None))
    await peer.settle()
    peer.line.connection_lost(None)
    with pytest.raises(MCPError) as caught:
        await asking
    assert caught.value.code == CLOSED
    with pytest.raises(MCPError) as caught:
        await peer.line.send_raw_request("ask", None)
    assert caught.value.code == NOT_SENT
    await peer.running


async def test_a_late_peer_is_told_that_nobody_waits() -> None:
    """A request that ran out of time, or whose caller left, is cancelled at the peer."""
    peer = Peer()
    await peer.settle()
    with pytest.raises(MCPError) as caught:
        await peer.line.send_raw_request("ask", None, {"timeout": 0.01})
    assert caught.value.code == REQUEST_TIMEOUT
    leaving = asyncio.ensure_future(peer.line.send_raw_request("ask", None))
    await peer.settle()
    leaving.cancel()
    await asyncio.wait([leaving])
    cancelled = [line["params"]["requestId"] for line in peer.wire.lines if line["method"] == "notifications/cancelled"]
    assert cancelled == [1, 2]
    await peer.end()


@pytest.mark.parametrize("newline", [b"", b"\n"])
async def test_a_message_that_is_too_long_ends_the_connection(newline: bytes) -> None:
    """However it arrives, a message beyond the limit is a fault and not a heap of memory."""
    peer = Peer(max_bytes=100)
    await peer.settle()
    peer.line.data_received(b'{"x": "' + b"y" * 200 + newline)
    assert peer.line.is_closed
    assert "more than 100 bytes" in peer.faults[0]
    await peer.running


async def test_a_broken_message_ends_the_connection() -> None:
    """Half an answer is an answer lost: better to say so than to leave its caller waiting."""
    peer = Peer()
    await peer.settle()
    peer.line.data_received(b'{"jsonrpc": "2.0", "id": 1, "result": \n')
    assert peer.faults == ["it sent something that is not JSON-RPC"]
    await peer.running


async def test_a_banner_is_passed_over_but_not_for_ever() -> None:
    """Servers that print a greeting are understood; ones that print nothing else are not."""
    peer = Peer()
    await peer.settle()
    peer.line.data_received(b"Welcome!\n\n")
    assert (peer.faults, peer.line.is_closed) == ([], False)
    peer.line.data_received(b"and welcome again\n" * 100)
    assert peer.line.is_closed
    await peer.running


async def test_a_peer_that_talks_without_end_is_cut_off() -> None:
    """Thousands of messages at once that nobody asked for are a flood; as many over half a minute are not."""
    chatter = json.dumps({"jsonrpc": "2.0", "method": "say"}).encode() + b"\n"
    patient = Peer()
    await patient.settle()
    for _ in range(30):
        patient.line.data_received(chatter * 400)
        patient.now += 1
    assert not patient.faults
    await patient.end()
    peer = Peer()
    await peer.settle()
    peer.line.data_received(chatter * 5_000)
    assert not peer.faults
    peer.line.data_received(chatter)
    assert "floods" in peer.faults[0]
    await peer.running


async def test_our_own_client_is_told_of_a_parse_error() -> None:
    """Towards a client a broken line is answered as JSON-RPC says, and the connection goes on."""
    peer = Peer(trusted=True)
    await peer.settle()
    peer.line.data_received(b"{nonsense\n")
    peer.receive({"jsonrpc": "2.0", "id": 1, "method": "hello"})
    await peer.settle()
    assert [line.get("error", {}).get("code") for line in peer.wire.lines] == [-32700, None]
    await peer.end()


async def test_big_integers_cross_the_pipe_whole() -> None:
    """Numbers beyond 64 bits are the same numbers on the other side, in both directions."""
    peer = Peer()
    await peer.settle()
    asking = asyncio.ensure_future(peer.line.send_raw_request("ask", {"n": 10**30}))
    await peer.settle()
    assert peer.wire.lines[0]["params"] == {"n": 10**30}
    peer.line.data_received(b'{"jsonrpc": "2.0", "id": 1, "result": {"n": 1' + b"0" * 30 + b"}}\n")
    assert await asking == {"n": 10**30}
    await peer.end()


async def test_progress_reaches_whoever_asked() -> None:
    """Progress of a request is passed to its caller."""
    peer = Peer()
    await peer.settle()
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    asking = asyncio.ensure_future(peer.line.send_raw_request("ask", None, {"on_progress": on_progress}))
    await peer.settle()
    token = peer.wire.lines[0]["params"]["_meta"]["progressToken"]
    half = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
    peer.receive({"jsonrpc": "2.0", "method": "notifications/progress", "params": half})
    await peer.settle()
    peer.receive({"jsonrpc": "2.0", "id": 1, "result": {}})
    await asking
    assert told == [(1.0, 2.0, "half")]
    await peer.end()
