"""Compiles a definition into a plan: every expression parsed, every reference known to point backwards.

Whatever executes a definition compiles it first, so one that contradicts itself is refused with the place named before
any tool is called. What a definition asks of the tools it names is checked in `validation`.

A reference may name
    $.parameters…            what the caller gave
    $.steps[i].output…       an earlier step's result, and its .input, .status and .error (code, message)
    $.steps.load.output…     the same, by the step's id
    $.internal_wiring.i.x…   a named result after step i; in the wiring itself, one that stands before it
    $.item…                  in a for_each step, the element
    $.fallback[j].output…    in a fallback step, what an earlier one of the same sequence gave
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twinraven.flow.definition import MAX_BACKOFF_MS, FlowDefinition, RetryPolicy, StepDefinition
from twinraven.flow.fields import as_index, invalid
from twinraven.flow.graph import StepGraph, build_graph
from twinraven.flow.mapping import (
    MappedInputs,
    MappedValue,
    compile_inputs,
    compile_predicate,
    compile_reference,
    compile_value,
)
from twinraven.flow.step_run import StepRun
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.foundation.references import Reference

if TYPE_CHECKING:
    from twinraven.foundation.predicates import Predicate

MAX_STEPS: Final = 64
MAX_FALLBACKS: Final = 16
MAX_ABORT_CONDITIONS: Final = 64
MAX_RETRIES: Final = 20
MAX_ITEMS: Final = 1_000
MAX_TIMEOUT_MS: Final = 86_400_000
CONCURRENCY: Final = 8
"""How many elements of a list are worked on at once."""

DEFAULT_RETRY: Final = RetryPolicy(max_retries=1, backoff_strategy="fixed", backoff_ms=500)
"""What `default_behavior: retry` means."""
_NO_RETRY: Final = RetryPolicy(max_retries=0)
_STEP_MS: Final = 30_000
_LONGEST_MS: Final = 3_600_000
_SLACK_MS: Final = 1_000
"""Between the steps' own times and the whole's: on a busy machine attempts end a little late, and none must be lost."""
_STEP_PARTS: Final = frozenset({"input", "output", "status", "error"})

_STEP_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

_NOTHING: frozenset[int] = frozenset()


# What a run reads of a plan it reads from slots: the members of a tuple take three times as long.
@dataclass(slots=True)
class PlannedStep:
    """A step with everything parsed that its run needs."""

    definition: StepDefinition
    tool_id: str
    inputs: MappedInputs
    condition: Predicate | None
    for_each: Reference | None
    needs: frozenset[int]
    timeout_ms: int | None = None
    """Its own time, where it does not have that of the whole."""
    retry: RetryPolicy = _NO_RETRY
    fallback: tuple[PlannedStep, ...] = ()
    skips: bool = False
    """Whether the composite goes on without it when it fails."""
    names: tuple[str, ...] = ()
    """The names by which references see it: its index, and its id where it has one."""
    first: StepRun | None = None
    """The first attempt of a step that is no for_each step, made once for all runs."""


@dataclass(slots=True)
class WiredField:
    """One named value of `internal_wiring`."""

    key: str
    name: str
    value: MappedValue
    needs: frozenset[int]


class AbortCondition(NamedTuple):
    """A predicate, and the steps whose output it asks about."""

    predicate: Predicate
    asks_output_of: frozenset[int]


@dataclass(slots=True)
class FlowPlan:
    """A definition that can be run."""

    definition: FlowDefinition
    schema: Schema
    steps: tuple[PlannedStep, ...]
    graph: StepGraph
    wiring: tuple[WiredField, ...]
    wired_first: tuple[WiredField, ...]
    """The named values that need no step."""
    wired_after: tuple[tuple[WiredField, ...], ...]
    """By step: the named values that change when it ends."""
    aborts: tuple[AbortCondition, ...]
    output: MappedValue | None
    budget_ms: int
    """The time for the whole: as defined, or what the steps may take together."""

    def accept(self, parameters: JsonObject) -> JsonObject:
        """Return a caller's parameters with defaults filled in; raises InvalidInput unless the schema takes them."""
        given = self.schema.fill(parameters)
        self.schema.check(given, field="parameters")
        return given


