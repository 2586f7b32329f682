"""Takes the pictures of the console for the docs: `python -m tools.screenshots [FOLDER]`, light and dark.

A made-up support desk is filled, served by `twinraven up`, and looked at in the browser that the tests drive.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.acceptance.test_console import Site, serving
from tests.browsing import running_browser
from tests.console_desk import fill_desk, make_desk

_DOCS: Final = Path(__file__).resolve().parents[1] / "docs" / "images"


def pages(site: Site) -> dict[str, str]:
    """Ten pages, by the name of their picture."""
    learned = site.ask("learned-tools")["items"]
    waiting = next(each for each in learned if each["status"] == "testing")
    serves = next(each for each in learned if each["status"] == "promoted")
    approval = site.ask("approvals?state=pending")["items"][-1]
    newest = site.ask("sessions?order=newest&limit=100")["items"]
    session = next(each["session_id"] for each in newest if each["session_id"].startswith("ticket-48"))
    event = site.ask(f"sessions/{session}")["events"][-1]
    return {
        "today": "",
        "review": "review",
        "review-tool": f"review/tools/{waiting['tool_id']}/{waiting['current_version']}",
        "review-call": f"review/calls/{approval['approval_id']}",
        "sessions": "sessions",
        "session": f"sessions/{session}?call={event['event_id']}",
        "parallel": "sessions/ticket-4990",
        "flow": "flow",
        "learned": f"learned/{serves['tool_id']}",
        "tools": "tools",
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _DOCS
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        home = make_desk(Path(temporary))
        fill_desk(home, sessions=240)
        with serving(home) as site, running_browser() as browser:
            for theme in ("light", "dark"):
                with browser.profile(theme=theme, width=1280, height=800) as person:
                    tab = person.open()
                    for name, path in pages(site).items():
                        tab.go(site.url + path)
                        tab.wait("document.fonts.status === 'loaded'")
                        browser.idle(0.3)
                        tab.picture(folder / f"console-{name}-{theme}.png")
                        print(f"console-{name}-{theme}.png")


if __name__ == "__main__":
    main()
