"""The gateway on HTTP: streamable HTTP and SSE, clients of both eras at once, keys, and upstream servers on HTTP."""

from __future__ import annotations

import asyncio
import resource
import zlib
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.cli import Shell
from tests.gateways import OLD, free_port, home_with, http_gateway, http_server, open_client, promote_tool, until
from tests.served import a_way_to
from twinraven.app import TwinRaven, open_home
from twinraven.connectors import UpstreamLost
from twinraven.flow import StepDefinition
from twinraven.foundation.errors import ToolError


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with one server."""
    return home_with(tmp_path, {"old": OLD})


@pytest.fixture
def raven(shell: Shell) -> Generator[TwinRaven]:
    """The same home, seen from this process."""
    with open_home(shell.folder / ".twinraven") as opened:
        yield opened


async def test_an_old_and_a_new_client_both_see_a_promotion(shell: Shell, raven: TwinRaven) -> None:
    """Clients of both eras and of SSE, connected at once, are told of a learned tool, see it and can call it."""
    with http_gateway(shell) as address:
        async with AsyncExitStack() as stack:
            newer = await stack.enter_async_context(open_client(f"{address}/mcp"))
            older = await stack.enter_async_context(open_client(f"{address}/mcp", mode="legacy"))
            oldest = await stack.enter_async_context(open_client(sse_client(f"{address}/sse"), mode="legacy"))
            everybody = (newer, older, oldest)
            for client in everybody:
                assert await client.names() >= {"old__echo"}
            steps = [StepDefinition(number, "old__echo", {"text": "$.parameters.q"}) for number in range(2)]
            await promote_tool(raven, *steps, tool_id="echo_twice")
            for client in everybody:
                await client.told("echo_twice")
                assert not (await client.call("echo_twice", q="hi")).is_error


async def test_sessions_are_told_apart_by_what_each_revision_offers(shell: Shell, raven: TwinRaven) -> None:
    """A protocol session is a session, so is a conversation that a client names; else a session is guessed."""
    with http_gateway(shell) as address:
        async with (
            open_client(f"{address}/mcp", mode="legacy") as one,
            open_client(f"{address}/mcp", mode="legacy") as two,
        ):
            for client in (one, two, one):
                await client.names()
                await client.call("old__echo", text="hi")
        async with open_client(f"{address}/mcp") as newer:
            await newer.call("old__echo", text="a", meta={"conversation_id": "c7"})
            await newer.call("old__echo", text="b", meta={"conversation_id": "c7"})
            await newer.call("old__echo", text="c")
    sizes: dict[str, list[int]] = {}
    for session in await raven.events.sessions("default", limit=20):
        sizes.setdefault(session.session_id.partition("-")[0], []).append(session.event_count)
    assert {kind: sorted(counts) for kind, counts in sizes.items()} == {
        "mcp": [1, 2],
        "conversation": [2],
        "guessed": [1],
    }


async def test_a_repeated_request_is_told_from_one_with_another_id(shell: Shell) -> None:
    """In a protocol session the same id is the same request; the number 2 and the text "2" are two requests."""
    accepts = {"Accept": "application/json, text/event-stream"}
    with http_gateway(shell) as address:
        async with httpx2.AsyncClient(base_url=address, headers=accepts, timeout=90) as client:
            client.headers["Mcp-Protocol-Version"] = "2025-06-18"
            about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            opened = await client.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
            )
            client.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})

            async def call(request_id: int | str, text: str) -> str:
                params = {"name": "old__echo", "arguments": {"text": text}}
                asked = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
                return (await client.post("/mcp", json=asked)).text

            assert "IDEMPOTENCY_CONFLICT" not in await call(2, "five")
            assert "IDEMPOTENCY_CONFLICT" in await call(2, "six")
            assert "IDEMPOTENCY_CONFLICT" not in await call("2", "six")


async def test_a_key_opens_one_tenant(shell: Shell, raven: TwinRaven) -> None:
    """A key's calls happen in its own tenant; a wrong key opens nothing; a session does not change hands."""
    tenant = await raven.tenancy.create_tenant("other")
    user = await raven.tenancy.add_user(tenant.tenant_id, "stranger")
    issued = await raven.tenancy.issue_key(tenant.tenant_id, user.user_id, label="agent")
    with http_gateway(shell) as address:
        keyed = httpx2.AsyncClient(headers={"Authorization": f"Bearer {issued.clear}"}, timeout=90)
        async with (
            keyed,
            open_client(streamable_http_client(f"{address}/mcp", http_client=keyed), mode="legacy") as stranger,
        ):
            assert await stranger.names() == {"batch_reads"}
        async with httpx2.AsyncClient(timeout=90) as plain:
            wrong = await plain.post(f"{address}/mcp", json={}, headers={"Authorization": "Bearer nonsense"})
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "NOT_AUTHENTICATED")
            theirs = await _open_session(plain, address, {"Authorization": f"Bearer {issued.clear}"})
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            hijacked = await plain.post(f"{address}/mcp", json=listing, headers={**_ACCEPT, "mcp-session-id": theirs})
            assert hijacked.status_code == 404


_ACCEPT = {"accept": "application/json, text/event-stream"}


