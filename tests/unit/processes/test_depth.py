"""Processes inside processes, fifty deep: one flow that can be stored, read back and run."""

from __future__ import annotations

from typing import Any

import pytest

from twinraven.flow import FlowDefinition, FlowExecutor, StepRun
from twinraven.foundation.canonical import JsonObject
from twinraven.processes import Process, compile_process

DEEPEST = 50


def level(number: int) -> Process:
    """A process that changes a text, hands it to the next and puts brackets around the answer."""
    steps: list[dict[str, Any]] = [
        {"id": "mark", "tool": "mark", "inputs": {"text": "{step.text}"}, "output": {"variable": "marked"}}
    ]
    if number < DEEPEST:
        down = {"id": "down", "process": f"p{number + 1}", "inputs": {"text": "<{step.text}>"}}
        steps.append({**down, "output": {"variable": "below"}})
    return Process.from_json(
        {
            "id": f"p{number}",
            "description": "One level",
            "initial_context": ["text"],
            "steps": steps,
            "max_recursion_depth": DEEPEST,
            "output_template": "({{marked}}{{below}})" if number < DEEPEST else "({{marked}})",
        }
    )


@pytest.mark.req("AD-12")
async def test_fifty_levels_are_one_flow() -> None:
    """Values pass down and answers up through fifty levels, also after the flow was stored and read back."""
    levels = {process.id: process for process in map(level, range(DEEPEST + 1))}
    laid = compile_process(levels["p0"], levels.get)
    stored = FlowDefinition.from_json(laid.as_json())
    seen: list[str] = []

    async def mark(tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None) -> str:
        del tool_id, step, timeout_ms
        seen.append(params["text"])
        return str(len(seen))

    result = await FlowExecutor(max_steps=1_000).run(stored, {"text": "x"}, mark, writes=lambda _: False)
    assert seen == ["<" * depth + "x" + ">" * depth for depth in range(DEEPEST + 1)]
    assert result.output == "".join(f"({number}" for number in range(1, DEEPEST + 2)) + ")" * (DEEPEST + 1)
