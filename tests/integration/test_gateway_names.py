"""Tools of servers beside tools from elsewhere: what was there keeps its name, and nothing is lost in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from twinraven import tool
from twinraven.app import TwinRaven
from twinraven.catalog import ServiceSpec, ToolSpec
from twinraven.connectors.mcp.model import Listing
from twinraven.connectors.mcp.naming import distinct_tool_id
from twinraven.foundation.errors import Conflict
from twinraven.tenancy import LOCAL


@tool(effect="read", name="py__x")
def ours() -> str:
    """Ours."""
    return "python"


def listing(*names: str) -> Listing:
    return Listing([{"name": name, "inputSchema": {"type": "object"}} for name in names])


async def define(raven: TwinRaven, key: str) -> None:
    """A data-defined tool."""
    service = {"name": key, "type": "rest_api", "protocol": "http", "connection_schema": {"type": "object"}}
    await raven.defined.services.create(LOCAL, ServiceSpec.from_json(service))
    body: dict[str, Any] = {
        "key": key,
        "service": key,
        "description": "Theirs.",
        "connection_params": {"endpoint": "http://127.0.0.1:9"},
        "operation": {"type": "rest_call", "method": "GET", "path": "/x"},
        "input_schema": {"type": "object", "properties": {}},
    }
    await raven.defined.tools.create(LOCAL, ToolSpec.from_json(body))


async def hear(raven: TwinRaven, server: str, *names: str) -> None:
    """Let the home see a server's list, as it does when the server is connected."""
    await raven.upstreams.of("default")._observe(server, listing(*names))  # pyright: ignore[reportPrivateUsage]


async def told(raven: TwinRaven) -> dict[str, list[str]]:
    entries = [entry for entry in await raven.audit.entries("default") if entry.subject_type == "upstream_server"]
    return {entry.event_type: entry.data["tools"] for entry in entries}


def connector(raven: TwinRaven, tool_id: str) -> str:
    return raven.catalog.find("default", tool_id).connector


async def test_a_python_tool_is_not_replaced_and_replaces_nothing(tmp_path: Path) -> None:
    """A server's tool of the same name gets another one, both are offered, and the audit chain tells."""
    apart = distinct_tool_id("py", "x")
    with opened_home(tmp_path, [ours]) as raven:
        await hear(raven, "py", "x", "y")
        found = {entry.tool_id: entry.connector for entry in raven.catalog.entries("default")}
        assert found == {"py__x": "python", apart: "mcp", "py__y": "mcp"}
        pinned = raven.upstream_tools.pinned("default", apart)
        assert pinned is not None
        assert (pinned.server, pinned.name) == ("py", "x")
        assert (await told(raven))["upstream.tools_named_apart"] == [apart]


async def test_a_defined_tool_keeps_its_name_when_a_server_adds_one(tmp_path: Path) -> None:
    """Somebody's tool goes on under its name; the server's later one stands beside it."""
    with opened_home(tmp_path) as raven:
        await hear(raven, "a", "ok")
        await define(raven, "a__future")
        await hear(raven, "a", "ok", "future")
        assert connector(raven, "a__future") == "rest"
        assert connector(raven, distinct_tool_id("a", "future")) == "mcp"
        await raven.aclose()


@pytest.mark.req("AE-07")
async def test_the_name_of_a_tool_that_may_be_back_is_reserved(tmp_path: Path) -> None:
    """While a server's tool is gone, nobody else can take its name, and it has it again when it is back."""
    with opened_home(tmp_path) as raven:
        await hear(raven, "a", "ok", "future")
        await hear(raven, "a", "ok")
        with pytest.raises(Conflict, match="a__future"):
            await define(raven, "a__future")
        await hear(raven, "a", "ok", "future")
        assert connector(raven, "a__future") == "mcp"
        await raven.aclose()


@pytest.mark.req("AE-07")
async def test_a_tool_that_a_python_tool_hides_is_told_of(tmp_path: Path) -> None:
    """Whoever writes a Python tool under a server's name gets it called; that the other is hidden is on record."""
    with opened_home(tmp_path / "home") as raven:
        await hear(raven, "py", "x", "y")
        raven.functions.add(ours)
        await hear(raven, "py", "x", "y")
        assert {entry.tool_id: entry.connector for entry in raven.catalog.entries("default")} == {
            "py__x": "python",
            "py__y": "mcp",
        }
        assert (await told(raven))["upstream.tools_left_out"] == ["x"]
