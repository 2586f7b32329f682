"""`twinraven up`: one port for programs and agents, and as many processes as a Postgres bears."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.sse import sse_client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from tests.acceptance.cli import COMMAND, Shell
from tests.gateways import free_port, home_with, http_gateway, new_server, open_client, until, wait_for_port
from tests.postgres import PostgresLogin
from tests.servers.http_server import Reply, serving
from twinraven.app import open_home

TOOLS = '''
import time
from pathlib import Path
from twinraven import tool

@tool(effect="write")
def toil(number: int) -> dict[str, int]:
    """Says that it has begun, and takes its time."""
    Path(f"toil-{number}").touch()
    time.sleep(4)
    return {"number": number}

@tool(effect="read")
def greet(name: str) -> dict[str, str]:
    """Greets somebody."""
    return {"text": "hello " + name}
'''


@contextmanager
def up(shell: Shell, *arguments: str, port: int) -> Generator[subprocess.Popen[bytes]]:
    """The command, running and listening."""
    words = [str(COMMAND), "up", "--http", f"127.0.0.1:{port}", *arguments]
    with subprocess.Popen(words, cwd=shell.folder, env=shell.environment(), stderr=subprocess.PIPE) as process:
        try:
            wait_for_port(port)
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()


def ask(port: int, path: str, body: Any = None, **headers: str) -> Any:
    """One request with JSON in and out."""
    data = None if body is None else json.dumps(body).encode()
    stated = {"Content-Type": "application/json", **_spelt(headers)}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, headers=stated)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def status_of(port: int, path: str, **headers: str) -> int:
    """How a request is answered."""
    return httpx2.get(f"http://127.0.0.1:{port}{path}", headers=_spelt(headers), timeout=30).status_code


def _spelt(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


_ACCEPT = {"accept": "application/json, text/event-stream"}
_CLIENT = {"name": "t", "version": "1"}


@asynccontextmanager
async def open_session(client: httpx2.AsyncClient, address: str) -> AsyncGenerator[httpx2.Response]:
    """The stream of a session of a revision with a handshake."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await client.post(f"{address}/mcp", json=body, headers=_ACCEPT)
    session = {"mcp-session-id": answer.headers["mcp-session-id"], "accept": "text/event-stream"}
    async with client.stream("GET", f"{address}/mcp", headers=session) as stream:
        yield stream


@asynccontextmanager
async def listen(client: httpx2.AsyncClient, address: str) -> AsyncGenerator[httpx2.Response]:
    """A subscription of the newest revision, which is a request that lasts."""
    meta: dict[str, Any] = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {**_ACCEPT, "mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": "subscriptions/listen"}
    async with client.stream("POST", f"{address}/mcp", json=body, headers=headers) as stream:
        yield stream


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    return home_with(tmp_path, {"desk": new_server()}, tools={"modules": ["desk_tools"]})


@pytest.mark.req("AD-03")
async def test_health_is_watched_while_the_server_is_up(tmp_path: Path) -> None:
    """Nobody asks for a check, and still services and tools say how they are, since when, and what is wrong."""
    well = [True]
    shell = home_with(tmp_path, {}, connectors={"allow_private": ["127.0.0.0/8"], "health_every_s": 0.2})
    port = free_port()
    async with serving(lambda _: Reply(200 if well[0] else 503)) as shop:
        with up(shell, "--no-gateway", "--no-console", port=port):
            schema = {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("endpoint", "health_path")},
            }
            service = {"name": "shop", "type": "rest_api", "protocol": "http", "connectionSchema": schema}
            await asyncio.to_thread(ask, port, "/v1/services", service)
            params = {"endpoint": shop.url, "health_path": "/health"}
            operation = {"type": "rest_call", "method": "GET", "path": "/"}
            tool = {"key": "look", "service": "shop", "operation": operation, "inputSchema": {}}
            await asyncio.to_thread(ask, port, "/v1/tools", {**tool, "connectionParams": params})

            async def is_seen(status: str) -> bool:
                (found,) = (await asyncio.to_thread(ask, port, "/v1/services"))["items"]
                tool = await asyncio.to_thread(ask, port, "/v1/tools/look/definition")
                return {found["status"], tool["status"]} == {status} and found["last_health_check"] is not None

            await until(lambda: is_seen("healthy"))
            well[0] = False
            await until(lambda: is_seen("degraded"))
            (found,) = (await asyncio.to_thread(ask, port, "/v1/services"))["items"]
            assert "503" in found["error_message"]


