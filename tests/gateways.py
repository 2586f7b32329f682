"""A home with servers behind it, and clients of every revision in front of its gateway, as processes of their own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client import session as client_session
from mcp.client.session import IncomingMessage

from tests.acceptance.cli import Shell, forked_command
from tests.registry_kit import add_chain, make_verdict
from tests.servers import new, old
from twinraven.app import TwinRaven
from twinraven.flow import StepDefinition
from twinraven.foundation.clock import utc_now
from twinraven.registry import SynthesizedTool

# A client that waits ten seconds takes a gateway on a busy machine for one of an older revision.
client_session.DISCOVER_TIMEOUT_SECONDS = 120.0

OLD: dict[str, Any] = {"command": sys.executable, "args": [str(Path(old.__file__))]}
NEW: dict[str, Any] = {"command": sys.executable, "args": [str(Path(new.__file__))]}


def new_server() -> dict[str, Any]:
    """The server on the SDK, as a fork of a process that has imported the SDK already."""
    command, *before = forked_command()
    return {"command": command, "args": [*before, f"script:{new.__file__}"]}


def home_with(folder: Path, servers: dict[str, Any], **sections: Any) -> Shell:
    """A shell in a folder whose home has these servers, for which clients wait as long as a busy machine takes."""
    settings = folder / "twinraven.yaml"
    gateway = {"start_s": 60, **sections.get("gateway", {})}
    settings.write_text(json.dumps({**sections, "gateway": gateway}))
    shell = Shell(folder)
    shell.succeed("init")
    (folder / ".twinraven" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return shell


@dataclass
class Watched:
    """An open client, how often it was told of other tools, and what else it was told."""

    client: Client
    news: list[float] = field(default_factory=list[float])
    heard: list[str] = field(default_factory=list[str])
    """`prompts` and `resources` for other lists, and the addresses of resources that changed."""

    async def names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools(cache_mode="bypass")).tools}

    async def call(self, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> types.CallToolResult:
        return await self.client.call_tool(tool, arguments, meta=meta)  # pyright: ignore[reportArgumentType]

    async def told(self, wanted: str, *, offered: bool = True) -> None:
        """Wait for the news after which a tool is offered, or is not any more."""
        heard = len(self.news)
        while (wanted in await self.names()) is not offered:
            await until(lambda before=heard: len(self.news) > before)
            heard = len(self.news)

    async def text(self, tool: str, **arguments: Any) -> str:
        block = (await self.call(tool, **arguments)).content[0]
        assert isinstance(block, types.TextContent)
        return block.text


@asynccontextmanager
async def open_client(way: Any, *, mode: str = "auto", uris: tuple[str, ...] = ()) -> AsyncGenerator[Watched]:
    """A client of the newest revision, or with `mode="legacy"` of the last one with a handshake; it may subscribe."""
    told: list[float] = []
    heard: list[str] = []

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.append(time.monotonic())
        elif isinstance(message, types.PromptListChangedNotification):
            heard.append("prompts")
        elif isinstance(message, types.ResourceListChangedNotification):
            heard.append("resources")
        elif isinstance(message, types.ResourceUpdatedNotification):
            heard.append(message.params.uri)

    async with Client(way, mode=mode, message_handler=on_message) as client, anyio.create_task_group() as tasks:
        if mode == "auto":
            await tasks.start(_listen, client, uris)
        for uri in uris if mode == "legacy" else ():
            await client.session.send_request(
                types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)), types.EmptyResult
            )
        yield Watched(client, told, heard)
        tasks.cancel_scope.cancel()


async def _listen(client: Client, uris: tuple[str, ...], *, task_status: Any) -> None:
    async with client.listen(
        tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True, resource_subscriptions=uris
    ) as events:
        task_status.started()
        async for _ in events:
            pass


def stdio_gateway(shell: Shell, *arguments: str) -> StdioServerParameters:
    """How a client starts the gateway of a home."""
    command, *before = forked_command()
    return StdioServerParameters(command=command, args=[*before, "gateway", *arguments], cwd=shell.folder)


@contextmanager
def http_gateway(shell: Shell, *, host: str = "127.0.0.1") -> Generator[str]:
    """A gateway that listens, and its address."""
    port = free_port()
    with subprocess.Popen(
        [*forked_command(), "gateway", "--http", f"{host}:{port}"], cwd=shell.folder, env=shell.environment()
    ) as process:
        try:
            wait_for_port(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=90)
            process.kill()


@contextmanager
def http_server(way: str, *, at: int | None = None) -> Generator[int]:
    """The server on the SDK, over streamable HTTP or SSE, and its port."""
    port = at or free_port()
    with subprocess.Popen([NEW["command"], *NEW["args"], way, str(port)]) as process:
        try:
            wait_for_port(port)
            yield port
        finally:
            # Asked politely, it would wait for its clients to leave first.
            process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}")


async def until(met: Callable[[], bool | Awaitable[bool]], *, within_s: float = 90) -> None:
    """Wait for something that happens in another process."""
    with anyio.fail_after(within_s):
        while True:
            answer = met()
            if answer is True or (not isinstance(answer, bool) and await answer):
                return
            await anyio.sleep(0.02)


async def promote_tool(raven: TwinRaven, *steps: StepDefinition, tool_id: str = "learned_tool") -> None:
    """Put a learned tool into service, as a person would after validation."""
    chain_id = await add_chain(raven.database, *(step.tool_id for step in steps))
    definition = SynthesizedTool(
        tool_id=tool_id,
        description="What the agent does every time.",
        parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        steps=steps,
        source_chain_id=chain_id,
        created_at=utc_now(),
    )
    draft = await raven.registry.draft("default", definition, evidence_hash="seen")
    await raven.registry.register("default", draft.definition, make_verdict())
    await raven.registry.promote("default", tool_id, by="ada")
