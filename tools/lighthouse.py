"""Runs Lighthouse on the console's pages: `python -m tools.lighthouse`; fails where a category is below 95 of 100.

Needs Node, so it is for the desk and `make soak`, not for every test run. Lighthouse is fetched once, by version, into
`.cache/lighthouse` with npm, and drives the browser that the tests drive.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.browsing import running_browser
from tests.console_desk import fill_desk
from tests.console_site import PAGES, Site, serving
from tests.console_work import fill_work, make_work_desk
from tools.screenshots import pages as pictured

LEAST: Final = 95
CATEGORIES: Final = ("performance", "accessibility", "best-practices", "seo")
_VERSION: Final = "12.8.2"
_FOLDER: Final = Path(__file__).resolve().parents[1] / ".cache" / "lighthouse"
_PROGRAM: Final = _FOLDER / "node_modules" / "lighthouse" / "cli" / "index.js"


def missing() -> str | None:
    """What is needed and not there, in words."""
    return None if shutil.which("node") and shutil.which("npm") else "Lighthouse needs node and npm on the PATH"


def install() -> None:
    """Fetch Lighthouse, unless it is there."""
    if not _PROGRAM.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        quietly = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        wanted = [shutil.which("npm") or "npm", "install", "--prefix", str(_FOLDER), *quietly, f"lighthouse@{_VERSION}"]
        subprocess.run(wanted, check=True)


def scores(url: str, port: int) -> tuple[dict[str, int], list[str]]:
    """Each category of a page in points, and the audits that cost some."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        chosen = f"--only-categories={','.join(CATEGORIES)}"
        options = [f"--port={port}", "--preset=desktop", chosen, "--output=json", f"--output-path={report}", "--quiet"]
        subprocess.run([shutil.which("node") or "node", str(_PROGRAM), url, *options], check=True)
        found: dict[str, Any] = json.loads(report.read_text())
    points = {name: round(100 * (each["score"] or 0)) for name, each in found["categories"].items()}
    named = {ref["id"] for each in found["categories"].values() for ref in each["auditRefs"] if ref["weight"]}
    lost = [
        f"{name}: {found['audits'][name]['title']}"
        for name in sorted(named)
        if found["audits"][name]["score"] not in (1, None)
    ]
    return points, lost


def pages(site: Site) -> list[str]:
    """Every page of the menu, and one of each kind of thing, the longest session among them."""
    details = [
        f"sessions/{site.ask('sessions?order=newest&limit=1')['items'][0]['session_id']}",
        f"tasks/{site.ask('tasks?limit=1')['items'][0]['task_id']}",
        f"plans/{site.ask('plans')['items'][0]['run_id']}",
        f"entities/{site.ask('entities?limit=1')['items'][0]['entity_id']}",
        f"chains/{site.ask('chains')['items'][0]['chain_id']}",
        "trace/invoice-2026-7",
        *(f"review/items/{quote(each['item_id'], safe='')}" for each in _one_of_each_kind(site)),
    ]
    return list(dict.fromkeys((*PAGES, "goals", "plans", "trace", *pictured(site).values(), *details)))


def _one_of_each_kind(site: Site) -> list[dict[str, Any]]:
    found = site.ask("inbox?limit=200")["items"]
    return list({each["kind"]: each for each in found if each["kind"] not in ("call", "learned_tool")}.values())


def main() -> None:
    absent = missing()
    if absent is not None:
        sys.exit(f"lighthouse: {absent}")
    install()
    is_low = False
    with tempfile.TemporaryDirectory() as temporary:
        home = make_work_desk(Path(temporary))
        fill_desk(home, sessions=120, hostile=False)
        fill_work(home, hostile=False)
        with serving(home) as site, running_browser() as browser:
            for path in pages(site):
                points, lost = scores(site.url + path, browser.port)
                is_low |= min(points.values()) < LEAST
                print(f"/console/{path}", *(f"{name} {each}" for name, each in points.items()), sep="  ")
                for each in lost:
                    print(f"    {each}")
    sys.exit(1 if is_low else 0)


if __name__ == "__main__":
    main()
