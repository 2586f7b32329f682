"""Takes the pictures of the console for the docs: `python -m tools.screenshots [FOLDER]`, light and dark.

A made-up support desk is filled, served by `twinraven up`, and looked at in the browser that the tests drive.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Final

from tests.browsing import running_browser
from tests.console_desk import fill_desk
from tests.console_site import Site, serving
from tests.console_work import fill_work, make_work_desk

_SESSIONS: Final = 120
_PNG: Final = b"\x89PNG\r\n\x1a\n"
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
    run = next(each for each in site.ask("runs?state=waiting")["items"] if each["target"] == "replace_item")
    talk = next(each for each in site.ask("conversations?limit=50")["items"] if each["forked_from"] is None)
    return {
        "today": "",
        "review": "review",
        "review-tool": f"review/tools/{waiting['tool_id']}/{waiting['current_version']}",
        "review-call": f"review/calls/{approval['approval_id']}",
        "session": f"sessions/{session}?call={event['event_id']}",
        "flow": "flow",
        "learned": f"learned/{serves['tool_id']}",
        "run": f"runs/{run['run_id']}",
        "conversation": f"talk/{talk['id']}",
        "goals": "goals",
    }


def packed(picture: bytes) -> bytes:
    """The same PNG with its pixels compressed as well as zlib can; the browser saves for speed."""
    at, parts, pixels = len(_PNG), list[tuple[bytes, bytes]](), b""
    while at < len(picture):
        (size,) = struct.unpack_from(">I", picture, at)
        kind, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]
        at += 12 + size
        if kind == b"IDAT":
            pixels += data
        else:
            parts.append((kind, data))
    packer = zlib.compressobj(9, memLevel=9)
    best = packer.compress(zlib.decompress(pixels)) + packer.flush()
    parts.insert(-1, (b"IDAT", min(best, pixels, key=len)))
    return _PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _DOCS
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        home = make_work_desk(Path(temporary))
        fill_desk(home, sessions=_SESSIONS, hostile=False)
        fill_work(home, hostile=False)
        with serving(home) as site, running_browser() as browser:
            for theme in ("light", "dark"):
                with browser.profile(theme=theme, width=1280, height=800) as person:
                    # Fonts are there from the second page on; a first one does not wait for them.
                    tab = person.open(site.url)
                    for name, path in pages(site).items():
                        tab.go(site.url + path)
                        tab.wait("document.fonts.status === 'loaded'")
                        browser.idle(0.3)
                        shot = folder / f"console-{name}-{theme}.png"
                        tab.picture(shot)
                        shot.write_bytes(packed(shot.read_bytes()))
                        print(f"console-{name}-{theme}.png")


if __name__ == "__main__":
    main()
