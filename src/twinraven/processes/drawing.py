"""Draws the graph of a process as SVG, with what each step calls, fills and depends on."""

from __future__ import annotations

from twinraven.flow import StepBox, draw_steps
from twinraven.processes.model import Process, ProcessStep


def draw_process(process: Process) -> str:
    """Draw the graph as an SVG document."""
    before = predecessors(process)
    return draw_steps(process.name, [_box(step, before[step.id]) for step in process.steps])


def predecessors(process: Process) -> dict[str, tuple[str, ...]]:
    """Return the steps right before each step, in the order in which the process runs."""
    found: dict[str, tuple[str, ...]] = {}
    done: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    for step in process.steps:
        if step.execution.mode == "sequential":
            found[step.id] = beside or done
            done, beside = (step.id,), ()
        else:
            found[step.id] = step.depends_on or done
            beside += (step.id,)
    return found


def _box(step: ProcessStep, before: tuple[str, ...]) -> StepBox:
    marks = [step.output.variable]
    if step.execution.interaction_mode == "manual":
        marks.append("asks a person")
    if step.execution.condition is not None:
        marks.append(f"if {step.execution.condition}")
    kind = "tool" if step.process is None else "process"
    return StepBox(step.id, f"{kind} {step.target}", marks, before, is_optional=not step.output.required)
