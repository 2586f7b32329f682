"""Agents that ask for several calls in one turn: what is learned across such a turn, and what cannot be."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.unit.huginn.billing_world import SessionScript, traces
from twinraven.foundation.clock import utc_now
from twinraven.huginn import Learner, LearningConfig, LearningReport, SessionTrace, ToolFacts

Call = tuple[str, dict[str, Any], Any]


def in_one_turn(script: SessionScript, calls: Sequence[Call], *, said: str | None = None) -> None:
    """Add calls that the model asked for together."""
    for number, (tool, params, output) in enumerate(calls):
        script.call(tool, params, output, said=said if number == 0 else None)
        script.turn -= number > 0
        script.lines[-1]["llm_turn"] = script.turn


def clinic_sessions(count: int) -> list[SessionTrace]:
    """A patient is looked up, three reads are asked for together, in any order, then every appointment together."""
    rng = random.Random(3)
    scripts: list[SessionScript] = []
    for number in range(count):
        script = SessionScript(f"c{number}", f"task-{number}")
        phone, patient = f"+49{rng.randrange(10**9)}", rng.randrange(10**6)
        visits = [f"ap_{rng.randrange(10**8)}" for _ in range(rng.randrange(1, 4))]
        script.call("lookup_patient", {"phone": phone}, {"patient": {"id": patient}}, said=f"I call from {phone}")
        together: list[Call] = [
            ("get_chart", {"patient_id": patient}, {"allergies": []}),
            ("get_insurance", {"patient_id": patient}, {"policy": rng.randrange(10**6)}),
            ("list_visits", {"patient_id": patient}, {"visits": [{"ref": visit} for visit in visits]}),
        ]
        rng.shuffle(together)
        in_one_turn(script, together)
        in_one_turn(script, [("get_visit", {"ref": visit}, {"room": rng.randrange(99)}) for visit in visits])
        scripts.append(script)
    return traces(scripts)


async def learn(sessions: list[SessionTrace]) -> LearningReport:
    return await Learner(LearningConfig(), ToolFacts(), now=utc_now).learn(sessions)


async def test_a_chain_goes_on_across_a_turn_of_several_different_calls() -> None:
    """The look-up, the reads that follow it together and the visits become one tool that saves both later turns."""
    report = await learn(clinic_sessions(60))
    best = max(report.chosen, key=lambda chosen: chosen.alone.turns_saved)
    tools = [step.tool_id for step in best.tool.definition.steps]
    assert {tools[0], tools[-1]} == {"lookup_patient", "get_visit"}
    assert set(tools[1:-1]) == {"get_chart", "get_insurance", "list_visits"}
    assert best.tool.shape == "map"
    assert best.alone.turns_saved == 120
    assert best.alone.extra_calls == 0


async def test_a_call_takes_nothing_from_an_answer_of_its_own_turn() -> None:
    """A value that stands in the answer of a call asked for together is no source: the model had not seen it."""
    rng = random.Random(4)
    scripts: list[SessionScript] = []
    for number in range(40):
        script = SessionScript(f"s{number}", f"task-{number}")
        name, key, team = f"host{rng.randrange(10**6)}", rng.randrange(10**6), rng.randrange(10**6)
        together: list[Call] = [
            ("get_host", {"name": name}, {"key": key}),
            ("get_owner", {"key": key}, {"team": team}),
        ]
        in_one_turn(script, together, said=f"{name} {key} is down")
        script.call("get_alerts", {"team": team}, {"alerts": []})
        scripts.append(script)
    report = await learn(traces(scripts))
    (whole,) = (draft.tool.definition for draft in report.drafts if len(draft.tool.chain) == 3)
    assert [step.tool_id for step in whole.steps] == ["get_host", "get_owner", "get_alerts"]
    assert whole.steps[1].input_mapping == {"key": "$.parameters.key"}


async def test_calls_that_are_always_asked_for_together_are_said_to_be() -> None:
    """A pair that has always come in one turn is left with that reason, and nobody is told to wait."""
    report = await learn(clinic_sessions(60))
    assert report.refused["get_chart", "get_insurance"] == "its calls are asked for together, in one turn, already"
