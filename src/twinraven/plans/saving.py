"""Turns a finished plan into a process: its tool calls become steps, its inputs become parameters.

A value that an earlier step gave is taken from there. A value that stands in the request is an input, named after the
argument it was. Everything else was decided once and stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import Conflict
from twinraven.models import ASK_MODEL
from twinraven.plans.model import PlanStep
from twinraven.plans.questions import REASONING
from twinraven.plans.service import PlanRun

_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")
_LEAST_TEXT: Final = 2
_MAX_VALUES: Final = 5_000
_MAX_DEPTH: Final = 8


def plan_as_process(found: PlanRun, process_id: str) -> JsonObject:
    """Return the definition of a process that does what a completed plan did."""
    if found.status != "completed" or found.state.plan is None:
        raise Conflict(
            f"plan {found.run.run_id!r} is {found.status}; only a completed one becomes a process",
            run_id=found.run.run_id,
        )
    plan = found.state.plan
    asked = found.wish.request or plan.goal
    drawing = _Drawing(f"{asked}\n{plan.goal}")
    for step in plan.steps:
        if step.status == "complete":
            drawing.add(step, found.state.results.get(step.step_id))
    return {
        "id": process_id,
        "name": process_id,
        "description": plan.goal[:1_000],
        "initial_context": list(drawing.inputs),
        "steps": drawing.steps,
    }


class _Drawing:
    """The process as far as it is drawn."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._sources: list[tuple[Any, str]] = []
        """Values that steps gave, and the reference to each."""
        self.inputs: dict[str, Any] = {}
        self.steps: list[JsonObject] = []

    def add(self, step: PlanStep, result: Any) -> None:
        """Draw one step, and remember what it gave."""
        variable = _plain(f"r_{step.step_id}")
        if step.tool is None:
            message = {"role": "user", "content": self._question(step.description)}
            inputs: JsonObject = {"system": REASONING, "messages": [message]}
        else:
            inputs = {name: self._source(name, value) for name, value in (step.arguments or {}).items()}
        self.steps.append(
            {
                "id": _plain(f"s_{step.step_id}"),
                "tool": step.tool or ASK_MODEL,
                "inputs": inputs,
                "output": {"variable": variable},
            }
        )
        if step.tool is None:
            self._sources.append((result, f"{{step.{variable}.text}}"))
        else:
            self._sources += [(value, f"{{step.{path}}}") for value, path in _leaves(result, variable)]

    def _question(self, description: str) -> str:
        """Return a step that reasoned is asked again, with what the steps before it gave."""
        given = "\n".join(f"{{step.{step['output']['variable']}}}" for step in self.steps)
        return f"{description}\n{given}".strip()

    def _source(self, name: str, value: Any) -> Any:
        for known, reference in reversed(self._sources):
            if _says_something(value) and type(known) is type(value) and known == value:
                return reference
        is_asked = _says_something(value) and isinstance(value, (str, int, float)) and str(value) in self._asked
        if is_asked:
            return f"{{step.{self._input(name, value)}}}"
        return value

    def _input(self, name: str, value: Any) -> str:
        plain, number = _plain(name), 1
        while plain in self.inputs and self.inputs[plain] != value:
            number += 1
            plain = f"{_plain(name)}_{number}"
        self.inputs[plain] = value
        return plain


def _says_something(value: Any) -> bool:
    """Return whether a value is particular enough that meeting it twice is no chance."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, str):
        return len(value) >= _LEAST_TEXT
    return isinstance(value, (int, float)) and abs(value) > 9


def _leaves(value: Any, path: str, depth: int = 0) -> Iterator[tuple[Any, str]]:
    """Yield the values inside a result with their paths; lists are not gone into, because positions are chance."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, each in list(cast("JsonObject", value).items())[:_MAX_VALUES]:
            if name.isidentifier():
                yield from _leaves(each, f"{path}.{name}", depth + 1)
    else:
        yield value, path


def _plain(name: str) -> str:
    return _NAME.sub("_", name).strip("_") or "value"
