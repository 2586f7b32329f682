"""The governed campaign as a newcomer runs it: judged, decided by a person, sent once although a worker dies."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.lean import run_lean


def test_the_whole_campaign_holds(tmp_path: Path) -> None:
    """Work is sent back and escalated, a person decides, a killed payment happens once, and its trace is whole."""
    folder = tmp_path / "demo"
    said = run_lean("-m", "examples.governed_campaign", str(folder), folder=tmp_path)
    for words in (
        "Draft the announcement: reject → approve",
        "invoice 2026-7: escalate; the task is escalated",
        "nothing leaves the house",
        "olivia decided: approve",
        "with disclosure: True",
        "killed in mid-payment (signal 9); the payment is sending",
        "executed, 1 order at the bank, 760.00 EUR left and 0.00 held",
        "1 order and 1 post, as before: True",
        "add up to {'EUR': 0}",
        "verifies: True",
        "► payment of 240.00 EUR to Printer & Co",
    ):
        assert words in said, words
    assert ElementTree.parse(folder / "payment.svg").getroot().tag.endswith("svg")
