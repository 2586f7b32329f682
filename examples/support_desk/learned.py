"""A learned tool as the scripted agent sees it: what to give it, and which answers are inside its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from examples.support_desk.worker import InnerCall
from twinraven.flow import FlowPlan, PlannedStep, compile_flow
from twinraven.foundation.canonical import JsonObject
from twinraven.registry import SynthesizedTool


class OfferedTool:
    """A definition in service."""

    def __init__(self, definition: SynthesizedTool) -> None:
        self.definition = definition
        self._plan: FlowPlan = compile_flow(definition)

    @property
    def tool_id(self) -> str:
        return self.definition.tool_id

    @property
    def steps(self) -> Sequence[str]:
        return [step.tool_id for step in self.definition.steps]

    @property
    def parameters(self) -> Sequence[str]:
        return list(self.definition.parameters["required"])

    def inner_calls(self, params: JsonObject, result: Any) -> Iterator[InnerCall]:
        """What each step was called with follows from the parameters and the answers of the steps before it."""
        outputs = [*(step["output"] for step in result["earlier"]), result["result"]]
        scope: JsonObject = {
            "parameters": params,
            "steps": [{"output": output} for output in outputs],
            "internal_wiring": {},
        }
        for wired in self._plan.wiring:
            scope["internal_wiring"].setdefault(wired.key, {})[wired.name] = wired.value.resolve(scope)
        for step, output in zip(self._plan.steps, outputs, strict=True):
            yield from _answered(step, output, scope)


def _answered(step: PlannedStep, output: Any, scope: JsonObject) -> Iterator[InnerCall]:
    if step.for_each is None:
        if output is not None:
            yield InnerCall(step.tool_id, step.inputs.resolve(scope), output)
        return
    items: list[Any] = step.for_each.resolve(scope) or []
    answers: list[Any] = output or []
    for item, answer in zip(items, answers, strict=False):
        if answer is not None:
            yield InnerCall(step.tool_id, step.inputs.resolve({**scope, "item": item}), answer)
