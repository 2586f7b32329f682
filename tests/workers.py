"""Processes for tests to race, trace and kill: forks of the warm process that commands are forked from.

A process that starts Python and imports everything costs more than what most kills interrupt. A fork has paid for both
and is a process of its own, with a pid, signals and an end of its own. A tracer is attached before it begins.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

from tests.acceptance.cli import fork_server
from twinraven.app import TwinRaven

ROOT = Path(__file__).resolve().parents[1]
_START_S = 900
"""How long a process may take to be up on a busy machine."""


class ForkedProcess:
    """Runs a module (`-m`) with arguments in a fork; used as `subprocess.Popen` is, with text in its pipes."""

    def __init__(self, module: str, *arguments: str, tracer: Sequence[str] = (), **variables: str) -> None:
        self.returncode: int | None = None
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.connect(str(fork_server().address))
        self._channel.settimeout(_START_S)
        self._errors = TemporaryFile("w+b")  # noqa: SIM115 - read after the end, closed by close()
        given, giving = os.pipe()
        reading, writing = os.pipe()
        self.stdin, self.stdout = os.fdopen(giving, "w"), os.fdopen(reading)
        environment = {**os.environ, **variables}
        wish = {"id": 1, "arguments": [f"module:{module}", *arguments], "cwd": str(ROOT), "env": environment}
        try:
            message = json.dumps({**wish, "waits": bool(tracer)}).encode()
            socket.send_fds(self._channel, [message], [given, writing, self._errors.fileno()])
        finally:
            os.close(given)
            os.close(writing)
        self.pid: int = self._heard()["pid"]
        self._tracer = self._trace(tracer) if tracer else None

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = _START_S) -> int:
        """Its exit code, or minus the signal that ended it; TimeoutError if it goes on."""
        if self.returncode is None:
            self._channel.settimeout(seconds)
            self.returncode = int(self._heard()["code"])
            if self._tracer is not None:
                self._tracer.wait()
        return self.returncode

    def communicate(self, text: str = "") -> tuple[str, str]:
        """What it writes to its output and its errors until it ends, given this to read; it is closed then."""
        with suppress(BrokenPipeError):
            self.stdin.write(text)
            self.stdin.close()
        said = self.stdout.read()
        self.wait()
        self._errors.seek(0)
        errors = self._errors.read().decode()
        self.close()
        return said, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        self.close()

    def close(self) -> None:
        """Give back its pipes."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self._errors.close()
        self._channel.close()

    def _trace(self, tracer: Sequence[str]) -> subprocess.Popen[bytes]:
        """Attach a tracer to the fork, which waits, and let it begin."""
        tracing = subprocess.Popen([*tracer, "-p", str(self.pid)], stderr=subprocess.DEVNULL)
        status = Path(f"/proc/{self.pid}/status")
        while "TracerPid:\t0\n" in status.read_text():
            assert tracing.poll() is None, "the tracer could not attach"
            time.sleep(0.002)
        self.stdin.write("\n")
        self.stdin.flush()
        return tracing

    def _heard(self) -> dict[str, Any]:
        return json.loads(self._channel.recv(1 << 16))


def run_forked(module: str, *arguments: str, tracer: Sequence[str] = (), **variables: str) -> tuple[int, str, str]:
    """Run a module in a fork to its end: its exit code, and what it wrote to its output and its errors."""
    with ForkedProcess(module, *arguments, tracer=tracer, **variables) as process:
        said, errors = process.communicate()
        return process.wait(), said, errors


@contextmanager
def worker_process(raven: TwinRaven, **variables: str) -> Generator[ForkedProcess]:
    """A worker of `tests.run_worker` that is up; what is left of it is killed at the end, and has ended then."""
    with ForkedProcess("tests.run_worker", str(raven.home), str(raven.home.parent), **variables) as child:
        assert child.stdout.readline(), "the worker ended before it was up"
        yield child
