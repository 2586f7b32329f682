"""What a call over REST costs beside the least a Python web server can do.

32 connections, each of which sends its next request when it has the answer to the last one. On our side a request is
authenticated by its API key, checked against the schemas of the door and of the tool, called, recorded, and answered
when the record is on disk. On the other a Starlette route does not look at what it is sent and answers a constant.

Both stand on the same server program with the same settings and take turns: uvicorn as it installs, and uvicorn with
the parser and the event loop in C that our `api` extra brings along. The second is faster for everybody, and most of
all for whoever does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast

from bench.harness import HERE, Harness, Row
from twinraven import open_home

CONNECTIONS: Final = 32
_BARE: Final = "bare Starlette route"
REQUESTS: Final = 3_000


def measure(harness: Harness) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        home, key = _home(Path(folder))
        for server in ("plain", "accelerated"):
            rows += _measure_on(harness, server, home, key)
    return rows


def _measure_on(harness: Harness, server: str, home: Path, key: str) -> list[Row]:
    with _server("ours", server, home) as ours, _server("bare", server, home) as bare:
        ports = {"TwinRaven": ours, _BARE: bare}
        tails: dict[str, list[float]] = {name: [] for name in ports}

        def contender(name: str) -> float:
            seconds, tail = asyncio.run(_load(ports[name], key))
            tails[name].append(tail)
            return seconds

        samples = harness.sample({name: partial(contender, name) for name in ports})
    counted = {name: found[1:] for name, found in tails.items()}
    what = f"a recorded call, {CONNECTIONS} connections, uvicorn {server}"
    return [
        harness.row(f"{what}, time per request", samples, ours="TwinRaven", against=_BARE, aim=3.0),
        harness.row(f"{what}, p99", counted, ours="TwinRaven", against=_BARE, aim=4.0),
    ]


async def _load(port: int, key: str) -> tuple[float, float]:
    """Seconds for all requests, and the time that 99 of 100 answers stayed within."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    load = _Load(_request(key), REQUESTS, done)
    begun = time.perf_counter()
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
    await done
    seconds = time.perf_counter() - begun
    times = sorted(load.times)
    return seconds, times[int(len(times) * 0.99)]


def _request(key: str) -> bytes:
    body = json.dumps({"tool_name": "noop", "payload": {"number": 1}, "session_id": "bench"}).encode()
    head = (
        "POST /v1/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Load:
    """What is still to be sent, and how long each answer took."""

    def __init__(self, request: bytes, total: int, done: asyncio.Future[None]) -> None:
        self.request = request
        self.left = total
        self.open = 0
        self.times: list[float] = []
        self.done = done


class _Connection(asyncio.Protocol):
    """Sends, waits for the whole answer, sends again."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A transport of uvloop is one by what it does, not by its class.
        self._transport = cast("asyncio.Transport", transport)
        self._load.open += 1
        self._send()

    def _send(self) -> None:
        load = self._load
        if load.left == 0:
            self._transport.close()
            load.open -= 1
            if load.open == 0 and not load.done.done():
                load.done.set_result(None)
            return
        load.left -= 1
        self._begun = time.perf_counter()
        self._transport.write(load.request)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        if not end:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._load.done.set_exception(RuntimeError(self._seen.decode(errors="replace")))
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        if len(body) >= length:
            self._load.times.append(time.perf_counter() - self._begun)
            self._seen = b""
            self._send()


def _home(folder: Path) -> tuple[Path, str]:
    """A home, and a key to it."""
    subprocess.run([sys.executable, "-m", "twinraven", "init"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    home = folder / ".twinraven"
    with open_home(home) as raven:
        issued = asyncio.run(raven.tenancy.issue_key("default", "local"))
    return home, issued.clear


@contextmanager
def _server(which: str, server: str, home: Path) -> Generator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    words = [sys.executable, str(HERE / "api_server.py"), which, server, str(port), str(home)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield port
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("a server did not start")
