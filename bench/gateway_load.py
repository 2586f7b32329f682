"""Puts 64 MCP and 200 REST clients in front of `twinraven up`, and the same clients in front of the bare servers.

python -m bench.gateway_load [--seconds 120] [--per-second 0.5] [--rounds 1]

Each client sends at a beat of its own; a beat that is over before the last answer came is left out, and counts say so.
The MCP clients call a read of a server on streamable HTTP: through the gateway, which checks and records each call, or
that server itself. The REST clients call a read and a write of two Python functions and look at the log, or post to one
bare Starlette route. The last line is JSON: by kind of call how many, how late, and the memory of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.harness import HERE
from tests.gateways import free_port, wait_for_port

MCP_CLIENTS: Final = 64
REST_CLIENTS: Final = 200
REVISION: Final = "2025-11-25"
_WARM_UP_S: Final = 3.0
_PATIENCE_S: Final = 60.0
_TOOLS: Final = '''
from twinraven import tool


@tool(effect="read")
async def look_up(number: int) -> dict[str, int]:
    """Looks a number up."""
    return {"number": number}


@tool(effect="write")
async def book(number: int) -> dict[str, int]:
    """Books a number."""
    return {"number": number}
'''


@dataclass
class Load:
    """What the clients saw: for each kind of call, how long its answers took."""

    took_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    wrong: list[str] = field(default_factory=list[str])
    memory: list[int] = field(default_factory=list[int])
    """Resident bytes of the server, each second."""
    cpu_s: dict[str, float] = field(default_factory=dict[str, float])
    """What the server, and the one behind it, computed."""

    def note(self, kind: str, seconds: float) -> None:
        self.took_s.setdefault(kind, []).append(seconds)

    def figures(self, seconds: float) -> dict[str, Any]:
        kinds = {kind: _figures(took, seconds) for kind, took in sorted(self.took_s.items())}
        quarter = max(1, len(self.memory) // 4)
        return {
            "calls": kinds,
            "wrong": self.wrong[:5],
            "wrong_count": len(self.wrong),
            "memory_mb": [round(max(part) / 1e6, 1) for part in (self.memory[:quarter], self.memory[-quarter:])],
            "cpu_s": {name: round(spent, 1) for name, spent in self.cpu_s.items()},
        }


def _figures(took: list[float], seconds: float) -> dict[str, float]:
    ordered = sorted(took)
    share = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    found = {
        name: round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * at))], 1) for name, at in share.items()
    }
    return {"count": len(took), "per_second": round(len(took) / seconds, 1), **found}


class HttpConnection:
    """One kept connection of a client, as cheap as can be: the clients share processors with the server."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> HttpConnection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def ask(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        if self._reader.at_eof():
            await self.open()  # the server let go of it while it was idle
        raw = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", f"Content-Length: {len(raw)}"]
        lines += ["Content-Type: application/json", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + raw)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        said = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        return int(head[0].split()[1]), said, await self._body(said)

    async def _body(self, said: Mapping[str, str]) -> bytes:
        if said.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(said.get("content-length") or 0))
        parts: list[bytes] = []
        while size := int(await self._reader.readline(), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readline()
        return b"".join(parts)

    def close(self) -> None:
        self._writer.close()


class McpClient:
    """An MCP client with a session of the handshake."""

    def __init__(self, port: int, tool: str) -> None:
        self._connection = HttpConnection(port)
        self._tool = tool
        self._number = 0
        self._headers = {"Accept": "application/json, text/event-stream"}

    async def open(self) -> McpClient:
        await self._connection.open()
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        _, said, _ = await self._send("initialize", hello)
        self._headers |= {"Mcp-Session-Id": said["mcp-session-id"], "MCP-Protocol-Version": REVISION}
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._connection.ask("POST", "/mcp", told, self._headers)
        return self

    async def call(self, number: int) -> str | None:
        """Call the tool; says what was wrong with the answer, if anything."""
        _, _, raw = await self._send("tools/call", {"name": self._tool, "arguments": {"number": number}})
        line = next((each[5:] for each in raw.splitlines() if each.startswith(b"data:") and b"result" in each), raw)
        result: Any = json.loads(line).get("result") or {}
        is_right = not result.get("isError") and json.loads(result["content"][0]["text"])["number"] == number
        return None if is_right else raw.decode()[:300]

    async def _send(self, method: str, params: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        return await self._connection.ask("POST", "/mcp", body, self._headers)

    def close(self) -> None:
        self._connection.close()


class RestClient:
    """A client of the REST door, or of the bare route: mostly reads, some writes and looks at the log."""

    def __init__(self, port: int, name: str) -> None:
        self._connection = HttpConnection(port)
        self._name = name

    async def open(self) -> RestClient:
        await self._connection.open()
        return self

    async def call(self, number: int) -> tuple[str, str | None]:
        if number % 10 == 9:
            status, _, raw = await self._connection.ask("GET", f"/v1/events?limit=20&session_id={self._name}", None, {})
            return "REST list", None if status == 200 else raw.decode()[:300]
        kind, tool = ("REST write", "book") if number % 10 == 4 else ("REST read", "look_up")
        key = {"Idempotency-Key": f"{self._name}-{number}"} if tool == "book" else {}
        body = {"tool_name": tool, "payload": {"number": number}, "session_id": self._name}
        status, _, raw = await self._connection.ask("POST", "/v1/calls", body, key)
        is_right = status == 200 and json.loads(raw)["output"]["number"] == number
        return kind, None if is_right else raw.decode()[:300]

    def close(self) -> None:
        self._connection.close()


async def drive(
    mcp_port: int, rest_port: int, tool: str, *, seconds: float, per_second: float, pids: dict[str, int]
) -> Load:
    """Run all clients for so long."""
    load = Load()
    clients: list[McpClient | RestClient] = [await McpClient(mcp_port, tool).open() for _ in range(MCP_CLIENTS)]
    clients += [await RestClient(rest_port, f"load-{number}").open() for number in range(REST_CLIENTS)]
    begun = time.perf_counter() + _WARM_UP_S
    until = begun + seconds

    async def keep_calling(client: McpClient | RestClient) -> None:
        interval = 1 / per_second
        # Each client keeps to its own beat, so that they do not all ask at once; a beat that is missed is left out.
        due = begun - random.uniform(0, min(interval, _WARM_UP_S))
        number = 0
        while due < until:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            answer = await asyncio.wait_for(client.call(number), _PATIENCE_S)
            kind, wrong = answer if isinstance(answer, tuple) else ("MCP read", answer)
            if wrong is not None:
                load.wrong.append(f"{kind}: {wrong}")
            elif due >= begun:
                load.note(kind, time.perf_counter() - sent)
            number += 1
            due += interval * max(1, math.ceil((time.perf_counter() - due) / interval))

    async def look() -> None:
        before = {name: _cpu_s(pid) for name, pid in pids.items()}
        while time.perf_counter() < until:
            load.memory.append(_resident(pids["server"]))
            await asyncio.sleep(1)
        load.cpu_s = {name: _cpu_s(pid) - before[name] for name, pid in pids.items()}

    watching = asyncio.ensure_future(look())
    await asyncio.gather(*map(keep_calling, clients))
    await watching
    for client in clients:
        client.close()
    return load


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _started(command: list[str], port: int, folder: Path) -> Generator[int]:
    """Start a server that listens on a port, and return its process id."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{HERE.parent}"}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=(folder / "log").open("ab")) as process:
        try:
            wait_for_port(port)
            yield process.pid
        finally:
            process.terminate()
            process.wait(timeout=60)


@contextmanager
def _mcp_server(folder: Path) -> Generator[tuple[int, int]]:
    port = free_port()
    with _started([sys.executable, "-m", "bench.load_server", "mcp", str(port)], port, folder) as pid:
        yield port, pid


def behind_the_gateway(folder: Path, seconds: float, per_second: float) -> Load:
    """The load on a home's `twinraven up`."""
    (folder / "load_tools.py").write_text(_TOOLS)
    program = [sys.executable, "-m", "twinraven"]
    settings = {"tools": {"modules": ["load_tools"]}, "gateway": {"batch": False}}
    (folder / "twinraven.yaml").write_text(json.dumps(settings))
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{HERE.parent}"}

    def command(*arguments: str) -> None:
        subprocess.run([*program, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)

    with _mcp_server(folder) as (upstream, upstream_pid):
        command("init")
        servers = {"desk": {"type": "http", "url": f"http://127.0.0.1:{upstream}/mcp"}}
        (folder / ".twinraven" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        port = free_port()
        with _started([*program, "up", "--http", f"127.0.0.1:{port}"], port, folder) as pid:
            asyncio.run(_listed(port))
            command("tools", "classify", "desk__look_up", "read")
            pids = {"server": pid, "upstream": upstream_pid}
            return asyncio.run(drive(port, port, "desk__look_up", seconds=seconds, per_second=per_second, pids=pids))


async def _listed(port: int) -> None:
    """Wait until the gateway knows its server's tools."""
    async with _open(McpClient(port, "desk__look_up")) as client:
        for _ in range(100):
            _, _, raw = await client._send("tools/list", {})  # pyright: ignore[reportPrivateUsage]
            if b"desk__look_up" in raw:
                return
            await asyncio.sleep(0.2)
    raise AssertionError("the gateway lists no tool")


@asynccontextmanager
async def _open(client: McpClient) -> AsyncGenerator[McpClient]:
    yield await client.open()
    client.close()


def on_bare_servers(folder: Path, seconds: float, per_second: float) -> Load:
    """The load on the MCP server itself, and on one Starlette route."""
    port = free_port()
    bare = [sys.executable, "-m", "bench.load_server", "rest", str(port)]
    with _mcp_server(folder) as (mcp_port, pid), _started(bare, port, folder) as rest_pid:
        pids = {"server": pid, "rest": rest_pid}
        return asyncio.run(drive(mcp_port, port, "look_up", seconds=seconds, per_second=per_second, pids=pids))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway_load")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--per-second", type=float, default=0.5, help="calls of each client")
    parser.add_argument("--rounds", type=int, default=1, help="how often both are measured, in turns")
    options = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {"bare": [], "gateway": []}
    for _ in range(options.rounds):
        for name, measure in (("bare", on_bare_servers), ("gateway", behind_the_gateway)):
            with tempfile.TemporaryDirectory(prefix="twinraven-load-") as folder:
                figures = measure(Path(folder), options.seconds, options.per_second).figures(options.seconds)
            found[name].append(figures)
            print(name, json.dumps(figures), file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
