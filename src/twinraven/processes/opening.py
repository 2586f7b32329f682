"""Opens a learned tool as a process: the same calls in the same order, as data that people edit.

A reference to a parameter or a step becomes `{step.variable}`, wiring is written where it is used, and operators stay
operators. A process cannot say everything that a learned tool can; what is left out is told with its place.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, cast

from twinraven.flow import FlowDefinition, StepDefinition, invalid, is_operator
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidExpression
from twinraven.foundation.references import Reference, parse_reference
from twinraven.processes.expressions import path_of, rewrite_references
from twinraven.processes.model import Process, ProcessStep, StepExecution, StepOutput

_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9]+")
_ESCAPED: Final = re.compile(r"\$\$+[.\[]")


class OpenedProcess(NamedTuple):
    """A process to edit, and what of the learned tool it does not say."""

    process: Process
    left_out: tuple[str, ...]

    def as_json(self) -> JsonObject:
        return {"definition": self.process.as_json(), "left_out": list(self.left_out)}


def open_as_process(definition: FlowDefinition, process_id: str) -> OpenedProcess:
    """Open the process that makes the calls of a flow; InvalidDefinition where a step cannot be one of a process."""
    context = tuple(cast("JsonObject", definition.parameters.get("properties", {})))
    taken = set(context)
    variables: list[str] = []
    for number, step in enumerate(definition.steps):
        word = _NOT_A_NAME.sub("_", step.tool_id).strip("_")[:50] or "step"
        name = f"{word}_{number}" if word in taken or not word[0].isalpha() else word
        name = name if name[0].isalpha() else f"step_{number}"
        taken.add(name)
        variables.append(name)
    reader = _Reader(definition, variables)
    parallel = _parallel(definition.steps)
    is_optional = definition.error_strategy.default_behavior == "skip"
    process = Process(
        id=process_id,
        name=process_id,
        description=definition.description,
        initial_context=context,
        steps=tuple(
            _step(reader, step, number, is_parallel=number in parallel, is_optional=is_optional)
            for number, step in enumerate(definition.steps)
        ),
    )
    return OpenedProcess(process, _left_out(definition))


def _step(reader: _Reader, step: StepDefinition, number: int, *, is_parallel: bool, is_optional: bool) -> ProcessStep:
    where = f"steps[{number}]"
    if step.for_each is not None:
        raise invalid(where, "runs once for each element of a list, which a step of a process does not")
    inputs = {name: reader.value(value, f"{where}.inputs.{name[:80]}") for name, value in step.input_mapping.items()}
    condition = None if step.condition is None else reader.condition(step.condition, f"{where}.condition")
    is_required = step.on_failure != "skip" if step.on_failure is not None else not is_optional
    return ProcessStep(
        id=f"s{number + 1}-{_NOT_A_NAME.sub('-', step.tool_id).strip('-')[:40]}".rstrip("-"),
        tool=step.tool_id,
        inputs=inputs,
        output=StepOutput(reader.variables[number], required=is_required),
        execution=StepExecution("parallel" if is_parallel else "sequential", condition, step.timeout_ms),
    )


class _Reader:
    """Reads the mapping language of a flow as that of a process."""

    def __init__(self, definition: FlowDefinition, variables: list[str]) -> None:
        self.variables = variables
        self._wiring = definition.internal_wiring
        self._numbers = {step.step_id: number for number, step in enumerate(definition.steps)}

    def value(self, value: Any, where: str) -> Any:
        """Return an input of a process that is this mapped value."""
        if isinstance(value, str):
            return self._text(value, where)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self.value(item, f"{where}[{number}]") for number, item in enumerate(items)]
        if isinstance(value, dict):
            members = cast("JsonObject", value)
            if "$literal" in members:
                return members
            if is_operator(members):
                return {name: self._operands(name, given, where) for name, given in members.items()}
            return {name: self.value(item, f"{where}.{name[:40]}") for name, item in members.items()}
        return value

    def condition(self, text: str, where: str) -> str:
        """Return a condition with `{step.variable}` for what it refers to."""
        return rewrite_references(text, lambda reference: self._plain(reference, where))

    def _operands(self, name: str, given: Any, where: str) -> Any:
        at = f"{where}.{name}"
        if not isinstance(given, dict):
            return self.value(given, at)
        members = cast("JsonObject", given)
        values = ("of", "over", "equals", "among")
        return {each: self.value(item, at) if each in values else item for each, item in members.items()}

    def _text(self, text: str, where: str) -> Any:
        if text.startswith(("$.", "$[")):
            try:
                return self._referred(parse_reference(text), where)
            except InvalidExpression as error:
                raise invalid(where, error.message) from None
        plain = text[1:] if _ESCAPED.match(text) else text
        return {"$literal": plain} if "{" in plain else plain

    def _referred(self, reference: Reference, where: str) -> Any:
        head, *rest = reference.segments
        if head == "internal_wiring":
            wired = self._wiring.get(str(rest[0]), {}).get(str(rest[1]))
            value = self.value(wired, where)
            if len(rest) == 2:
                return value
            return {"$at": {"of": value, "path": "$" + path_of(rest[2:])}}
        return self._plain(reference, where)

    def _plain(self, reference: Reference, where: str) -> str:
        head, *rest = reference.segments
        if head == "internal_wiring":
            value = self._referred(reference, where)
            if isinstance(value, str):
                return value
        elif head == "parameters" and rest:
            return "{step" + path_of(rest) + "}"
        elif head == "steps" and len(rest) > 1 and rest[1] == "output":
            return "{step" + path_of((self.variables[self._number(rest[0])], *rest[2:])) + "}"
        raise invalid(where, f"uses {reference.text}, which a process cannot say")

    def _number(self, named: str | int) -> int:
        return named if isinstance(named, int) else self._numbers[named]


def _parallel(steps: tuple[StepDefinition, ...]) -> frozenset[int]:
    """Return the steps that stand together with a neighbour that each lets run beside it."""
    found: set[int] = set()
    first = 0
    while first < len(steps):
        last = first
        while last + 1 < len(steps) and all(
            last + 1 in steps[each].parallelizable_with and each in steps[last + 1].parallelizable_with
            for each in range(first, last + 1)
        ):
            last += 1
        if last > first and first - 1 not in found:
            found.update(range(first, last + 1))
        first = last + 1
    return frozenset(found)


def _left_out(definition: FlowDefinition) -> tuple[str, ...]:
    """Return what of a flow a process does not say, each with its place."""
    strategy = definition.error_strategy
    told = [
        f"error_strategy.retry_policy.{index}: steps of a process are tried once" for index in strategy.retry_policy
    ]
    told += [f"error_strategy.fallback_steps.{index}: a process has no fallbacks" for index in strategy.fallback_steps]
    if strategy.abort_conditions:
        told.append("error_strategy.abort_conditions: put them into conditions of steps")
    properties: JsonObject = definition.parameters.get("properties", {})
    told += [
        f"parameters.{name}: callers of a process give every variable, so the default is left out"
        for name, schema in properties.items()
        if isinstance(schema, dict) and "default" in schema
    ]
    if definition.output is not None:
        told.append("output: the process answers with its variables; write an output_template for anything else")
    if definition.timeout_ms is not None:
        told.append("timeout_ms: state the time of a whole run when you start it")
    return tuple(told)
