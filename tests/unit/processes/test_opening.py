"""Learned tools opened as processes: the same calls with the same arguments, and what is left out is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twinraven.flow import FlowDefinition, FlowExecutor, StepRun
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidDefinition
from twinraven.processes import Process, compile_process
from twinraven.processes.opening import open_as_process
from twinraven.registry import SynthesizedTool

SEED = Path(__file__).parents[1] / "flow" / "search_read_summarize.json"


def no_process(_: str) -> Process | None:
    """There are no sub-processes."""
    return None


class World:
    """Answers every call and remembers it."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, JsonObject]] = []

    async def __call__(self, tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None) -> Any:
        del step, timeout_ms
        self.calls.append((tool_id, params))
        return self.answers.get(tool_id)


def flow(*steps: dict[str, Any], **more: Any) -> FlowDefinition:
    return FlowDefinition.from_json(
        {
            "tool_id": "learned",
            "description": "Learned",
            "parameters": {"type": "object", "properties": {"q": {}}, "required": ["q"]},
            "steps": [{"step_index": number, **step} for number, step in enumerate(steps)],
            **more,
        }
    )


async def calls_of(definition: FlowDefinition, parameters: JsonObject, answers: dict[str, Any]) -> Any:
    world = World(answers)
    await FlowExecutor().run(definition, parameters, world, writes=lambda _: True)
    return world.calls


async def test_the_seeds_example_opens_and_calls_the_same() -> None:
    """The tool of the seed is a process of three steps with readable variables, and says what it left out."""
    learned = SynthesizedTool.from_json(json.loads(SEED.read_text()))
    opened = open_as_process(learned, "research")
    assert [(step.id, step.output.variable, step.inputs) for step in opened.process.steps] == [
        ("s1-search", "search", {"query": "{step.query}"}),
        ("s2-read", "read", {"url": "{step.search.top_result_url}"}),
        ("s3-summarize", "summarize", {"content": "{step.read.text}", "max_length": "{step.max_length}"}),
    ]
    assert [each.partition(":")[0] for each in opened.left_out] == [
        "error_strategy.retry_policy.1",
        "error_strategy.abort_conditions",
        "parameters.max_length",
    ]
    again = Process.from_json(opened.as_json()["definition"])
    answers = {"search": {"top_result_url": "u"}, "read": {"text": "t"}}
    given = {"query": "ravens", "max_length": 9}
    assert await calls_of(compile_process(again, no_process), given, answers) == await calls_of(learned, given, answers)


@pytest.mark.parametrize(
    "mapped",
    [
        {"$join": ["$.parameters.q.a", "/", "$.steps[0].output.id"]},
        {"$affix": {"of": "$.steps[0].output.id", "before": "#", "after": "!"}},
        {"$read": {"of": "$.steps[0].output.text", "as": "json", "at": "$.deep[0]"}},
        {"$map": {"over": "$.steps[0].output.rows", "to": {"n": "$.item.id"}}},
        {"$where": {"of": "$.steps[0].output.rows", "at": "$.id", "equals": "$.parameters.q.b", "first": True}},
        {"$part": {"of": "$.steps[0].output.id", "separator": "-", "index": 1}},
        {"$string": "$.parameters.q.b"},
        {"$literal": "$.parameters.q"},
        "$$.parameters.q",
        "plain {step.q} text",
        ["$.parameters.q.a", {"deep": "$.internal_wiring.0.w"}],
        "$.internal_wiring.0.w.id",
    ],
)
async def test_every_way_to_pass_a_value_stays_the_same(mapped: Any) -> None:
    """References, wiring, operators and literals reach the tool as they did."""
    learned = flow(
        {"tool_id": "first", "input_mapping": {"q": "$.parameters.q"}},
        {"tool_id": "second", "input_mapping": {"x": mapped}, "condition": "$.steps[0].output.id == 'A-7'"},
        internal_wiring={"0": {"w": {"$at": {"of": "$.steps[0].output.rows", "path": "$[1]"}}}},
    )
    given = {"q": {"a": "left", "b": 2}}
    answers = {"first": {"id": "A-7", "text": '{"deep": ["found"]}', "rows": [{"id": 1}, {"id": 2}]}}
    opened = open_as_process(learned, "opened").process
    made = await calls_of(compile_process(Process.from_json(opened.as_json()), no_process), given, answers)
    assert made == await calls_of(learned, given, answers)
    assert len(made) == 2


def test_neighbours_that_run_beside_each_other_stay_parallel() -> None:
    """Steps that allow each other are parallel; a second group beside the first runs in order."""
    beside = [
        {"tool_id": "a", "parallelizable_with": [1]},
        {"tool_id": "b", "parallelizable_with": [0]},
        {"tool_id": "c"},
    ]
    modes = [step.execution.mode for step in open_as_process(flow(*beside), "p").process.steps]
    assert modes == ["parallel", "parallel", "sequential"]


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ({"for_each": "$.parameters.q", "input_mapping": {"x": "$.item"}}, r"steps\[1\]"),
        ({"input_mapping": {"x": "$.steps[0].status"}}, r"steps\[1\]\.inputs\.x"),
        ({"condition": "$.steps[0].status == 'ran'"}, r"steps\[1\]\.condition"),
    ],
)
def test_what_no_process_can_say_is_refused_with_its_place(step: dict[str, Any], place: str) -> None:
    """A step that a process has no words for is named, and nothing is opened in part."""
    with pytest.raises(InvalidDefinition, match=place):
        open_as_process(flow({"tool_id": "first"}, {"tool_id": "second", **step}), "p")
