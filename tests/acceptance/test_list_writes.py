"""A write for each element of a list: proposed on request alone, confirmed where policy says, never made twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Desk
from tests.acceptance.ticket_desk import CLOSED, closing_steps

SESSIONS = 16
TOOL = "list_tickets_close_ticket_each"
MODULES: dict[str, Any] = {"modules": ["tests.acceptance.ticket_desk"]}
ASK = {"rules": [{"tool": "close_ticket", "then": "ask", "reason": "somebody must look"}]}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A home in which agents close every ticket that they listed."""
    desk = Desk(tmp_path, tools=MODULES)
    desk.record_all([(f"s{number:03}", closing_steps(number)) for number in range(SESSIONS)], tasks=8)
    CLOSED.clear()
    return desk


def _promoted(desk: Desk) -> str:
    desk.json("learn", "--list-writes")
    return desk.run("approve", TOOL, "--promote")


@pytest.mark.req("TR-12")
def test_a_write_for_each_of_a_list_is_proposed_on_request_alone(desk: Desk) -> None:
    """Plain `learn` leaves the chain and says why; with `--list-writes` it is proposed, with all its savings."""
    left = desk.json("learn")
    assert left["proposals"] == []
    refused = {tuple(chain["tools"]): chain["reason"] for chain in left["refused"]}
    assert "only made on request" in refused["list_tickets", "close_ticket"]
    assert "list_tickets → close_ticket: close_ticket may write" in desk.run("learn")
    outcome = desk.json("learn", "--list-writes")
    (proposal,) = outcome["proposals"]
    assert (proposal["tool_id"], proposal["novelty"]) == (TOOL, "awaiting")
    calls = sum(2 + number % 3 for number in range(SESSIONS))
    assert (proposal["uses"], proposal["turns_saved"], proposal["extra_calls"]) == (SESSIONS, calls, 0)
    assert ["list_tickets", "close_ticket"] not in [chain["tools"] for chain in outcome["refused"]]


def test_the_setting_asks_for_it_too(desk: Desk) -> None:
    """`learning.list_writes` makes plain `learn` propose it."""
    desk.configure(tools=MODULES, learning={"list_writes": True})
    assert [proposal["tool_id"] for proposal in desk.json("learn")["proposals"]] == [TOOL]


def test_whoever_decides_sees_that_it_writes(desk: Desk) -> None:
    """`approve` says in words and in the wiring that the last step writes."""
    screen = _promoted(desk)
    assert "close_ticket can write" in screen
    assert re.search(r"^1 close_ticket +write", screen, re.MULTILINE)


@pytest.mark.parametrize("takes", [slice(1), slice(1, None)], ids=["first", "all but first"])
def test_what_agents_choose_among_is_not_written_for_all(tmp_path: Path, takes: slice) -> None:
    """Where agents write for some elements only, no tool that would write for all is proposed."""
    desk = Desk(tmp_path, tools=MODULES)
    desk.record_all([(f"s{number:03}", closing_steps(number, takes=takes)) for number in range(SESSIONS)], tasks=8)
    assert desk.json("learn", "--list-writes")["proposals"] == []


def test_one_session_that_left_an_element_out_is_enough(desk: Desk) -> None:
    """A tool that would once have written what the agent did not is left, and the reason says so."""
    desk.record_all([("careful", closing_steps(40, takes=slice(-1)))], task="task-1")
    outcome = desk.json("learn", "--list-writes")
    assert outcome["proposals"] == []
    assert any(
        "1 of 17 uses it would have written what the agent did not" in each["reason"] for each in outcome["refused"]
    )


def test_every_element_is_written_once_and_a_retry_writes_nothing(desk: Desk) -> None:
    """A call closes each listed ticket; the same key again is answered from the record."""
    _promoted(desk)
    call = ("call", TOOL, "--params", '{"queue": "late"}', "--session", "x", "--key", "k1")
    first = json.loads(desk.run(*call))
    assert CLOSED == ["late-1", "late-2", "late-3"]
    assert json.loads(desk.run(*call)) == first
    assert CLOSED == ["late-1", "late-2", "late-3"]
    inner = [event for event in desk.json("sessions", "show", "x") if event["tool_id"] == "close_ticket"]
    assert len(inner) == len(CLOSED)


@pytest.mark.req("TR-20")
def test_policy_about_the_inner_write_is_asked_of_the_whole(desk: Desk) -> None:
    """Where a rule asks about the inner tool, nothing runs before a person granted the call, which names that tool."""
    _promoted(desk)
    desk.configure(tools=MODULES, policy=ASK)
    call = ("call", TOOL, "--params", '{"queue": "late"}', "--session", "x")
    desk.run(*call, code=1)
    (asked,) = desk.json("approvals", "list")
    shown = desk.json("approvals", "show", asked["approval_id"])
    assert "close_ticket" in shown["covers"]
    assert CLOSED == []
    desk.run("approvals", "grant", asked["approval_id"], "--note", "fine")
    desk.run(*call)
    assert CLOSED == ["late-1", "late-2", "late-3"]
    desk.run(*call, code=1)
    assert CLOSED == ["late-1", "late-2", "late-3"]
