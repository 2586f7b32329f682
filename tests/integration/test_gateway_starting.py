"""Servers that take their time to start: not restarted for it, and nobody waits for them longer than clients do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateways import OLD, home_with, open_client, stdio_gateway
from tests.servers import talker
from tests.servers.talker import NEWEST
from twinraven.app import GatewaySettings
from twinraven.connectors.mcp import connection
from twinraven.connectors.mcp.connection import connect
from twinraven.connectors.mcp.model import UpstreamChangeKind
from twinraven.connectors.mcp.servers import ServerConfig

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
