"""Compiles a process to a flow: the order of its steps, their conditions, budgets, people and sub-processes.

A step becomes one call. A manual step gets a wait for a person before it, a token budget a stop after it. A sub-process
is laid out in place, with its steps under the id of the step that calls it, so that a run of any depth is one flow and
a step that calls a process holds no worker. Which version of a sub-process that is, is decided when the flow is made.

Order: a sequential step waits for everything before it. Parallel steps that stand together wait for what is before the
first of them, or for what they depend on where they say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from twinraven.flow import FlowDefinition, StepDefinition, invalid
from twinraven.foundation.canonical import JsonObject, content_hash
from twinraven.processes.expressions import (
    Variables,
    bind_condition,
    bind_inputs,
    bind_output,
    path_of,
    step_reference,
)
from twinraven.processes.model import Process, ProcessStep

MAX_STEPS: Final = 500
MAX_FLOW_STEPS: Final = 2_000
MAX_DEPTH: Final = 10
STOP: Final = "stop:"
PERSON: Final = "person:"

_STEP_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_LONGEST_FLOW_ID: Final = 64

ProcessLookup = Callable[[str], Process | None]


def compile_process(process: Process, find: ProcessLookup) -> FlowDefinition:
    """The flow of a process; InvalidDefinition names the place and the variable of what is wrong."""
    layout = _Layout(find)
    check_names(process)
    given = {name: "$" + path_of(("parameters", name)) for name in process.initial_context}
    laid = layout.lay(process, given, _Around(chain=(process.id,), depth_left=_depth(process)))
    return FlowDefinition(
        tool_id=process.id,
        description=process.description,
        parameters={
            "type": "object",
            "properties": {name: {} for name in process.initial_context},
            "required": list(process.initial_context),
            "additionalProperties": False,
        },
        steps=tuple(layout.steps),
        internal_wiring=layout.wiring,
        output=laid.output,
    )


def tools_of_flow(definition: FlowDefinition) -> tuple[str, ...]:
    """The tools that a process calls, sub-processes included; waits and stops are none."""
    named = (step.tool_id for step in definition.steps)
    return tuple(dict.fromkeys(name for name in named if not name.startswith((STOP, PERSON))))


def check_names(process: Process) -> None:
    """Refuse names that are missing, doubled or not fit to be referred to."""
    if not 1 <= len(process.steps) <= MAX_STEPS:
        raise invalid("steps", f"must be 1 to {MAX_STEPS} steps, not {len(process.steps)}")
    _depth(process)
    taken: dict[str, str] = {}
    named = [(f"initial_context[{number}]", name) for number, name in enumerate(process.initial_context)]
    named += [(f"steps[{number}].output.variable", step.output.variable) for number, step in enumerate(process.steps)]
    for where, name in named:
        if not _VARIABLE.fullmatch(name):
            problem = f"{name[:80]!r} is not a variable: letters, digits and _, no digit first, 64 at most"
            raise invalid(where, problem, variable=name)
        if name in taken:
            raise invalid(where, f"the variable {name!r} is given by {taken[name]} already", variable=name)
        taken[name] = where
    ids: set[str] = set()
    for number, step in enumerate(process.steps):
        where = f"steps[{number}].id"
        if not _STEP_ID.fullmatch(step.id) or "__" in step.id:
            raise invalid(where, "must begin with a letter, then letters, digits, _ and -, 48 at most, no __")
        if step.id in ids:
            raise invalid(where, f"{step.id!r} is the id of an earlier step")
        ids.add(step.id)
    _check_budgets(process)


def _check_budgets(process: Process) -> None:
    stated = [("token_budget", process.token_budget)]
    for number, step in enumerate(process.steps):
        stated.append((f"steps[{number}].output.token_budget", step.output.token_budget))
    for where, budget in stated:
        if budget is not None and budget < 1:
            raise invalid(where, "must be at least 1 token, or null")


def _depth(process: Process) -> int:
    if not 0 <= process.max_recursion_depth <= MAX_DEPTH:
        raise invalid("max_recursion_depth", f"must be 0 to {MAX_DEPTH}")
    return process.max_recursion_depth


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a process that is laid out."""

    chain: tuple[str, ...]
    depth_left: int
    prefix: str = ""
    where: str = ""
    after: tuple[str, ...] = ()
    condition: str | None = None
    is_optional: bool = False
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class _Laid:
    """What came of laying out a process or a step."""

    output: Any
    """The mapping of what it gives."""
    calls: tuple[str, ...]
    last: tuple[str, ...]
    """The ids that have to end before it has."""