async def _open_session(client: httpx2.AsyncClient, address: str, headers: dict[str, str]) -> str:
    params: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await client.post(f"{address}/mcp", json=body, headers={**_ACCEPT, **headers})
    return answer.headers["mcp-session-id"]


async def test_beyond_this_machine_a_key_is_needed(shell: Shell) -> None:
    """A gateway that others can reach answers nobody without a key."""
    with http_gateway(shell, host="0.0.0.0") as address:
        async with httpx2.AsyncClient(timeout=90) as plain:
            refused = await plain.post(f"{address}/mcp", json={}, headers=_ACCEPT)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "NOT_AUTHENTICATED")


async def test_a_web_page_cannot_reach_a_gateway_on_this_machine(shell: Shell) -> None:
    """A request that comes under another host's name, or from a page of another origin, is refused."""
    with http_gateway(shell) as address:
        async with httpx2.AsyncClient(timeout=90) as plain:
            rebound = await plain.post(f"{address}/mcp", json={}, headers={**_ACCEPT, "host": "evil.example"})
            foreign = await plain.post(f"{address}/mcp", json={}, headers={**_ACCEPT, "origin": "http://evil.example"})
    assert (rebound.status_code, foreign.status_code) == (401, 401)


@pytest.mark.parametrize("way", ["http", "sse"])
async def test_servers_on_http_stand_behind_it_too(tmp_path: Path, way: str) -> None:
    """Streamable HTTP and SSE upstreams are called like programs; a caller's key is not passed on to them."""
    with http_server(way) as port:
        path = "mcp" if way == "http" else "sse"
        home_with(tmp_path, {"web": {"url": f"http://127.0.0.1:{port}/{path}", "headers": {"X-Mine": "yes"}}})
        with open_home(tmp_path / ".twinraven") as raven:
            async with raven.upstreams.of("default") as pool:
                await pool.settle(20)
                assert [status.state for status in pool.statuses()] == ["up"]
                answer = await pool.call("default", "web", "echo", {"text": "hi"})
                assert answer["content"] == [{"type": "text", "text": "hi"}]


@contextmanager
def bomb_server(encoding: str) -> Generator[int]:
    """A server that answers every request with a hundred megabytes of spaces, compressed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    body = b"".join(packer.compress(b" " * 1_000_000) for _ in range(100)) + packer.flush()

    class Bomb(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-encoding", encoding)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bomb)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(("encoding", "says"), [("gzip", "more than"), ("deflate", "not asked for")])
async def test_a_compressed_bomb_ends_its_own_server_alone(tmp_path: Path, encoding: str, says: str) -> None:
    """A server whose answers unfold into too much is down with the reason; memory stays, and the others answer."""
    with bomb_server(encoding) as port:
        home_with(tmp_path, {"bomb": {"url": f"http://127.0.0.1:{port}/mcp"}, "old": OLD})
        with open_home(tmp_path / ".twinraven") as raven:
            async with raven.upstreams.of("default") as pool:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                # Between two attempts its status has the reason.
                await until(lambda: any(says in str(status) for status in pool.statuses() if status.server == "bomb"))
                after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                answer = await pool.call("default", "old", "echo", {"text": "hi"})
    assert "hi" in answer["content"][0]["text"]
    assert after - before < 90_000, "the peak in kilobytes, of an answer of a hundred megabytes"


async def test_an_answer_that_is_lost_costs_its_own_call_alone(tmp_path: Path) -> None:
    """A connection that a server closes unanswered is that call's affair: others under way and later ones succeed."""
    with http_server("http") as port:
        async with a_way_to(f"http://127.0.0.1:{port}") as way:
            home_with(tmp_path, {"web": {"url": f"{way.url}/mcp"}})
            with open_home(tmp_path / ".twinraven") as raven:
                async with raven.upstreams.of("default") as pool:
                    await pool.settle(60)
                    way.lose = lambda request: b"lost" in request

                    async def call(text: str) -> str:
                        try:
                            answer = await pool.call("default", "web", "echo", {"text": text})
                        except UpstreamLost as error:
                            return error.message
                        return str(answer["content"][0]["text"])

                    texts = [f"text {number}" for number in range(10)]
                    first, *others = await asyncio.gather(*map(call, ["lost", *texts]))
                    assert "while 'echo' was running" in first
                    assert others == texts
                    assert await call("later") == "later"
                    (status,) = pool.statuses()
    assert (status.state, status.restarts) == ("up", 0)


async def test_an_upstream_on_http_that_goes_away_is_found_again(tmp_path: Path) -> None:
    """While its server is away a call says so; when the server is back, so is the upstream."""
    port = free_port()
    home_with(tmp_path, {"web": {"url": f"http://127.0.0.1:{port}/mcp"}})
    with open_home(tmp_path / ".twinraven") as raven:
        pool = raven.upstreams.of("default")

        async def works() -> bool:
            try:
                await pool.call("default", "web", "echo", {"text": "hi"})
            except ToolError:
                return False
            return True

        async def is_away() -> bool:
            return not await works() and pool.statuses()[0].state != "up"

        with http_server("http", at=port):
            pool.start()
            await until(works)
        await until(is_away)
        with http_server("http", at=port):
            await until(works)
        assert pool.statuses()[0].restarts > 0
        await pool.aclose()