def compile_flow(definition: FlowDefinition, *, max_steps: int = MAX_STEPS) -> FlowPlan:
    """Compile the plan of a definition; InvalidDefinition names the place of what is wrong."""
    compiler = _PlanCompiler(definition, max_steps)
    steps = tuple(compiler.step(number, step) for number, step in enumerate(definition.steps))
    graph = build_graph(definition.steps, [step.needs for step in steps], compiler.ids)
    return FlowPlan(
        definition=definition,
        schema=_parameters_schema(definition),
        steps=steps,
        graph=graph,
        wiring=compiler.wiring,
        wired_first=tuple(wired for wired in compiler.wiring if not wired.needs),
        wired_after=_wired_after(compiler.wiring, len(steps)),
        aborts=compiler.aborts(),
        output=compiler.output(),
        budget_ms=definition.timeout_ms or min(sum(map(_longest_ms, steps)) + _SLACK_MS, _LONGEST_MS),
    )


def _wired_after(wiring: Iterable[WiredField], steps: int) -> tuple[tuple[WiredField, ...], ...]:
    after: list[list[WiredField]] = [[] for _ in range(steps)]
    for wired in wiring:
        for number in wired.needs:
            after[number].append(wired)
    return tuple(map(tuple, after))


class _Place(NamedTuple):
    """Where an expression stands, and what it may refer to."""

    where: str
    before: int
    """Steps below this index."""
    has_item: bool = False
    fallbacks: int = 0


