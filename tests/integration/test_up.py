"""`twinraven up`: one port for programs and agents, and as many processes as a Postgres bears."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import COMMAND, Shell
from tests.gateways import NEW, free_port, home_with, open_client, until, wait_for_port
from tests.postgres import PostgresLogin

TOOLS = '''
from twinraven import tool

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


def ask(port: int, path: str, body: Any = None) -> Any:
    """One request with JSON in and out."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data=data, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    return home_with(tmp_path, {"desk": NEW}, tools={"modules": ["desk_tools"]})


async def test_one_port_serves_programs_and_agents(shell: Shell) -> None:
    """What is called over REST and through the gateway stands in one log, and a signal ends it in order."""
    port = free_port()
    with up(shell, port=port) as process:
        answer = ask(port, "/v1/calls", {"tool_name": "greet", "payload": {"name": "ada"}, "session_id": "rest"})
        assert answer["output"] == {"text": "hello ada"}
        async with open_client(f"http://127.0.0.1:{port}/mcp") as agent:
            assert {"greet", "desk__echo"} <= await agent.names()
            assert "hello bob" in await agent.text("greet", name="bob")
        seen = [event["input_params"] for event in ask(port, "/v1/events?tool_id=greet")["items"]]
        assert seen == [{"name": "ada"}, {"name": "bob"}]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


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
        await until(lambda: len(children(process.pid)) == 2, within_s=30)
        answered = [call_some(port, number) for number in range(10)]
        victim = children(process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        answered += [call_some(port, number) for number in range(10, 30)]
        await until(lambda: len(children(process.pid)) == 2 and victim not in children(process.pid), within_s=30)
        kept = {event["event_id"] for event in ask(port, "/v1/events?limit=500")["items"]}
        assert {event_id for event_id in answered if event_id is not None} <= kept
        assert sum(event_id is not None for event_id in answered) >= 28
        workers = children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def call_some(port: int, number: int) -> str | None:
    """The event of a call, or nothing where the process that took it died before it could answer."""
    body = {"tool_name": "greet", "payload": {"name": str(number)}, "session_id": "many"}
    with suppress(ConnectionError, urllib.error.URLError):
        return ask(port, "/v1/calls", body)["event_id"]
    return None


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