@dataclass(slots=True)
class _Order:
    """Which steps of the flow come before the next one."""

    done: tuple[str, ...]
    beside: tuple[str, ...] = ()
    group: frozenset[str] = frozenset()
    """The parallel steps that stand together with the next one."""
    ends: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def before(self, step: ProcessStep) -> tuple[str, ...]:
        if step.execution.mode == "sequential":
            return (*self.done, *self.beside)
        if not step.depends_on:
            return self.done
        return tuple(dict.fromkeys(end for name in step.depends_on for end in self.ends[name]))

    def begin(self, step: ProcessStep) -> None:
        if step.execution.mode == "sequential":
            self.group = frozenset()

    def end(self, step: ProcessStep, last: tuple[str, ...]) -> None:
        self.ends[step.id] = last
        if step.execution.mode == "sequential":
            self.done, self.beside = last, ()
        else:
            self.beside += last
            self.group |= {step.id}


class _Layout:
    """Lays processes out as the steps of one flow."""

    def __init__(self, find: ProcessLookup) -> None:
        self._find = find
        self.steps: list[StepDefinition] = []
        self.wiring: dict[str, dict[str, Any]] = {}

    def lay(self, process: Process, given: JsonObject, around: _Around) -> _Laid:
        """Lay out a process whose context is these mappings."""
        order = _Order(around.after)
        filled: dict[str, tuple[ProcessStep, Any]] = {}
        calls: list[str] = []
        required: list[str] = []
        for number, step in enumerate(process.steps):
            where = f"{around.where}steps[{number}]"
            order.begin(step)
            _check_dependencies(process, number, order.group, where)
            seen = _visible(process, number, given, filled, order.group)
            gates = tuple(required) if around.is_optional and step.execution.mode == "sequential" else ()
            laid = self._step(step, seen, replace(around, where=where, after=order.before(step)), gates)
            calls += laid.calls
            last = laid.last
            if process.token_budget is not None:
                stop = self._stop_over(laid.calls[-1], calls, process.token_budget, f"process {process.id!r}", "total")
                last = (*last, stop)
            order.end(step, last)
            if step.output.required:
                required += laid.calls
            filled[step.output.variable] = (step, laid.output)
        variables = Variables({**given, **{name: value for name, (_, value) in filled.items()}})
        output = bind_output(process.output_template, variables, filled)
        return _Laid(output, tuple(calls), (*order.done, *order.beside))

    def _step(self, step: ProcessStep, seen: Variables, around: _Around, gates: tuple[str, ...]) -> _Laid:
        flow_id = _flow_id(around.prefix, step.id)
        inputs = bind_inputs(step.inputs, seen, f"{around.where}.inputs")
        condition = self._condition(step, flow_id, seen, around, gates)
        is_optional = around.is_optional or not step.output.required
        after = around.after
        if step.execution.interaction_mode == "manual":
            condition, after = self._ask(step, flow_id, inputs, condition, after, is_optional=is_optional)
        timeout = min((each for each in (step.execution.timeout, around.timeout) if each is not None), default=None)
        if step.process is not None:
            inner = _Around(
                chain=(*around.chain, step.process),
                depth_left=around.depth_left - 1,
                prefix=f"{flow_id}__",
                where=f"{around.where}.process.",
                after=after,
                condition=condition,
                is_optional=is_optional,
                timeout=timeout,
            )
            laid = self._sub_process(step.process, inputs, inner)
        else:
            on_failure = "skip" if is_optional else "abort"
            self._add(step.target, inputs, flow_id, after, condition, timeout=timeout, on_failure=on_failure)
            laid = _Laid(step_reference(flow_id, "output"), (flow_id,), (flow_id,))
        if step.output.token_budget is None:
            return laid
        what = f"step {step.id!r}"
        stop = self._stop_over(laid.calls[-1], laid.calls, step.output.token_budget, what, "tokens")
        return _Laid(laid.output, laid.calls, (*laid.last, stop))

    def _sub_process(self, name: str, inputs: JsonObject, around: _Around) -> _Laid:
        where = around.where.removesuffix(".")
        if around.depth_left < 0 or name in around.chain[:-1]:
            told = " → ".join(around.chain)
            raise invalid(where, f"goes deeper than max_recursion_depth allows: {told}", process=name)
        process = self._find(name)
        if process is None:
            raise invalid(where, f"there is no process {name!r}", process=name)
        if not process.enabled:
            raise invalid(where, f"the process {name!r} is disabled", process=name)
        for missing in [each for each in process.initial_context if each not in inputs]:
            problem = f"the process {name!r} needs {missing!r}, which nothing supplies"
            raise invalid(where.replace(".process", ".inputs"), problem, variable=missing)
        for excess in [each for each in inputs if each not in process.initial_context]:
            raise invalid(
                where.replace(".process", f".inputs.{excess[:80]}"), f"the process {name!r} has no such input"
            )
        depth_left = min(around.depth_left, process.max_recursion_depth)
        laid = self.lay(process, inputs, replace(around, depth_left=depth_left))
        if around.condition is None and not around.is_optional:
            return laid
        states = [step_reference(call, "status") for call in laid.calls]
        return _Laid({"$after": {"states": states, "of": laid.output}}, laid.calls, laid.last)

    def _condition(
        self, step: ProcessStep, flow_id: str, seen: Variables, around: _Around, gates: tuple[str, ...]
    ) -> str | None:
        """What has to hold: around it, of the steps that an optional sub-process needs, and of itself."""
        parts = [] if around.condition is None else [around.condition]
        parts += [f"{step_reference(gate, 'status')} != 'failed'" for gate in gates]
        if step.execution.condition is not None:
            where = f"{around.where}.execution.condition"
            parts.append(
                bind_condition(step.execution.condition, seen, where, lambda value: self._wire(flow_id, value))
            )
        return " and ".join(f"({part})" for part in parts) if len(parts) > 1 else next(iter(parts), None)

    def _ask(
        self,
        step: ProcessStep,
        flow_id: str,
        inputs: JsonObject,
        condition: str | None,
        after: tuple[str, ...],
        *,
        is_optional: bool,
    ) -> tuple[str, tuple[str, ...]]:
        """Put a wait for a person before a step; gives the condition of the call and what it waits for."""
        ask = _flow_id(f"{flow_id}__", "ask")
        question = {
            "question": f"Run {step.target!r} now?",
            "answer_schema": {"$literal": {"type": "boolean"}},
            "target": step.target,
            "inputs": inputs,
        }
        on_failure = "skip" if is_optional else "abort"
        self._add(f"{PERSON}{flow_id}", question, ask, after, condition, on_failure=on_failure)
        answer = step_reference(ask, "output")
        asked: tuple[str, ...] = (ask,)
        if not is_optional:
            refused = {"message": f"a person refused the step {step.id!r}"}
            stop = self._add(
                f"{STOP}STEP_REFUSED", refused, _flow_id(f"{flow_id}__", "refused"), asked, f"{answer} == false"
            )
            asked = (*asked, stop)
        return f"{answer} == true", asked

    def _stop_over(self, at: str, calls: Iterable[str], budget: int, what: str, name: str) -> str:
        """Put a stop behind calls that may take no more tokens than this together."""
        name = f"{name}{len(self.steps)}"
        self.wiring.setdefault(at, {})[name] = {"$tokens": [step_reference(call, "output") for call in calls]}
        counted = "$" + path_of(("internal_wiring", at, name))
        inputs = {
            "message": f"{what} took more than its budget of {budget} tokens",
            "tokens": counted,
            "budget": budget,
        }
        return self._add(
            f"{STOP}TOKEN_BUDGET_EXCEEDED", inputs, _flow_id(f"{at}__", name), (at,), f"{counted} > {budget}"
        )

    def _wire(self, flow_id: str, value: Any) -> str:
        named = self.wiring.setdefault(flow_id, {})
        name = f"c{len(named)}"
        named[name] = value
        return "$" + path_of(("internal_wiring", flow_id, name))

    def _add(
        self,
        tool_id: str,
        inputs: JsonObject,
        flow_id: str,
        after: tuple[str, ...],
        condition: str | None,
        *,
        timeout: int | None = None,
        on_failure: Any = "abort",
    ) -> str:
        if len(self.steps) >= MAX_FLOW_STEPS:
            raise invalid("steps", f"come to more than {MAX_FLOW_STEPS} with those of sub-processes")
        step = StepDefinition(
            step_index=len(self.steps),
            tool_id=tool_id,
            input_mapping=inputs,
            condition=condition,
            timeout_ms=timeout,
            id=flow_id,
            after=after,
            on_failure=on_failure,
        )
        self.steps.append(step)
        return flow_id


