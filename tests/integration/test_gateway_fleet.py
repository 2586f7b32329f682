"""Six servers of other people, of mixed revisions and languages, behind one gateway: nothing of theirs is lost."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import mcp_types as types
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


def without_gateway(server: dict[str, Any]) -> Client:
    """A client with nobody in between."""
    way = StdioServerParameters(command=server["command"], args=server.get("args", []), env=server.get("env"))
    return Client(way, mode="legacy")


async def definitions(server: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a server says of its tools."""
    async with without_gateway(server) as client:
        return {tool.name: tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools}


@pytest.mark.soak
async def test_six_servers_of_mixed_revisions_lose_nothing(tmp_path: Path) -> None:
    """Every tool is there with every word of its definition, and every kind of content comes back as it was."""
    servers = fleet(tmp_path)
    alone = {name: await definitions(server) for name, server in servers.items()}
    shell = home_with(tmp_path, servers, gateway={"start_s": 60, "batch": False})
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


@pytest.mark.soak
async def test_six_servers_keep_their_prompts_and_resources(tmp_path: Path) -> None:
    """Lists, contents, messages and completions are, through the gateway, what each server answers by itself."""
    servers = fleet(tmp_path)
    alone = {"prompts": set[str](), "resources": set[str](), "templates": set[str](), "contents": set[str]()}
    for name, server in servers.items():
        async with without_gateway(server) as client:
            for kind, found in (await _library(client, prefix=f"{name}__")).items():
                assert not found & alone[kind]
                alone[kind] |= found
    assert all(alone.values())
    shell = home_with(tmp_path, servers, gateway={"start_s": 60, "batch": False})
    for mode in ("legacy", "auto"):
        async with open_client(stdio_gateway(shell), mode=mode) as through:
            assert await _library(through.client, prefix="") == alone
            read = await through.client.read_resource("demo://resource/dynamic/blob/3")
            assert isinstance(read.contents[0], types.BlobResourceContents)


async def _library(client: Client, *, prefix: str) -> dict[str, set[str]]:
    """Everything besides tools, each piece as a text; prompts under the names they have behind a gateway."""
    has = client.server_capabilities
    prompts = (await client.list_prompts()).prompts if has.prompts else []
    resources = (await client.list_resources()).resources if has.resources else []
    templates = (await client.list_resource_templates()).resource_templates if has.resources else []
    contents = {(await client.read_resource(found.uri)).contents[0].model_dump_json() for found in resources}
    for prompt in prompts:
        stated = _ARGUMENTS.get(f"{prefix}{prompt.name}", {})
        answer = await client.get_prompt(prompt.name, stated)
        contents.add(_timeless(answer.model_dump_json(include={"description", "messages"})))
        if stated:
            last = list(stated)[-1]
            ref, typed = types.PromptReference(name=prompt.name), {"name": last, "value": stated[last][:1]}
            completed = await client.complete(ref, typed, {name: stated[name] for name in stated if name != last})
            contents.add(f"{prefix}{prompt.name}: {completed.completion.values}")
    return {
        "prompts": {found.model_copy(update={"name": f"{prefix}{found.name}"}).model_dump_json() for found in prompts},
        "resources": {found.model_dump_json() for found in resources},
        "templates": {found.model_dump_json() for found in templates},
        "contents": contents,
    }


_ARGUMENTS: Final[dict[str, dict[str, str]]] = {
    "all__args-prompt": {"city": "Oslo", "state": "Oslo"},
    "all__completable-prompt": {"department": "Engineering", "name": "Alice"},
    "all__resource-prompt": {"resourceType": "Text", "resourceId": "1"},
}


def _timeless(text: str) -> str:
    """Without the time of day, which server-everything writes into what it makes."""
    return re.sub(r"\d{1,2}:\d{2}:\d{2}(\.\d+)?( [AP]M)?", "", text)
