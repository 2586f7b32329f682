"""Servers that take their time to start: not restarted for it, and nobody waits for them longer than clients do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateways import OLD, home_with, open_client, stdio_gateway
from tests.servers import talker
from tests.servers.talker import NEWEST
from twinraven.app import GatewaySettings, open_home
from twinraven.connectors.mcp import connection
from twinraven.connectors.mcp.connection import connect
from twinraven.connectors.mcp.model import UpstreamChangeKind
from twinraven.connectors.mcp.pool import UpstreamPool
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.gateway import Gateway

SHORTEST_CLIENT_S = 5.0
"""The shortest time-out of a client that was seen."""


def slow(*arguments: str, seconds: float) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(Path(talker.__file__)), "--slow", str(seconds), *arguments]}


def withheld(until: Path) -> dict[str, Any]:
    """A server that starts when a file is there."""
    waits = f"while [ ! -e '{until}' ]; do sleep 0.1; done; exec '{sys.executable}' '{talker.__file__}'"
    return {"command": "/bin/sh", "args": ["-c", waits]}


@pytest.mark.parametrize(
    ("arguments", "revision"),
    [(("--revision", NEWEST), NEWEST), ((), "2025-11-25"), (("--silent",), "2025-11-25")],
    ids=["newest", "older", "silent"],
)
async def test_a_slow_server_is_asked_both_ways_and_kept(
    arguments: tuple[str, ...], revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer of a server that is slower than our first question counts, whichever question it answers."""
    monkeypatch.setattr(connection, "_DISCOVERED_WITHIN_S", 0.2)
    entry = slow(*arguments, seconds=1)
    server = ServerConfig("slow", "stdio", command=entry["command"], args=tuple(entry["args"]))
    faults: list[str] = []

    def on_news(kind: UpstreamChangeKind, uri: str | None) -> None: ...

    link = connect(server, max_bytes=1_000_000, on_fault=faults.append, on_change=lambda: None, on_news=on_news)
    async with link as connected:
        assert connected.protocol_version == revision
        assert (await connected.tools()).tools
    assert not faults


async def test_a_fresh_home_lists_what_is_there_and_announces_the_rest(tmp_path: Path) -> None:
    """The first list does not wait for the slowest server, whose tools are announced when it is there."""
    assert GatewaySettings().start_s < SHORTEST_CLIENT_S
    servers = {"quick": OLD, "late": withheld(tmp_path / "go")}
    shell = home_with(tmp_path, servers, gateway={"start_s": 0.5})
    async with open_client(stdio_gateway(shell), mode="legacy") as seen:
        assert "late__count" not in await seen.names()
        (tmp_path / "go").touch()
        for tool in ("quick__echo", "late__count"):
            await seen.told(tool)
    # What is known is listed at once, whoever is late.
    async with open_client(stdio_gateway(shell), mode="legacy") as seen:
        assert {"quick__echo", "late__count"} <= await seen.names()


async def test_the_handshake_counts_the_time_a_client_waited_for_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that gives up after five seconds began to wait when it started the command, not when that was loaded."""
    home_with(tmp_path, {"never": withheld(tmp_path / "go")}, gateway={"start_s": 3.0})
    waited: list[float] = []

    async def heard(_: UpstreamPool, patience_s: float) -> None:
        waited.append(patience_s)

    monkeypatch.setattr(UpstreamPool, "heard", heard)
    with open_home(tmp_path) as raven:
        for late_s in (0.0, 2.0, 9.0):
            gateway = Gateway(raven, late_s=late_s)
            await gateway.server.declarable()
    assert waited == [3.0, 1.0, 0.0]