async def test_one_port_serves_programs_and_agents(shell: Shell) -> None:
    """What is called over REST and through the gateway stands in one log, and a signal ends it in order."""
    port = free_port()
    with up(shell, port=port) as process:
        answer = ask(port, "/v1/calls", {"tool_name": "greet", "payload": {"name": "ada"}, "session_id": "rest"})
        assert answer["output"] == {"text": "hello ada"}
        async with open_client(f"http://127.0.0.1:{port}/mcp") as agent:
            assert {"greet", "desk__echo"} <= await agent.names()
            assert "hello bob" in await agent.text("greet", name="bob")

        def seen() -> list[Any]:
            return [event["input_params"] for event in ask(port, "/v1/events?tool_id=greet")["items"]]

        # A read through the gateway is answered before its record is on disk.
        await until(lambda: len(seen()) == 2)
        assert seen() == [{"name": "ada"}, {"name": "bob"}]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


async def begun(shell: Shell, *numbers: int) -> None:
    """Return when the tool is at work on each of these."""
    await until(lambda: all((shell.folder / f"toil-{number}").exists() for number in numbers))


async def test_a_write_under_way_is_answered_when_the_server_is_asked_to_end(shell: Shell) -> None:
    """Over REST and over SSE, whose answers go through a stream, calls that take seconds come to their end."""
    port = free_port()
    body = {"tool_name": "toil", "payload": {"number": 7}, "session_id": "slow"}
    with up(shell, port=port) as process:
        async with open_client(sse_client(f"http://127.0.0.1:{port}/sse"), mode="legacy") as agent:
            assert "toil" in await agent.names()
            said = asyncio.ensure_future(agent.text("toil", number=8))
            answered = asyncio.ensure_future(asyncio.to_thread(ask, port, "/v1/calls", body, Idempotency_Key="toil-7"))
            await begun(shell, 7, 8)
            process.send_signal(signal.SIGTERM)
            assert (await answered)["output"] == {"number": 7}
            assert "8" in await said
        assert await asyncio.to_thread(process.wait, 60) == 0


async def test_a_second_signal_ends_at_once(shell: Shell) -> None:
    """Whoever waits is told, and a tool that cannot be stopped does not keep the process."""
    (shell.folder / "desk_tools.py").write_text(TOOLS.replace("sleep(4)", "sleep(300)"))
    port = free_port()
    body = {"tool_name": "toil", "payload": {"number": 7}, "session_id": "slow"}
    with up(shell, "--no-gateway", port=port) as process:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            asked = asyncio.ensure_future(client.post("/v1/calls", json=body, headers={"Idempotency-Key": "toil-7"}))
            await begun(shell, 7)
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            answer = await asyncio.wait_for(asked, 60)
        assert await asyncio.to_thread(process.wait, 60) == 0
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVER_ENDING")


async def test_open_streams_do_not_keep_an_idle_server_from_ending(shell: Shell) -> None:
    """A listener to events and agents of every revision, connected and silent, cost no time."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with up(shell, port=port) as process:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
            live = await stack.enter_async_context(client.stream("GET", f"{address}/v1/events/live"))
            events = await stack.enter_async_context(client.stream("GET", f"{address}/sse"))
            session = await stack.enter_async_context(open_session(client, address))
            listening = await stack.enter_async_context(listen(client, address))
            streams = (live, events, session, listening)
            assert [stream.status_code for stream in streams] == [200] * 4
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert await asyncio.to_thread(process.wait, 120) == 0
            # A server that waited for them would wait as long as a call may take.
            assert time.monotonic() - began < 25
            for stream in streams:
                await asyncio.wait_for(stream.aread(), 60)


async def test_a_user_who_opens_streams_without_end_shuts_nobody_out(tmp_path: Path) -> None:
    """`serving.max_streams` counts at all doors together: one more is refused, requests are answered."""
    shell = home_with(tmp_path, {"desk": new_server()}, serving={"max_streams": 3})
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with up(shell, port=port):
        async with httpx2.AsyncClient(timeout=30) as client, AsyncExitStack() as stack:
            for path in ("/v1/events/live", "/v1/news", "/sse"):
                opened = await stack.enter_async_context(client.stream("GET", f"{address}{path}"))
                assert opened.status_code == 200
            refused = await client.get(f"{address}/v1/events/live")
            assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_STREAMS")
            elsewhere = await client.get(f"{address}/sse")
            assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (429, "TOO_MANY_STREAMS")
            assert (await client.get(f"{address}/v1/events")).status_code == 200

        def is_open_again() -> bool:
            with httpx2.stream("GET", f"{address}/v1/events/live", timeout=30) as again:
                return again.status_code == 200

        await until(is_open_again)


async def test_streams_of_the_gateway_end_with_their_key(shell: Shell) -> None:
    """Within about a second of a key being revoked nothing that it opened is open, whichever way it was opened."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with open_home(shell.folder / ".twinraven") as raven, up(shell, port=port):
        user = await raven.tenancy.add_user("default", "ada")
        issued = await raven.tenancy.issue_key("default", user.user_id)
        async with AsyncExitStack() as stack:
            headers = {"Authorization": f"Bearer {issued.clear}"}
            client = await stack.enter_async_context(httpx2.AsyncClient(timeout=30, headers=headers))
            events = await stack.enter_async_context(client.stream("GET", f"{address}/sse"))
            session = await stack.enter_async_context(open_session(client, address))
            listening = await stack.enter_async_context(listen(client, address))
            reading = [asyncio.ensure_future(stream.aread()) for stream in (events, session, listening)]
            done, _ = await asyncio.wait(reading, timeout=2.5)
            assert not done
            await raven.tenancy.revoke_key("default", issued.key.key_id)
            _, open_still = await asyncio.wait(reading, timeout=4)
            assert not open_still
            for stream in reading:
                stream.result()