class _PlanCompiler:
    def __init__(self, definition: FlowDefinition, max_steps: int) -> None:
        count = len(definition.steps)
        if not 1 <= count <= max_steps:
            raise invalid("steps", f"must be 1 to {max_steps} steps, not {count}")
        check_timeout(definition.timeout_ms, "timeout_ms")
        self._definition = definition
        self._count = count
        self.ids = _ids(definition.steps)
        self._strategy = definition.error_strategy
        self._check_strategy()
        self._wired: dict[str, dict[str, frozenset[int]]] = {}
        self.wiring = tuple(self._wire())

    def step(self, number: int, step: StepDefinition) -> PlannedStep:
        where = f"steps[{number}]"
        if step.step_index != number:
            raise invalid(f"{where}.step_index", f"is {step.step_index}; indices count from 0", step_index=number)
        planned = self._planned(step, _Place(where, before=number, has_item=step.for_each is not None))
        fallback = tuple(self._fallbacks(number, step))
        covered = number in self._strategy.retry_policy or bool(fallback)
        behavior = step.on_failure or ("abort" if covered else self._strategy.default_behavior)
        default = DEFAULT_RETRY if behavior == "retry" else _NO_RETRY
        if fallback:
            # A fallback may look at the failure it stands in for, which is no need of the step itself.
            planned.needs = planned.needs.union(*(other.needs for other in fallback)) - {number}
        planned.retry = self._strategy.retry_policy.get(number, default)
        planned.fallback = fallback
        planned.skips = behavior == "skip"
        planned.names = (str(number),) if step.id is None else (str(number), step.id)
        planned.first = StepRun(number, id=step.id) if step.for_each is None else None
        return planned

    def aborts(self) -> tuple[AbortCondition, ...]:
        conditions: list[AbortCondition] = []
        for number, text in enumerate(self._strategy.abort_conditions):
            place = _Place(f"error_strategy.abort_conditions[{number}]", before=self._count)
            predicate = compile_predicate(text, place.where)
            self._needs(predicate.references, place)
            asked = (self._outputs_asked(reference) for reference in predicate.references)
            conditions.append(AbortCondition(predicate, _NOTHING.union(*asked)))
        return tuple(conditions)

    def output(self) -> MappedValue | None:
        if self._definition.output is None:
            return None
        mapped = compile_value(self._definition.output, "output")
        self._needs(mapped.references, _Place("output", before=self._count))
        return mapped

    def _planned(self, step: StepDefinition, place: _Place) -> PlannedStep:
        where = place.where
        if not step.tool_id or len(step.tool_id) > 256 or not step.tool_id.isprintable():
            raise invalid(f"{where}.tool_id", "must have 1 to 256 printable characters")
        check_timeout(step.timeout_ms, f"{where}.timeout_ms")
        if not 1 <= step.max_items <= MAX_ITEMS:
            raise invalid(f"{where}.max_items", f"must be 1 to {MAX_ITEMS}")
        inputs = compile_inputs(step.input_mapping, f"{where}.input_mapping")
        needs = self._needs(inputs.references, place._replace(where=f"{where}.input_mapping"))
        condition = for_each = None
        if step.condition is not None:
            outside = place._replace(where=f"{where}.condition", has_item=place.has_item and step.for_each is None)
            condition = compile_predicate(step.condition, outside.where)
            needs |= self._needs(condition.references, outside)
        if step.for_each is not None:
            for_each = compile_reference(step.for_each, f"{where}.for_each")
            needs |= self._needs([for_each], place._replace(where=f"{where}.for_each", has_item=False))
        return PlannedStep(step, step.tool_id, inputs, condition, for_each, needs, step.timeout_ms)

    def _fallbacks(self, number: int, step: StepDefinition) -> Iterable[PlannedStep]:
        sequence = self._strategy.fallback_steps.get(number, ())
        if len(sequence) > MAX_FALLBACKS:
            raise invalid(f"error_strategy.fallback_steps.{number}", f"has more than {MAX_FALLBACKS} steps")
        for position, other in enumerate(sequence):
            where = f"error_strategy.fallback_steps.{number}[{position}]"
            if other.for_each is not None or other.parallelizable_with or other.after is not None:
                problem = "fallback steps run one after another; no for_each, no parallelizable_with, no after"
                raise invalid(where, problem)
            if other.id is not None or other.on_failure is not None:
                raise invalid(where, "fallback steps have no id and no on_failure of their own")
            has_item = step.for_each is not None
            yield self._planned(other, _Place(where, before=number + 1, has_item=has_item, fallbacks=position))

    def _check_strategy(self) -> None:
        strategy = self._strategy
        for name, indices in (("retry_policy", strategy.retry_policy), ("fallback_steps", strategy.fallback_steps)):
            for index in indices:
                if not 0 <= index < self._count:
                    raise invalid(f"error_strategy.{name}", f"there is no step {index}")
        for index, policy in strategy.retry_policy.items():
            where = f"error_strategy.retry_policy.{index}"
            if not 0 <= policy.max_retries <= MAX_RETRIES:
                raise invalid(f"{where}.max_retries", f"must be 0 to {MAX_RETRIES}")
            if not 0 <= policy.backoff_ms <= MAX_BACKOFF_MS:
                raise invalid(f"{where}.backoff_ms", f"must be 0 to {MAX_BACKOFF_MS}")
        if len(strategy.abort_conditions) > MAX_ABORT_CONDITIONS:
            raise invalid("error_strategy.abort_conditions", f"are more than {MAX_ABORT_CONDITIONS}")

    def _wire(self) -> Iterable[WiredField]:
        for key, members in self._definition.internal_wiring.items():
            index = self.ids[key] if key in self.ids else as_index(key, "internal_wiring")
            if index >= self._count:
                raise invalid(f"internal_wiring.{key}", f"there is no step {index}")
            for name, value in members.items():
                place = _Place(f"internal_wiring.{key}.{name[:80]}", before=index + 1)
                mapped = compile_value(value, place.where)
                needs = self._needs(mapped.references, place)
                self._wired.setdefault(key, {})[name] = needs
                yield WiredField(key, name, mapped, needs)

    def _needs(self, references: Sequence[Reference], place: _Place) -> frozenset[int]:
        """Return the steps that these references wait for; refuses those that cannot be answered where they stand."""
        return _NOTHING.union(*(self._need(reference, place) for reference in references))

    def _need(self, reference: Reference, place: _Place) -> frozenset[int]:
        root, *rest = reference.segments
        if root == "parameters" or (root == "item" and place.has_item):
            return _NOTHING
        if root == "steps":
            return self._need_step(reference, rest, place)
        if root == "internal_wiring":
            return self._need_wiring(reference, rest, place)
        if root == "fallback" and place.fallbacks:
            if not rest or not isinstance(rest[0], int) or rest[0] >= place.fallbacks:
                raise invalid(place.where, f"{reference.text} does not name an earlier fallback step")
            return _NOTHING
        hint = "; $.item exists only inside a for_each step" if root == "item" else ""
        raise invalid(place.where, f"{reference.text} points at nothing that exists here{hint}")

    def _need_step(self, reference: Reference, rest: list[str | int], place: _Place) -> frozenset[int]:
        index = self._index(rest[0]) if rest else None
        if index is None or len(rest) < 2 or rest[1] not in _STEP_PARTS:
            raise invalid(place.where, f"{reference.text} must read $.steps[i].output (or .input, .status, .error)")
        if index >= self._count:
            raise invalid(place.where, f"{reference.text}: there is no step {index}")
        if index >= place.before:
            raise invalid(place.where, f"{reference.text} uses a step that has not run by then")
        return frozenset({index})

    def _index(self, name: str | int) -> int | None:
        """Return the step that a reference names, by its index or its id."""
        return name if isinstance(name, int) else self.ids.get(name)

    def _need_wiring(self, reference: Reference, rest: list[str | int], place: _Place) -> frozenset[int]:
        key, *names = map(str, rest) if rest else ("",)
        wired = self._wired.get(key, {})
        found = [wired[names[0]]] if names and names[0] in wired else [] if names else list(wired.values())
        if not found:
            raise invalid(place.where, f"{reference.text} is not in internal_wiring")
        needs = _NOTHING.union(*found)
        if any(index >= place.before for index in needs):
            raise invalid(place.where, f"{reference.text} uses a step that has not run by then")
        return needs

    def _outputs_asked(self, reference: Reference) -> frozenset[int]:
        root, *rest = reference.segments
        if root == "internal_wiring":
            return self._need_wiring(reference, rest, _Place("", before=self._count))
        index = self._index(rest[0]) if root == "steps" and rest[1] == "output" else None
        return _NOTHING if index is None else frozenset({index})


