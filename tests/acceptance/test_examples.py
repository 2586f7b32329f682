"""The example projects, by the very commands of their READMEs, in a copy of their folders."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND
from tools.requirements import ROOT

EXAMPLES = ROOT / "examples"


def _commands(folder: Path) -> list[str]:
    (block,) = re.findall(r"^```\n(.*?)^```", (folder / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    return block.splitlines()


@contextmanager
def _copied(name: str, tmp_path: Path) -> Generator[Path]:
    """A copy of an example, without what earlier visitors of the folder made there."""
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns(".twinraven", "__pycache__", "gateway.json"))
    yield folder


def _run(command: str, folder: Path) -> str:
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TWINRAVEN", "PYTHON"))}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**inherited, "PATH": path},
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_langchain_agent_is_remembered_and_learned_from(tmp_path: Path) -> None:
    """An unchanged LangChain loop ends in a learned tool that answers."""
    with _copied("langchain_agent", tmp_path) as folder:
        said = [_run(command, folder) for command in _commands(folder)]
    assert "60 conversations are remembered" in said[1]
    assert "find_customer ─customer_id→ list_orders ─orders[*]→ get_order ×n" in said[3]
    assert '"order_id":"C-ada7-2"' in said[-1]


def test_the_mcp_client_is_learned_from_behind_the_gateway(tmp_path: Path) -> None:
    """A client that only changed its file is recorded through the gateway, and its calls are learned from."""
    with _copied("mcp_client", tmp_path) as folder:
        said = [_run(command, folder) for command in _commands(folder)]
    assert "60 conversations, 180 calls" in said[3]
    assert "tracker__search_issues" in said[5]
    assert "awaiting a decision:" in said[5]
    assert re.search(r"^tracker +up ", said[6], flags=re.MULTILINE)


@pytest.mark.soak
def test_the_rest_service_becomes_tools_that_are_learned_from(tmp_path: Path) -> None:
    """An OpenAPI description becomes tools; an agent over the REST API is recorded, and its calls are learned from."""
    with _copied("rest_service", tmp_path) as folder, _ports(folder) as waiting:
        commands = _commands(folder)
        waiting(commands[0], 8799)
        _run(commands[1], folder)
        _run(commands[2], folder)
        waiting(commands[3], 8765)
        assert "60 conversations, 240 calls" in _run(commands[4], folder)
        assert "awaiting a decision:" in _run(commands[5], folder)


@contextmanager
def _ports(folder: Path) -> Generator[Callable[[str, int], None]]:
    """Starts commands that end in `&` and waits for their ports; stops them afterwards."""
    started: list[subprocess.Popen[bytes]] = []
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"

    def start(command: str, port: int) -> None:
        words = command.removesuffix("&").strip()
        started.append(
            subprocess.Popen(
                ["sh", "-c", f"exec {words}"], cwd=folder, env={**os.environ, "PATH": path}, stderr=subprocess.DEVNULL
            )
        )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError(f"nothing listens on {port}")

    try:
        yield start
    finally:
        for each in started:
            each.send_signal(signal.SIGTERM)
            each.wait(30)
