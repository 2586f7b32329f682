"""Draws a run as SVG: the steps of its flow, each coloured by what came of it so far."""

from __future__ import annotations

from twinraven.engine.views import RunDetail
from twinraven.flow import FlowDefinition, StepBox, StepDefinition, compile_flow, draw_steps


def draw_run(definition: FlowDefinition, found: RunDetail, *, max_steps: int) -> str:
    """Draw the flow of a run as an SVG document."""
    graph = compile_flow(definition, max_steps=max_steps).graph
    ids = [step.step_id for step in definition.steps]
    states = _states(found)
    has_ended = found.run.finished_at is not None
    boxes = [
        _box(
            step,
            [ids[each] for each in graph.before[number]],
            states.get(step.step_id) or ("skipped" if has_ended else None),
        )
        for number, step in enumerate(definition.steps)
    ]
    return draw_steps(f"{found.run.target} · {found.run.state}", boxes)


def _states(found: RunDetail) -> dict[str, str]:
    """Return what came of each step; the last attempt counts, and what waits for something has come to nothing yet."""
    states = {
        _step_of(step.place): "succeeded" if step.error_code is None else "failed"
        for step in sorted(found.steps, key=lambda step: step.settled_at)
    }
    settled = {step.place for step in found.steps}
    for wait in found.waits:
        if wait.place not in settled:
            states[_step_of(wait.place)] = "waiting"
    return states


def _step_of(place: str) -> str:
    return place.partition("#")[0].partition(":")[0]


def _box(step: StepDefinition, before: list[str], state: str | None) -> StepBox:
    marks = ["not yet"] if state is None else [state]
    if step.condition is not None:
        marks.append(f"if {step.condition}")
    return StepBox(step.step_id, step.tool_id, marks, before, state, is_optional=step.on_failure == "skip")