def _ids(steps: Sequence[StepDefinition]) -> dict[str, int]:
    """Return each step's index by its id, which for a step without one is the index."""
    ids: dict[str, int] = {}
    for number, step in enumerate(steps):
        where = f"steps[{number}].id"
        if step.id is not None and not _STEP_ID.fullmatch(step.id):
            raise invalid(where, "must begin with a letter or _, then letters, digits, _ and -, 64 at most")
        if step.id in ids:
            raise invalid(where, f"{step.id!r} is already the id of step {ids[step.id]}")
        ids[str(number) if step.id is None else step.id] = number
    return ids


def check_timeout(timeout_ms: int | None, where: str) -> None:
    if timeout_ms is not None and not 0 < timeout_ms <= MAX_TIMEOUT_MS:
        raise invalid(where, f"must be 1 to {MAX_TIMEOUT_MS} milliseconds, or null")


def _parameters_schema(definition: FlowDefinition) -> Schema:
    kind: Any = definition.parameters.get("type")
    if kind != "object":
        raise invalid("parameters", 'must be a JSON Schema with "type": "object"')
    try:
        return compile_schema(definition.parameters)
    except InvalidInput as error:
        raise invalid("parameters", error.message) from None


def _longest_ms(step: PlannedStep) -> int:
    """Return what a step can take at most: all its attempts, their waits, its fallback, for every element."""
    policy = step.retry
    waits = sum(policy.delay_ms(retry) for retry in range(1, policy.max_retries + 1))
    once = (step.definition.timeout_ms or _STEP_MS) * (policy.max_retries + 1) + waits
    once += sum(other.definition.timeout_ms or _STEP_MS for other in step.fallback)
    rounds = 1 if step.for_each is None else -(-step.definition.max_items // CONCURRENCY)
    return once * rounds
