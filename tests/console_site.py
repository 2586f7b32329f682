"""A console as a process, for tests and pictures that look at it in a browser, and how to ask it without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.browsing import Tab
from tests.console_desk import HOSTILE_SESSION as HOSTILE_NAME
from tests.gateways import free_port, wait_for_port

IN_A_BROWSER: Final = [
    pytest.mark.skipif(os.environ.get("TWINRAVEN_NO_BROWSER") == "1", reason="TWINRAVEN_NO_BROWSER=1"),
    pytest.mark.together("browser"),
]
"""The marks of a module whose tests drive the browser: all on one worker, which has one browser."""
ROOT = Path(__file__).parents[1]
HOSTILE_SESSION = quote(HOSTILE_NAME, safe="")
PAGES = ("", "review", "sessions", "calls", "flow", "chains", "learned", "runs", "processes", "entities", "audit",
         "tools", "tools/get_order", "secrets", "metrics", "settings", "find?q=get", "talk")  # fmt: skip
FOREIGN = (
    "(() => { const w = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);"
    "const bad = []; while (w.nextNode()) { const t = w.currentNode; if (/__pwned|hx-get|7\\*7|U\\+202E/.test(t.data) "
    "&& !t.parentElement.closest('[hx-disable]')) bad.push(t.data.slice(0, 80)); } return bad; })()"
)
"""Texts from outside that stand anywhere but inside `hx-disable`, as a script finds them."""


@dataclass
class Site:
    """A server and how to ask it without a browser."""

    home: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/console/"

    def ask(self, path: str, body: Any = None, *, method: str | None = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        stated = {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/{path}", data=data, headers=stated, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def record(self, session_id: str, number: int, **more: Any) -> None:
        """Record one call made elsewhere."""
        event = {"session_id": session_id, "tool_id": "get_order", "input_params": {"n": number}, "output": {}, **more}
        self.ask("events", {"events": [event]})


def start(home: Path, port: int, *, gateway: bool = False) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [
        sys.executable,
        "-m",
        "twinraven",
        "--home",
        str(home),
        "up",
        *(() if gateway else ("--no-gateway",)),
        "--http",
        f"127.0.0.1:{port}",
    ]
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for_port(port)
    return process


@contextmanager
def serving(home: Path, *, gateway: bool = False) -> Generator[Site]:
    port = free_port()
    site = Site(home, port, start(home, port, gateway=gateway))
    try:
        yield site
    finally:
        site.process.kill()
        site.process.wait()


def live(tab: Tab) -> None:
    """Wait until a page hears news."""
    tab.wait("document.querySelector('#live').dataset.state === 'on'")