def test_keys_can_be_asked_of_everybody(shell: Shell) -> None:
    """Behind a proxy that adds nothing to a request, only a switch tells others from this machine's own user."""
    port = free_port()
    with up(shell, port=port):
        assert ask(port, "/v1/me")["role"] == "admin"
        assert [status_of(port, path, X_Forwarded_For="203.0.113.9") for path in ("/v1/me", "/mcp")] == [401, 401]
    with up(shell, "--require-keys", port=port):
        assert [status_of(port, path) for path in ("/v1/me", "/mcp")] == [401, 401]


def test_the_setting_asks_for_keys_too(tmp_path: Path) -> None:
    """What stands in the settings holds for the gateway alone as for both together."""
    shell = home_with(tmp_path, {}, serving={"require_keys": True})
    with http_gateway(shell) as address:
        assert status_of(int(address.rpartition(":")[2]), "/mcp") == 401
    port = free_port()
    with up(shell, "--no-gateway", port=port):
        assert status_of(port, "/v1/me") == 401


def test_a_taken_port_is_said_in_a_sentence(shell: Shell) -> None:
    """Nothing is served, nothing is left behind, and the error names the address and the fix."""
    port = free_port()
    with up(shell, "--no-gateway", port=port):
        second = shell.run("up", "--no-gateway", "--http", f"127.0.0.1:{port}")
    assert second.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in second.err
    assert "--http" in second.err


def test_several_processes_need_a_server_database(shell: Shell) -> None:
    """On the embedded store more than one process is refused before anything listens."""
    ended = shell.run("up", "--processes", "2", "--http", f"127.0.0.1:{free_port()}")
    assert ended.code == 2
    assert "Postgres" in ended.err


async def test_a_process_that_dies_is_replaced_and_no_call_is_lost(
    tmp_path: Path, postgres_login: PostgresLogin
) -> None:
    """With several processes on one port, kill -9 of one leaves the others serving; every answered call is recorded."""
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    storage = {"url": postgres_login.url, "admin_url": postgres_login.admin_url}
    shell = home_with(tmp_path, {}, storage=storage, tools={"modules": ["desk_tools"]})
    port = free_port()
    with up(shell, "--no-gateway", "--processes", "2", port=port) as process:
        await until(lambda: len(children(process.pid)) == 2)
        answered = [call_some(port, number) for number in range(10)]
        victim = children(process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        answered += [call_some(port, number) for number in range(10, 30)]
        await until(lambda: len(children(process.pid)) == 2 and victim not in children(process.pid))
        kept = {event["event_id"] for event in ask(port, "/v1/events?limit=500")["items"]}
        assert {event_id for event_id in answered if event_id is not None} <= kept
        assert sum(event_id is not None for event_id in answered) >= 28
        workers = children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


async def test_no_process_outlives_the_one_that_was_started(tmp_path: Path, postgres_login: PostgresLogin) -> None:
    """kill -9 of the command itself frees its ports: the API's processes and the gateway's end by themselves."""
    storage = {"url": postgres_login.url, "admin_url": postgres_login.admin_url}
    shell = home_with(tmp_path, {}, storage=storage)
    port = free_port()
    with up(shell, "--processes", "2", port=port) as process:
        await until(lambda: len(children(process.pid)) == 3)
        await asyncio.to_thread(wait_for_port, port + 1)
        ask(port, "/v1/me")
        workers = children(process.pid)
        process.kill()
        process.wait()
        await until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def call_some(port: int, number: int) -> str | None:
    """The event of a call, or nothing where the process that took it died before it could answer."""
    body = {"tool_name": "greet", "payload": {"name": str(number)}, "session_id": "many"}
    with suppress(ConnectionError, urllib.error.URLError):
        return ask(port, "/v1/calls", body)["event_id"]
    return None


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
