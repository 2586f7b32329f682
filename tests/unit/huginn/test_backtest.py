"""Backtesting on a world whose data flow is known."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.huginn.billing_world import (
    INVOICE,
    LOAD,
    LOOKUP,
    SETTLE,
    SessionScript,
    billing_sessions,
    shuffled_outputs,
    traces,
)
from twinraven.foundation.clock import utc_now
from twinraven.huginn import Backtest, LearningConfig, SessionTrace, ToolFacts, backtest
from twinraven.huginn.traces import call_key


async def run(sessions: list[SessionTrace], **config: Any) -> Backtest:
    return await backtest(sessions, LearningConfig(**config), ToolFacts(), split="task", now=utc_now)


async def test_the_planted_chain_is_found_wired_and_saves_turns() -> None:
    """A three-step map is learned on one half of the tasks and saves turns on the other."""
    outcome = await run(billing_sessions(600))
    best = max(outcome.as_json()["tools"], key=lambda tool: tool["turns_saved"])
    assert best["chain"] == [LOOKUP, LOAD, INVOICE]
    assert best["shape"] == "map"
    assert outcome.turns_saved > 0.2 * outcome.assistant_turns


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_without_data_flow_nothing_is_wired(seed: int) -> None:
    """The same chains with outputs from other sessions yield no tool that takes anything from a step."""
    outcome = await run(shuffled_outputs(billing_sessions(600, seed=seed), seed=seed))
    assert [tool.tool_id for tool in outcome.tools if tool.definition.internal_wiring] == []


async def test_a_chain_across_a_users_message_is_not_merged() -> None:
    """Where the user speaks between any two calls, no chain is learned however regular it is."""
    outcome = await run(billing_sessions(600, pause=True))
    assert outcome.tools == []
    assert "no two tools follow each other" in outcome.learning.because


async def test_a_coincidence_dies_in_held_out_replay() -> None:
    """An argument equal to a constant in nearly all learning samples does not survive sessions where it differs."""
    outcome = await run(_coincidences(800))
    wired = [tool for tool in outcome.tools if tool.shape == "chain"]
    assert wired == []


async def test_totals_can_be_recomputed_from_the_uses() -> None:
    """An independent count over the written uses gives the printed totals, and every use is legitimate."""
    sessions = billing_sessions(500, seed=7)
    outcome = await run(sessions)
    body = outcome.as_json()
    recount = [_recount(item.as_json(), item.session) for item in outcome.tested]
    assert len(recount) == body["sessions_tested"]
    assert sum(turns for turns, _ in recount) == body["assistant_turns_saved"] > 0
    assert sum(extra for _, extra in recount) == body["extra_calls"]
    assert body["assistant_turns"] == sum(max(call.turn for call in item.session.calls) for item in outcome.tested)


async def test_a_write_ends_what_a_composite_made() -> None:
    """A read that repeats a composite's call after a write is not saved: the answer may have changed."""
    scripts: list[SessionScript] = []
    for number, session in enumerate(billing_sessions(500, seed=9)):
        script = SessionScript(f"w{number}", session.task_id or "")
        for call in session.calls:
            script.call(call.tool_id, call.params, call.output, said=call.outside_input)
        if session.calls[-1].tool_id == SETTLE:
            repeated = session.calls[2]
            script.call(repeated.tool_id, repeated.params, {"changed": True})
        scripts.append(script)
    outcome = await run(traces(scripts))
    for item in outcome.tested:
        writes = [call.turn for call in item.session.calls if call.tool_id == SETTLE]
        saved = [turn for use in item.uses for turn in use.turns_saved]
        assert not any(turn > write for write in writes for turn in saved)


@pytest.mark.parametrize(
    ("sessions", "because"),
    [
        ([], "there are no sessions"),
        (billing_sessions(1), "no two tools follow each other"),
    ],
)
async def test_too_little_to_learn_is_said_as_such(sessions: list[SessionTrace], because: str) -> None:
    """Empty and one-session logs give an honest reason instead of a tool or an error."""
    outcome = await run(sessions)
    assert outcome.tools == []
    assert because in outcome.learning.because


def _coincidences(count: int) -> list[SessionTrace]:
    """Reading a page, then its comments in an order that is nearly always, but not by rule, the same."""
    rng = random.Random(4)
    scripts: list[SessionScript] = []
    for number in range(count):
        script = SessionScript(f"c{number}", f"task-{number % 60}")
        page = f"page-{rng.randrange(10**6)}"
        order = "newest" if number % 60 < 50 else rng.choice(["oldest", "votes"])
        script.call("read_page", {"page": page}, {"page": page, "thread": f"th-{rng.randrange(10**6)}"}, said=page)
        script.call("list_comments", {"thread": script.lines[-1]["output"]["thread"], "order": order}, [])
        scripts.append(script)
    return traces(scripts)


def _recount(written: dict[str, Any], session: SessionTrace) -> tuple[int, int]:
    """Saved turns and extra calls of one session, recomputed from the written uses and the record alone."""
    turns: set[int] = set()
    extra = 0
    recorded = {call.seq: call.key for call in session.calls}
    for use in written["uses"]:
        first, *_ = use["calls"]
        assert recorded[first["seq"]] == call_key(first["tool"], first["params"])
        for call in use["calls"]:
            key = call_key(call["tool"], call["params"])
            assert call["seq"] is None or recorded[call["seq"]] == key
            assert (call["seq"] is None) == (key not in recorded.values())
            extra += call["seq"] is None
        made = {call_key(call["tool"], call["params"]) for call in use["calls"]}
        for turn in use["turns_saved"]:
            inside = [call for call in session.calls if call.turn == turn]
            assert inside
            assert all(call.key in made for call in inside)
            assert turn not in turns
            turns.add(turn)
    return len(turns), extra
