"""Six servers of other people, of mixed revisions and languages, behind one gateway: nothing of theirs is lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client, StdioServerParameters

from bench.harness import HERE, peer_python
from tests.gateways import home_with, open_client, stdio_gateway

PACKAGES: Final = (
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-everything@2026.8.31",
)


def npm_servers() -> Path:
    """The folder of the servers that come from npm, installed when they are not there."""
    folder = HERE / ".peers" / "npm"
    programs = folder / "node_modules" / ".bin"
    if not (programs / "mcp-server-everything").exists():
        npm = shutil.which("npm")
        assert npm is not None, "this test needs npm"
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
        subprocess.run(command, check=True, timeout=300)
    return programs


def fleet(folder: Path) -> dict[str, dict[str, Any]]:
    """The six, as a client's file would name them."""
    python, npm = peer_python("mcp_servers").parent, npm_servers()
    subprocess.run(["git", "init", "-q", str(folder / "repo")], check=True)
    return {
        "git": {"command": str(python / "mcp-server-git"), "args": ["--repository", str(folder / "repo")]},
        "time": {"command": str(python / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "calc": {"command": str(python / "mcp-server-calculator")},
        "files": {"command": str(npm / "mcp-server-filesystem"), "args": [str(folder)]},
        "memory": {
            "command": str(npm / "mcp-server-memory"),
            "env": {"MEMORY_FILE_PATH": str(folder / "memory.json")},
        },
        "all": {"command": str(npm / "mcp-server-everything")},
    }


async def definitions(server: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a server says of its tools without anybody in between."""
    way = StdioServerParameters(command=server["command"], args=server.get("args", []), env=server.get("env"))
    async with Client(way, mode="legacy") as client:
        return {tool.name: tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools}


@pytest.mark.soak
async def test_six_servers_of_mixed_revisions_lose_nothing(tmp_path: Path) -> None:
    """Every tool is there with every word of its definition, and every kind of content comes back as it was."""
    servers = fleet(tmp_path)
    alone = {name: await definitions(server) for name, server in servers.items()}
    shell = home_with(tmp_path, servers, gateway={"start_s": 60})
    async with open_client(stdio_gateway(shell), mode="legacy") as older, open_client(stdio_gateway(shell)) as newer:
        listed = {tool.name: tool.model_dump(by_alias=True) for tool in (await older.client.list_tools()).tools}
        expected = {f"{name}__{tool}": words for name, tools in alone.items() for tool, words in tools.items()}
        assert {name: {**words, "name": name} for name, words in expected.items()} == listed
        assert await newer.names() == set(listed)
        for client in (older, newer):
            kinds: set[str] = set()
            for tool, arguments in _calls(tmp_path):
                answer = await client.call(tool, **arguments)
                assert not answer.is_error, tool
                kinds |= {block.type for block in answer.content}
                kinds |= {"structured"} if answer.structured_content is not None else set()
            assert kinds == {"text", "image", "resource", "resource_link", "structured"}


def _calls(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("git__git_status", {"repo_path": str(folder / "repo")}),
        ("time__get_current_time", {"timezone": "UTC"}),
        ("calc__calculate", {"expression": "2*21"}),
        ("files__list_directory", {"path": str(folder)}),
        ("memory__read_graph", {}),
        ("all__get-tiny-image", {}),
        ("all__get-structured-content", {"location": "New York"}),
        ("all__get-resource-links", {}),
        ("all__get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("all__get-annotated-message", {"messageType": "error", "includeImage": True}),
    ]
