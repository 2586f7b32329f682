"""The demo as a newcomer runs it: from an empty folder to learned tools that save turns, and what becomes of them."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

from tests.acceptance.cli import Shell
from tests.lean import run_lean
from twinraven.app import open_home
from twinraven.foundation.clock import parse_iso, utc_now

README = Path(__file__).parents[2] / "README.md"


def readme_lines() -> set[str]:
    """Return what the README quotes from the demo's output: the console blocks of its first minute."""
    first_minute = README.read_text().partition("**1. Watch it.**")[2].partition("**2. ")[0]
    quoted = "\n".join(first_minute.split("```")[1::2])
    return {line.strip() for line in quoted.splitlines()} - {"", "…"}


def check_times(home: Path) -> None:
    """The story is over: it began more than a month ago, and nothing of it lies in the future."""
    shell, now = Shell(home), utc_now()
    acts = [parse_iso(each["timestamp"]) for each in shell.json("audit", "show", "--limit", "1000")]
    sessions = shell.json("sessions", "list", "--limit", "1000")
    begun = [parse_iso(each["started_at"]) for each in sessions]
    with open_home(home / ".twinraven") as raven:
        verdict = asyncio.run(raven.events.verdict("default", sessions[-1]["session_id"]))
    assert verdict is not None
    assert max(min(acts), min(begun), verdict.stated_at) < now - timedelta(days=30)
    assert max(*acts, *begun) <= now


def test_the_whole_story_holds(tmp_path: Path) -> None:
    """Tools are learned and proven, save turns on new tickets, are counted, rolled back, and seen to drift."""
    folder = tmp_path / "demo"
    said = run_lean("-m", "examples.support_desk", str(folder), folder=tmp_path)
    assert readme_lines() <= {line.strip() for line in said.splitlines()}
    turns = re.search(r"model turns +(\d+) +(\d+)", said)
    assert turns is not None
    assert int(turns[2]) < 0.8 * int(turns[1])
    solved = re.search(r"solved +(\d+) +(\d+)", said)
    assert solved is not None
    assert int(solved[2]) >= int(solved[1])
    assert "Rolled back: v1 serves again" in said
    assert re.search(r"flag \w+: agents hardly make these calls", said)
    used = re.findall(r"promoted +1 +(\d+) +(\d+) +drift", said)
    assert used
    assert all(int(count) > 0 for count, _ in used)
    assert "and it verifies" in said
    check_times(folder / "home")
    waiting = re.search(r"(\w+): v2 is validated and waits for a person's yes", said)
    assert waiting is not None
    shell = Shell(folder / "home")
    (item,) = shell.json("inbox", "list")
    assert item["ref"] == f"{waiting[1]}@2"
    shell.succeed("inbox", "decide", item["item_id"], "approve", "--hash", item["bound_to"])
    assert {each["tool_id"]: each["current_version"] for each in shell.json("registry", "list")}[waiting[1]] == 2
    for picture in ("transitions.svg", "learned-tool.svg"):
        assert ElementTree.parse(folder / picture).getroot().tag.endswith("svg")
    assert list((folder / "home" / ".twinraven" / "tools" / "generated").glob("*/v2.json"))
