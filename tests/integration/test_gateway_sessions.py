"""Sessions of clients that name none: agents at work at the same time are not mixed up in the log."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from mcp import Client

from tests.acceptance.cli import Shell
from tests.gateways import OLD, home_with, http_gateway
from tests.servers.server_process import HERE, environment
from twinraven.app import TwinRaven, open_home
from twinraven.gateway.sessions import GUESSED


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with one server."""
    return home_with(tmp_path, {"old": OLD})


@pytest.fixture
def raven(shell: Shell) -> Generator[TwinRaven]:
    """The same home, seen from this process."""
    with open_home(shell.folder / ".twinraven") as opened:
        yield opened


async def conversations(raven: TwinRaven) -> dict[str, list[str]]:
    """What was said in each session; each of its events must be marked as guessed."""
    said: dict[str, list[str]] = {}
    for summary in await raven.events.sessions("default", limit=100):
        session = await raven.events.session("default", summary.session_id)
        assert all(GUESSED in event.tags for event in session.events)
        said[summary.session_id] = [str(event.input_params["text"]) for event in session.events]
    return said


async def test_clients_of_the_newest_revision_have_sessions(shell: Shell, raven: TwinRaven) -> None:
    """Twenty clients without a session id, four at a time, are twenty sessions, and `sessions show` says guessed."""
    gate = asyncio.Semaphore(4)

    async def converse(address: str, number: int) -> None:
        async with gate, Client(f"{address}/mcp") as client:
            for _ in range(3):
                await client.call_tool("old__echo", {"text": f"agent {number}"})

    with http_gateway(shell) as address:
        await asyncio.gather(*(converse(address, number) for number in range(20)))
    said = await conversations(raven)
    assert sorted(said.values()) == sorted([f"agent {number}"] * 3 for number in range(20))
    assert "a guess" in shell.succeed("sessions", "show", next(iter(said))).text


async def test_a_client_that_serves_several_conversations_mixes_none(shell: Shell, raven: TwinRaven) -> None:
    """Conversations over one client and its pool of connections never meet in a session; values keep each together."""

    async def converse(client: Client, number: int) -> None:
        for step in range(3):
            await client.call_tool("old__echo", {"text": f"order-{number}{number}{number}{number}", "step": step})

    with http_gateway(shell) as address:
        async with Client(f"{address}/mcp") as client:
            await asyncio.gather(*(converse(client, number) for number in range(4)))
    said = await conversations(raven)
    assert all(len(set(texts)) == 1 for texts in said.values())
    assert max(len(texts) for texts in said.values()) == 3


@pytest.mark.soak
async def test_agents_of_pydantic_ai_have_sessions(shell: Shell, raven: TwinRaven) -> None:
    """Twenty agents with MCP toolsets, four at a time, are twenty sessions of three calls."""
    python = await asyncio.to_thread(environment, "pydantic_ai_mcp")
    with http_gateway(shell) as address:
        command = [str(python), str(HERE / "pydantic_ai_mcp_agents.py"), f"{address}/mcp", "20", "4"]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=300)
    said = await conversations(raven)
    assert sorted(said.values()) == sorted([f"agent {number}"] * 3 for number in range(20)), json.dumps(said)
