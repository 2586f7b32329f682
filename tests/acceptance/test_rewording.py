"""A tool that is offered, fits and is not taken: proposed in other words, by the usual way, and then for retirement."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Desk, customer_steps
from twinraven.foundation.clock import utc_now

TOOL = "find_customer_load_customer"
BY_HAND = 24


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A home in which a learned tool is in service, and agents go on making its calls by hand."""
    desk = Desk(tmp_path)
    desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(14)], tasks=7)
    desk.json("learn")
    desk.run("approve", TOOL, "--promote")
    pass_over(desk, "t")
    return desk


def pass_over(desk: Desk, name: str) -> None:
    """Agents that do by hand what the tool does, and maintenance that sees it."""
    moment = utc_now() + timedelta(seconds=1)
    sessions = [(f"{name}{number:03}", customer_steps(100 + number)[:2]) for number in range(BY_HAND)]
    desk.record_all(sessions, tasks=8, at=moment)
    desk.json("maintenance", "run")


def proposal(desk: Desk) -> dict[str, Any]:
    return next(each for each in desk.json("learn")["proposals"] if each["tool_id"] == TOOL)


def test_a_tool_that_is_passed_over_is_proposed_in_other_words(desk: Desk) -> None:
    """`learn` proposes the same wiring with the goal and the parts' names first; it awaits a decision, once."""
    assert "not taken" in desk.run("registry", "list")
    found = proposal(desk)
    assert (found["version"], found["novelty"]) == (2, "awaiting")
    assert f"0 of {BY_HAND} sessions" in found["note"]
    old, new = (desk.json("registry", "show", TOOL, "--version", number) for number in ("1", "2"))
    assert new["description"].startswith("Load customer in one call, given email.")
    assert "instead of calling find_customer and load_customer" in new["description"]
    assert (new["steps"], new["internal_wiring"]) == (old["steps"], old["internal_wiring"])
    again = proposal(desk)
    assert (again["version"], again["novelty"]) == (2, "known")


def test_rejected_words_are_not_proposed_again(desk: Desk) -> None:
    """After a person's no to the words, `learn` says so and makes no further version."""
    proposal(desk)
    desk.run("reject", TOOL, "--reason", "worse than before")
    found = proposal(desk)
    assert (found["version"], found["novelty"]) == (1, "known")
    assert "worse than before" in found["note"]


def test_a_tool_that_is_passed_over_in_other_words_too_is_to_be_retired(desk: Desk) -> None:
    """Where the new words are passed over as well, `learn` names the command that ends the tool."""
    proposal(desk)
    desk.run("approve", TOOL, "--promote")
    pass_over(desk, "u")
    assert f"twinraven retire {TOOL}" in proposal(desk)["note"]


def test_a_tool_that_is_taken_keeps_its_words(tmp_path: Path) -> None:
    """Without the mark, `learn` proposes nothing new."""
    desk = Desk(tmp_path)
    desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(14)], tasks=7)
    desk.json("learn")
    desk.run("approve", TOOL, "--promote")
    assert proposal(desk)["novelty"] == "known"
    assert proposal(desk)["note"] == ""
