"""Drives a headless Chromium over its DevTools protocol: pages, keys, clicks, what it asked for and complained about.

Small on purpose: a web socket, commands with answers, and events. Everything waits for a condition of the page and not
for time. A page that logs a warning or an error, breaks the content policy, throws, or opens a dialog is remembered as
a complaint, and `Browser.pages` fails the test for it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

from tools.browser import CACHE, FIX, axe_script, installed

PATIENCE_S = 30.0
_KEYS = {"Enter": "\r", "Tab": "\t", "Escape": "", " ": " "}
_CODES = {"Enter": 13, "Tab": 9, "Escape": 27}
_ALTERNATIVES = ("net::ERR_ABORTED",)


def find_browser() -> Path:
    """The browser, or an error that says how to get one."""
    found = installed()
    if found is None:
        raise AssertionError(f"these tests need a browser, and there is none: {FIX}")
    return found


class Browser:
    """A running browser."""

    def __init__(self, wire: Connection, port: int) -> None:
        self._wire = wire
        self.port = port
        self._last = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Tab] = {}

    def send(self, method: str, params: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        self._last += 1
        mine = self._last
        message: dict[str, Any] = {"id": mine, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        self._wire.send(json.dumps(message))
        deadline = time.monotonic() + PATIENCE_S
        while mine not in self._answers:
            self.pump(deadline - time.monotonic())
        answer = self._answers.pop(mine)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def pump(self, within_s: float) -> None:
        """Take one message in, if one comes."""
        message = json.loads(self._wire.recv(timeout=max(within_s, 0.01)))
        if "id" in message:
            self._answers[message["id"]] = message
        elif message.get("sessionId") in self._pages:
            self._pages[message["sessionId"]].note(message["method"], message["params"])

    def idle(self, seconds: float) -> None:
        """Take in whatever comes for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with suppress(TimeoutError):
                self.pump(left)

    @contextmanager
    def profile(self, **options: Any) -> Generator[Profile]:
        """A browser of its own, with its own cookies and storage; its pages must have had nothing to complain of."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        profile = Profile(self, context, **options)
        try:
            yield profile
            for tab in profile.tabs:
                tab.check()
        finally:
            self.send("Target.disposeBrowserContext", {"browserContextId": context})
            self._pages = {key: tab for key, tab in self._pages.items() if tab not in profile.tabs}

    def attach(self, target: str, profile: Profile) -> Tab:
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = self._pages[session] = Tab(self, session, target, profile)
        return tab


@dataclass
class Profile:
    """Cookies and storage of one person."""

    browser: Browser
    context: str
    theme: str = "light"
    width: int = 1440
    height: int = 900
    scale: float = 1.0
    scripts: bool = True
    zone: str = "UTC"
    tabs: list[Tab] = field(default_factory=list["Tab"])

    def open(self, url: str = "about:blank") -> Tab:
        """A new tab at an address, loaded."""
        target = self.browser.send("Target.createTarget", {"url": "about:blank", "browserContextId": self.context})[
            "targetId"
        ]
        tab = self.browser.attach(target, self)
        self.tabs.append(tab)
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.send(f"{domain}.enable")
        tab.look(self.theme)
        size = {"width": self.width, "height": self.height, "deviceScaleFactor": self.scale, "mobile": False}
        tab.send("Emulation.setDeviceMetricsOverride", **size)
        tab.send("Emulation.setTimezoneOverride", timezoneId=self.zone)
        if not self.scripts:
            tab.send("Emulation.setScriptExecutionDisabled", value=True)
        if url != "about:blank":
            tab.go(url)
        return tab


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str, target: str, profile: Profile) -> None:
        self._browser = browser
        self._session = session
        self.target = target
        self.profile = profile
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.statuses: dict[str, int] = {}
        self.received = 0
        self.expected: list[str] = []
        """Complaints that the test expects, as parts of their texts."""
        self._loads = 0

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, params, self._session)

    def note(self, method: str, params: dict[str, Any]) -> None:
        """Remember what the page did."""
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.responseReceived":
            self.statuses[params["response"]["url"]] = params["response"]["status"]
        elif method == "Network.loadingFinished":
            self.received += int(params["encodedDataLength"])
        elif method == "Runtime.exceptionThrown":
            thrown = params["exceptionDetails"]
            self.complaints.append(f"exception: {thrown.get('exception', {}).get('description', thrown['text'])}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
            self.complaints.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("warning", "error"):
            self.complaints.append(f"console: {params['args']}")
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {params['message']}")

    def check(self) -> None:
        """Fail for what the page complained of."""
        left = [each for each in self.complaints if not any(part in each for part in self.expected)]
        assert not left, left

    def go(self, url: str) -> Tab:
        """Go to an address and wait until it is loaded."""
        before = self._loads
        answer = self.send("Page.navigate", url=url)
        assert "errorText" not in answer or answer["errorText"] in _ALTERNATIVES, answer
        self.until(lambda: self._loads > before, f"{url} to load")
        return self

    def until(self, is_so: Callable[[], Any], what: str, *, within_s: float = PATIENCE_S) -> Any:
        """What a condition gives once it holds."""
        deadline = time.monotonic() + within_s
        while True:
            found = is_so()
            if found:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"waited {within_s:.0f} s for {what}; {self.text()[:1500]!r}, {self.complaints}")
            with suppress(TimeoutError):
                self._browser.pump(min(left, 0.05))

    def evaluate(self, script: str) -> Any:
        """What a script gives, as data."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, script: str, *, within_s: float = PATIENCE_S) -> Any:
        """What a script gives once that is true; a page that is being replaced is asked again."""

        def ask() -> Any:
            with suppress(AssertionError):
                found = self.evaluate(script)
                # An element is given as an empty mapping.
                return found or found == {}

        return self.until(ask, script, within_s=within_s)

    def text(self, selector: str = "body") -> str:
        with suppress(AssertionError):
            return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))
        return ""

    @property
    def url(self) -> str:
        return str(self.evaluate("location.href"))

    def press(self, *keys: str) -> None:
        """Press keys as a person does; a text of several letters is a named key."""
        for key in keys:
            common = {"key": key, "windowsVirtualKeyCode": _CODES.get(key, ord(key[0].upper()))}
            text = _KEYS.get(key, key if len(key) == 1 else "")
            self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click in the middle of the first element that fits."""
        place = self.wait(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; "
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
            "return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def loading(self, act: Callable[[], Any]) -> None:
        """Do something that leads to another page, and wait for that page."""
        before = self._loads
        act()
        self.until(lambda: self._loads > before, "the next page")

    def look(self, theme: str) -> None:
        """Show the page in light or dark."""
        wanted = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
        self.send(
            "Emulation.setEmulatedMedia", features=[{"name": key, "value": value} for key, value in wanted.items()]
        )

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what is seen."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def violations(self) -> list[str]:
        """What axe finds wrong with the page."""
        self.send("Runtime.evaluate", expression=axe_script().read_text())
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.evaluate(
            f"axe.run(document, {{runOnly: {json.dumps(tags)}}}).then(r => r.violations.map("
            "v => `${v.id}: ${v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join(' | ')}`))"
        )
        return list(found)

    def close(self) -> None:
        self._browser.send("Target.closeTarget", {"targetId": self.target})


@contextmanager
def running_browser() -> Generator[Browser]:
    """A browser as long as the block lasts."""
    path = find_browser()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = ["--headless", "--remote-debugging-port=0", f"--user-data-dir={folder}",
                   "--no-first-run", "--disable-gpu",
                   "--disable-dev-shm-usage", "--no-zygote", "--hide-scrollbars", "--font-render-hinting=none",
                   "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
                   "--disable-backgrounding-occluded-windows", "--disable-features=Translate"]  # fmt: skip
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        environment = dict(os.environ) if path.parent != CACHE else _unpacked_environment(Path(folder))
        process = subprocess.Popen(
            [str(path), *options, "about:blank"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            # A test that works elsewhere for a while takes nothing in, answers to pings included.
            port, path = _address(Path(folder), process)
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, ping_interval=None) as wire:
                yield Browser(wire, port)
        finally:
            process.kill()
            process.wait()


def _unpacked_environment(folder: Path) -> dict[str, str]:
    """What the unpacked browser needs: its libraries, and fonts, without which it ends at the first odd character."""
    fonts = folder / "fonts.conf"
    fonts.write_text(
        f"<fontconfig><dir>{CACHE / 'fonts'}</dir><cachedir>{folder / 'fonts-cache'}</cachedir></fontconfig>"
    )
    libraries = os.pathsep.join(filter(None, (str(CACHE / "lib"), os.environ.get("LD_LIBRARY_PATH", ""))))
    return {**os.environ, "LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(fonts), "HOME": str(folder)}


def _address(folder: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The port and the path at which the browser listens, once it says so."""
    said = folder / "DevToolsActivePort"
    deadline = time.monotonic() + PATIENCE_S * 2
    while time.monotonic() < deadline:
        if said.exists() and len(lines := said.read_text().split("\n")) > 1:
            return int(lines[0]), lines[1]
        assert process.poll() is None, f"the browser ended at once; {FIX}"
        time.sleep(0.05)
    raise AssertionError(f"the browser did not begin to listen; {FIX}")
