"""What standing between an agent and its server costs: one call of a tool on stdio, through the gateway and without it.

The tool does nothing and is classified as a read; the gateway checks its arguments and its answer and records the call.
Beside it two proxies that record nothing: fastmcp's, on stdio as well, and mcp-proxy, which offers a stdio server on
HTTP and no other way. One client, of the SDK, calls them all in turn; they stand in front of the same server program.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from mcp import Client, StdioServerParameters

from bench.harness import HERE, Contender, Harness, Row, peer_python

CALLS: Final = 80
TOOL: Final = "echo"
SERVER: Final = [sys.executable, str(HERE.parent / "tests" / "servers" / "new.py")]
Open = tuple[Client, str]
"""A client, and the name under which it sees the tool."""
COMMAND: Final = Path(sysconfig.get_path("scripts")) / "twinraven"


def measure(harness: Harness) -> list[Row]:
    fastmcp, mcp_proxy = peer_python("fastmcp"), peer_python("mcp_proxy")
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder, _Loop() as loop:
        home = _home(Path(folder))
        with _mcp_proxy(mcp_proxy) as address:
            ways = {
                "direct": _stdio(SERVER),
                "TwinRaven": _stdio([str(COMMAND), "gateway", "--home", str(home)]),
                "fastmcp proxy": _stdio([str(fastmcp), str(HERE / "gateway_peer.py"), *SERVER]),
                "mcp-proxy": address,
            }
            clients = loop.do(loop.open(ways))
            contenders = {name: loop.contender(client) for name, client in clients.items()}
            samples = harness.sample(contenders)
            loop.do(loop.close())
    what = "a call of a read, recorded"
    return [
        harness.row(what, samples, ours="TwinRaven", against="direct", aim=2.0),
        harness.row(
            f"{what}, beside one recorded nowhere", samples, ours="TwinRaven", against="fastmcp proxy", aim=1.0
        ),
        harness.row(f"{what}, beside one on HTTP", samples, ours="TwinRaven", against="mcp-proxy", aim=1.0),
    ]


class _Loop:
    """An event loop on a thread of its own, in which all clients stay open."""

    def __enter__(self) -> _Loop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    async def open(self, ways: dict[str, StdioServerParameters | str]) -> dict[str, Open]:
        """All clients, opened and later closed by one task, as the SDK wants it."""
        self._opened: asyncio.Future[dict[str, Open]] = self._loop.create_future()
        self._done = asyncio.Event()
        self._keeper: asyncio.Task[Any] = asyncio.ensure_future(self._keep(ways))
        await asyncio.wait([self._opened, self._keeper], return_when=asyncio.FIRST_COMPLETED)
        return self._opened.result() if self._opened.done() else await self._keeper

    async def _keep(self, ways: dict[str, StdioServerParameters | str]) -> None:
        async with AsyncExitStack() as stack:
            opened: dict[str, Open] = {}
            for name, way in ways.items():
                client = await stack.enter_async_context(Client(way))
                tools = [tool.name for tool in (await client.list_tools()).tools]
                opened[name] = (client, next(found for found in tools if found.endswith(TOOL)))
            self._opened.set_result(opened)
            await self._done.wait()

    async def close(self) -> None:
        self._done.set()
        await self._keeper

    def contender(self, opened: Open) -> Contender:
        return lambda: self.do(self._call(*opened))

    async def _call(self, client: Client, name: str) -> float:
        begun = time.perf_counter()
        for number in range(CALLS):
            await client.call_tool(name, {"text": f"call {number}"})
        return time.perf_counter() - begun


def _stdio(words: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=words[0], args=words[1:])


def _home(folder: Path) -> Path:
    """A home whose one server is the same, its tool classified."""
    _run("init", cwd=folder)
    home = folder / ".twinraven"
    server = {"command": SERVER[0], "args": SERVER[1:]}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}), encoding="utf-8")

    async def first_sight() -> None:
        async with Client(_stdio([str(COMMAND), "gateway", "--home", str(home)])) as client:
            await client.list_tools()

    asyncio.run(first_sight())
    _run("tools", "classify", f"desk__{TOOL}", "read", cwd=folder)
    return home


def _run(*words: str, cwd: Path) -> None:
    subprocess.run([str(COMMAND), *words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _mcp_proxy(python: Path) -> Generator[str]:
    """mcp-proxy in front of the server, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [str(python.with_name("mcp-proxy")), "--log-level", "ERROR", "--port", str(port), "--", *SERVER]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as proxy:
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            proxy.terminate()


def _wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("mcp-proxy did not start")
