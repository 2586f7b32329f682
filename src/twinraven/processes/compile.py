"""Compiles a process to a flow: the order of its steps, their conditions, budgets, people and sub-processes.

A step becomes one call. A manual step gets a wait for a person before it, a token budget a stop after it. A sub-process
is laid out in place, with its steps under the id of the step that calls it, so that a run of any depth is one flow and
a step that calls a process holds no worker. Which version of a sub-process that is, is decided when the flow is made.

Order: a sequential step waits for everything before it. Parallel steps that stand together wait for what is before the
first of them, or for what they depend on where they say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from twinraven.flow import PART_OF, FlowDefinition, StepDefinition, invalid
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
from twinraven.processes.names import check_names

MAX_FLOW_STEPS: Final = 2_000
STOP: Final = "stop:"
PERSON: Final = "person:"

_LONGEST_FLOW_ID: Final = 64
_DEEPEST_MAPPING: Final = 12
"""What nests deeper gets a name of its own, because a definition is refused that nests too deep."""

ProcessLookup = Callable[[str], Process | None]


def compile_process(process: Process, find: ProcessLookup) -> FlowDefinition:
    """Compile the flow of a process; InvalidDefinition names the place and the variable of what is wrong."""
    layout = _Layout(find)
    check_names(process)
    given = {name: "$" + path_of(("parameters", name)) for name in process.initial_context}
    laid = layout.lay(process, given, _Around(chain=(process.id,), depth_left=process.max_recursion_depth))
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
    """Return the tools that a process calls, sub-processes included; waits and stops are none."""
    named = (step.tool_id for step in definition.steps)
    return tuple(dict.fromkeys(name for name in named if not name.startswith((STOP, PERSON))))


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a process that is laid out."""

    chain: tuple[str, ...]
    depth_left: int
    guards: tuple[bool, ...] = (False,)
    """By process of the chain: whether it is called under a condition."""
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
            guarded = step.execution.condition is not None or step.execution.interaction_mode == "manual"
            inner = _Around(
                chain=(*around.chain, step.process),
                depth_left=around.depth_left - 1,
                guards=(*around.guards, guarded),
                prefix=f"{flow_id}{PART_OF}",
                where=f"{around.where}.process.",
                after=after,
                condition=condition,
                is_optional=is_optional,
                timeout=timeout,
            )
            laid = self._sub_process(step.process, self._named(inputs), inner)
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
        if around.depth_left < 0 or _never_ends(around):
            told = f"goes deeper than max_recursion_depth allows: {' → '.join(around.chain)}"
            if name not in around.chain[:-1] or _never_ends(around):
                raise invalid(where, told, process=name)
            return self._stop_here(told, around)
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
        output = laid.output
        if around.condition is not None or around.is_optional:
            states = [step_reference(call, "status") for call in laid.calls]
            output = {"$after": {"states": states, "of": output}}
        return _Laid(self._named({"output": output})["output"], laid.calls, laid.last)

    def _stop_here(self, told: str, around: _Around) -> _Laid:
        """End a run that goes deeper than it may, where whether it does shows only in the run."""
        flow_id = _flow_id(around.prefix, "too-deep")
        inputs = {"message": f"the process {told}"}
        self._add(f"{STOP}RECURSION_LIMIT_EXCEEDED", inputs, flow_id, around.after, around.condition)
        return _Laid(None, (flow_id,), (flow_id,))

    def _named(self, values: JsonObject) -> JsonObject:
        """Return the values, those that nest deep under a name of the wiring.

        Before the first step there is no wiring.
        """
        if not self.steps:
            return values
        at = self.steps[-1].id or ""
        return {
            name: self._wire(at, value) if _nests_deeper(value, _DEEPEST_MAPPING) else value
            for name, value in values.items()
        }

    def _condition(
        self, step: ProcessStep, flow_id: str, seen: Variables, around: _Around, gates: tuple[str, ...]
    ) -> str | None:
        """Return what has to hold: around it, of the steps that an optional sub-process needs, and of itself."""
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
        ask = _flow_id(f"{flow_id}{PART_OF}", "ask")
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
                f"{STOP}STEP_REFUSED", refused, _flow_id(f"{flow_id}{PART_OF}", "refused"), asked, f"{answer} == false"
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
            f"{STOP}TOKEN_BUDGET_EXCEEDED", inputs, _flow_id(f"{at}{PART_OF}", name), (at,), f"{counted} > {budget}"
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


def _never_ends(around: _Around) -> bool:
    """Return whether the last process of the chain calls itself, through others or not, whatever happens."""
    name, earlier = around.chain[-1], around.chain[:-1]
    if name not in earlier:
        return False
    begin = len(earlier) - 1 - earlier[::-1].index(name)
    return not any(around.guards[begin + 1 :])


def _nests_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    members = cast("JsonObject", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return levels == 0 or any(_nests_deeper(member, levels - 1) for member in members)


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
    """Return what a step can use: the context, and what the steps before it filled that do not run beside it."""
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
    """Return the id of a step in the flow; one that would be too long begins with a hash of what is left out."""
    whole = f"{prefix}{name}"
    if len(whole) <= _LONGEST_FLOW_ID:
        return whole
    return f"s{content_hash(whole.encode())[-16:]}{PART_OF}{whole[-40:].lstrip('_-')}"
