"""The loop closes: what agents do with a learned tool is mined and learned from, what it does inside is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.desk import Desk, customer_steps

BEFORE = 14
SESSIONS = 15
"""Most sessions are those of the one who calls the learned tool: one of several would not decide for all."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A home in which a tool was learned and promoted, and then called in sessions that go on with its answer."""
    desk = Desk(Path(tmp_path_factory.mktemp("loop")))
    desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(BEFORE)], tasks=7)
    (proposal,) = desk.json("learn")["proposals"]
    name = proposal["tool_id"]
    desk.run("approve", name, "--promote")
    for number in range(SESSIONS):
        session = f"t{number:03}"
        params = json.dumps({"email": f"new{number}@mail.test"})
        answer = json.loads(desk.run("call", name, "--params", params, "--session", session))
        account = json.dumps({"account": answer["result"]["account"]["number"]})
        desk.run("call", "get_balance", "--params", account, "--session", session)
    return desk


@pytest.mark.req("TR-23")
def test_a_learned_tool_is_a_link_and_its_inner_calls_are_not_counted(desk: Desk) -> None:
    """`mine` finds the learned tool followed by another, and its steps only where agents made them themselves."""
    chains = desk.mine("--min-support", "0.01")
    learned, inner = chains["find_customer_load_customer", "get_balance"], chains["find_customer", "load_customer"]
    assert (learned["sessions"], learned["support"]) == (SESSIONS, pytest.approx(SESSIONS / (BEFORE + SESSIONS)))
    assert (inner["sessions"], inner["occurrences"]) == (BEFORE, BEFORE)
    assert set(chains) == {("find_customer_load_customer", "get_balance"), ("find_customer", "load_customer")}
    events = desk.json("sessions", "show", "t000")
    assert [event["tool_id"] for event in events if event["parent_event_id"] is None] == list(learned["tools"])
    assert len(events) == 4
    assert desk.json("registry", "show", "find_customer_load_customer")["invocation_count"] == SESSIONS


@pytest.mark.req("TR-23")
def test_a_learned_tool_becomes_a_step_of_the_next(desk: Desk) -> None:
    """`learn` proposes a tool whose first step is the learned one, wired from its answer, and nothing of its inside."""
    outcome = desk.json("learn")
    assert outcome["sessions"] == BEFORE + SESSIONS
    (new,) = [proposal for proposal in outcome["proposals"] if proposal["novelty"] == "awaiting"]
    shown = desk.json("registry", "show", new["tool_id"], "--version", "1")
    assert [step["tool_id"] for step in shown["steps"]] == ["find_customer_load_customer", "get_balance"]
    assert new["uses"] == SESSIONS
    assert outcome["chains"] == 2
    desk.run("approve", new["tool_id"], "--promote")
    answer = json.loads(desk.run("call", new["tool_id"], "--params", '{"email": "x@mail.test"}', "--session", "last"))
    assert answer["result"]["balance"] == 7
