"""The first morning with the console: an empty home, calls by three ways, and figures that are the command line's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell, call, calls_file
from tests.browsing import Browser, Tab
from tests.console_desk import fill_desk, make_desk
from tests.console_site import IN_A_BROWSER, PAGES, ROOT, Site, serving
from tests.gateways import free_port, wait_for_port
from tests.lean import run_lean
from twinraven import observed
from twinraven.app import open_home

pytestmark = IN_A_BROWSER


@observed()
def look_up(word: str) -> str:
    """A function of somebody's agent."""
    if word == "nothing":
        raise LookupError(word)
    return word.upper()


def by_gateway(site: Site) -> None:
    """Two calls of an agent over MCP, in one session."""
    address, headers = f"http://127.0.0.1:{site.port}/mcp", {"Accept": "application/json, text/event-stream"}

    def send(body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            address, json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            headers.update({name: answer.headers[name] for name in ("Mcp-Session-Id",) if name in answer.headers})
            return answer.read()

    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
    send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
    headers["Mcp-Protocol-Version"] = "2025-06-18"
    send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for number in (2, 3):
        params = {"name": "get_order", "arguments": {"order_id": f"O-{number}"}}
        assert b"O-" in send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def by_sdk(home: Path) -> None:
    """Three calls of somebody's own code, of which one fails."""
    with open_home(home) as raven:
        with raven.collector.observe("sdk-1"):
            for word in ("one", "two"):
                look_up(word)
            with pytest.raises(LookupError):
                look_up("nothing")
        raven.collector.flush()


def figures(tab: Tab) -> dict[str, int]:
    """What Today counts."""
    names = ("calls-today", "sessions-today", "failed-today")
    found = {name: tab.evaluate(f"document.getElementById('{name}')?.textContent ?? '0'") for name in names}
    return {name: int(re.sub(r"\D", "", text)) for name, text in found.items()}


def test_the_first_morning(tmp_path: Path, browser: Browser) -> None:
    """Nothing is said to be there; then gateway, SDK and import fill Today, and a column leads to what it counts."""
    home = make_desk(tmp_path)
    shell = Shell(tmp_path, {"TWINRAVEN_HOME": str(home), "PYTHONPATH": str(ROOT)})
    with serving(home, gateway=True) as site, browser.profile() as person:
        tab = person.open(site.url)
        assert "Nothing was recorded yet" in tab.text("main")
        by_gateway(site)
        by_sdk(home)
        lines = [call("job-1", 0), call("job-1", 1), call("job-2", 0, ok=False, output=None, error="no")]
        shell.succeed("import", str(calls_file(tmp_path / "calls.jsonl", lines)))
        tab.go(site.url)
        status = shell.json("status")
        events = shell.json("events", "list", "--limit", "100")
        failed = sum(bool(each["raised"]) for each in events)
        assert (status["events"], status["sessions"], failed) == (8, 4, 2)
        assert figures(tab) == {"calls-today": 8, "sessions-today": 4, "failed-today": 2}
        counted = tab.evaluate(
            "[...document.querySelectorAll('svg.bars a')]"
            ".map(e => [e.getAttribute('aria-label'), e.getAttribute('href')])"
        )
        columns = {href: _counts(said) for said, href in counted}
        assert sum(calls for calls, _ in columns.values()) == 8
        ids = "[...document.querySelectorAll('table.calls td.id')].map(e => e.innerText)"
        leads_to_sessions = tab.evaluate("document.getElementById('sessions-today').href")
        for href, numbers in columns.items():
            if numbers[0]:
                tab.go(f"http://127.0.0.1:{site.port}{href}")
                shown = tab.evaluate(ids)
                assert (len(shown), len(set(shown))) == numbers
        newest = shell.json("sessions", "list", "--limit", "100")
        for address in (leads_to_sessions, f"{site.url}sessions"):
            shown = tab.go(address).evaluate(
                "[...document.querySelectorAll('table.sessions td.id')].map(e => e.innerText)"
            )
            assert sorted(shown) == sorted(each["session_id"] for each in newest)
        assert {"sdk-1", "job-1", "job-2"} < set(shown)


def _counts(said: str) -> tuple[int, int]:
    """The calls and the sessions that a column says it counts."""
    found = re.search(r": (\d+) calls? in (\d+) session", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


@pytest.mark.soak
def test_a_learned_tool_is_promoted_in_three_clicks(tmp_path: Path, browser: Browser) -> None:
    """Whoever opens the console on the demo's home puts what waits there into service, and its tools can be called."""
    run_lean("-m", "examples.support_desk", str(tmp_path / "demo"), folder=tmp_path)
    with serving(tmp_path / "demo" / "home" / ".twinraven") as site, browser.profile() as person:
        tab = person.open(site.url)
        tab.loading(lambda: tab.click("#nav a[href='/console/review']"))
        tab.loading(lambda: tab.click(".queue a"))
        tab.loading(lambda: tab.click("[data-key=yes]"))
        promoted = [each for each in site.ask("learned-tools")["items"] if each["current_version"] == 2]
        assert len(promoted) == 1
        users = site.ask("calls", {"tool_name": "search_kb", "payload": {"query": "return a gift"}, "session_id": "s"})
        assert users["status"] == "success"


@pytest.mark.soak
def test_the_wheel_alone_serves_every_page(tmp_path: Path, browser: Browser) -> None:
    """Installed from the built wheel, without Node, every page is there and asks nobody but its own server."""
    dist, place = tmp_path / "dist", tmp_path / "env"
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)], cwd=ROOT, check=True)
    venv.create(place, with_pip=True)
    wheel = next(dist.glob("*.whl"))
    install = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=240)
    (shared,) = place.glob("lib/python*/site-packages")
    (shared / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    home = make_desk(tmp_path / "desk")
    fill_desk(home, sessions=3, learn=False)
    port = free_port()
    # Whatever would ask beyond this machine meets a port that nobody listens on, and no program of the machine's path.
    nowhere = f"http://127.0.0.1:{free_port()}"
    environment = {"PATH": str(place / "bin"), "PYTHONPATH": str(ROOT), "HTTPS_PROXY": nowhere, "HTTP_PROXY": nowhere}
    command = [str(place / "bin" / "python"), "-m", "twinraven", "--home", str(home), "up", "--no-gateway", "--http"]
    with subprocess.Popen([*command, f"127.0.0.1:{port}"], env=environment, cwd=tmp_path) as process:
        try:
            wait_for_port(port)
            _walk(port, browser)
        finally:
            process.kill()


def _walk(port: int, browser: Browser) -> None:
    with browser.profile() as person:
        tab = person.open()
        for path in (*PAGES, "sessions/ticket-4100"):
            tab.go(f"http://127.0.0.1:{port}/console/{path}")
            assert tab.evaluate("document.querySelector('main h1') !== null"), path
            assert tab.evaluate("document.fonts.size") > 0
        assert {each.split("/")[2] for each in tab.requests} == {f"127.0.0.1:{port}"}
        assert {status for url, status in tab.statuses.items() if "/static/" in url} == {200}