def _check_dependencies(process: Process, number: int, group: frozenset[str], where: str) -> None:
    step, places = process.steps[number], {other.id: index for index, other in enumerate(process.steps)}
    for position, name in enumerate(step.depends_on):
        at = f"{where}.depends_on[{position}]"
        if name not in places:
            raise invalid(at, f"there is no step {name[:80]!r}")
        if name == step.id:
            raise invalid(at, "a step cannot depend on itself")
        if places[name] > number:
            raise invalid(at, f"depends on {name!r}, which comes later; dependencies point to earlier steps")
        if name in group:
            raise invalid(at, f"depends on {name!r}, which runs in parallel with it")


def _visible(
    process: Process, number: int, given: JsonObject, filled: dict[str, tuple[ProcessStep, Any]], group: frozenset[str]
) -> Variables:
    """What a step can use: the context, and what the steps before it filled that do not run beside it."""
    hidden = {step.output.variable: f"which the later step {step.id!r} fills" for step in process.steps[number + 1 :]}
    hidden[process.steps[number].output.variable] = "which the step fills itself"
    known = dict(given)
    for name, (step, value) in filled.items():
        if step.id in group:
            hidden[name] = f"which the step {step.id!r} fills in parallel with it"
        else:
            known[name] = value
    return Variables(known, hidden)


def _flow_id(prefix: str, name: str) -> str:
    """The id of a step in the flow; one that would be too long begins with a hash of what is left out."""
    whole = f"{prefix}{name}"
    if len(whole) <= _LONGEST_FLOW_ID:
        return whole
    return f"s{content_hash(whole.encode())[-16:]}__{whole[-40:].lstrip('_-')}"
