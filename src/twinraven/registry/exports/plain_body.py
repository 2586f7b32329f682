"""The inside of a function as a person would write it: a line a step, and the answer put together at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from twinraven.flow import FlowPlan, PlannedStep
from twinraven.foundation.references import Segments
from twinraven.registry.exports.expressions import Expressions
from twinraven.registry.exports.layout import Group, Node, call_of, lay_out, object_of, prefixed, quoted
from twinraven.registry.exports.scope import Names
from twinraven.registry.exports.shapes import PlainShape, Writes

_ANSWERED: Final = '{**answer, "incomplete": incomplete} if incomplete else answer'


class PlainBody:
    """Writes the lines of one function."""

    def __init__(self, plan: FlowPlan, shape: PlainShape, names: Names, writes: Writes) -> None:
        self._plan = plan
        self._shape = shape
        self._names = names
        self._writes = writes
        self._used: set[int] = set()
        self._expressions = Expressions(self._find, names.optional)

    @property
    def _may_be_incomplete(self) -> bool:
        """Whether it can answer although a step failed or was left out."""
        return bool(self._shape.skippable) or any(step.condition for step in self._plan.steps)

    def lines(self) -> list[str]:
        # What is needed later is written first: it decides which answers get a name.
        answer = list(self._answer())
        for others in self._shape.beside.values():
            self._used.update(others)
        made = [self._made(step) for step in self._plan.steps]
        timeout = self._plan.definition.timeout_ms
        indent = 4 if timeout is None else 8
        lines = ["    incomplete: list[Any] = []"] if self._keeps else []
        lines += [] if timeout is None else [f"    async with asyncio.timeout({timeout / 1000}):"]
        for numbers in self._shape.rounds:
            lines += self._round(numbers, made, indent)
        return [*lines, *answer]

    @property
    def _tells(self) -> bool:
        """Whether the answer says what is missing from it."""
        return self._plan.definition.output is None

    @property
    def _keeps(self) -> bool:
        """Whether failures that are passed over are kept."""
        return bool(self._shape.beside) or (self._may_be_incomplete and self._tells)

    def _answer(self) -> Iterator[str]:
        output = self._plan.definition.output
        if output is not None:
            yield from lay_out(prefixed("return ", self._expressions.value(output)), 4)
            return
        *earlier, last = map(self._output, range(len(self._plan.steps)))
        listed = tuple(
            object_of([("tool_id", quoted(step.tool_id)), ("output", name)])
            for step, name in zip(self._plan.steps, earlier, strict=False)
        )
        whole = object_of([("result", last), ("earlier", Group("[", listed, "]"))])
        if not self._may_be_incomplete:
            yield from lay_out(prefixed("return ", whole), 4)
            return
        yield from lay_out(prefixed("answer = ", whole), 4)
        yield f"    return {_ANSWERED}"

    def _round(self, numbers: Sequence[int], made: Sequence[Node], indent: int) -> list[str]:
        first, *others = numbers
        if not others:
            return self._line(first, made[first], indent)
        calls = call_of("await together", *(made[number] for number in numbers))
        kept = [self._names.outputs[number] if number in self._used else "_" for number in numbers]
        words = f"{', '.join(kept)} = " if self._used.intersection(numbers) else ""
        return [*lay_out(prefixed(words, calls), indent), *self._checks(numbers, indent)]

    def _checks(self, numbers: Sequence[int], indent: int) -> Iterator[str]:
        for number in self._shape.beside.keys() & numbers:
            missing = " or ".join(f"{self._output(other)} is None" for other in self._shape.beside[number])
            condition = missing if " or " not in missing else f"({missing})"
            yield f"{' ' * indent}if incomplete and {condition}:"
            yield f'{" " * (indent + 4)}raise RuntimeError(incomplete[-1]["error"]["message"])'

    def _line(self, number: int, made: Node, indent: int) -> list[str]:
        step, margin = self._plan.steps[number], " " * indent
        kept = f"{self._names.outputs[number]} = " if number in self._used else ""
        written = made if _is_list(made) else prefixed("await ", made)
        if step.condition is None:
            return lay_out(prefixed(kept, written), indent)
        lines = [f"{margin}{kept}None"] if kept else []
        lines.append(f"{margin}if {self._expressions.condition(step.condition.text)}:")
        lines += lay_out(prefixed(kept, written), indent + 4)
        if self._tells:
            left_out = object_of([("tool_id", quoted(step.tool_id)), ("status", '"skipped"'), ("error", "None")])
            lines += [f"{margin}else:", *lay_out(call_of("incomplete.append", left_out), indent + 4)]
        return lines

    def _made(self, step: PlannedStep) -> Node:
        """The expression that gives a step's answer; to be awaited, unless it is a list."""
        if step.condition is not None:
            self._expressions.condition(step.condition.text)
        number = step.definition.step_index
        call = self._call(step)
        if number not in self._shape.skippable:
            return call if step.for_each is None else self._each(step, call)
        told = "incomplete" if self._keeps else "[]"
        fatal = " or ".join(f"{self._output(other)} is None" for other in self._shape.skippable[number])
        options = [f"fatal={fatal}"] if fatal else []
        if step.for_each is None:
            return call_of("tried", quoted(step.tool_id), prefixed("lambda: ", call), told, *options)
        items = self._expressions.reference(step.for_each.segments)
        at_once = ["at_once=1"] if self._writes(step.tool_id) else []
        options = [f"most={step.definition.max_items}", *at_once, *options]
        return call_of("tried_each", quoted(step.tool_id), items, prefixed("lambda item: ", call), told, *options)

    def _each(self, step: PlannedStep, call: Node) -> Node:
        source = self._expressions.reference(step.for_each.segments if step.for_each else ())
        items = call_of("listed", source, str(step.definition.max_items))
        if not self._writes(step.tool_id):
            return call_of("for_each", items, prefixed("lambda item: ", call))
        if step.retry.max_retries:
            return call_of("for_each", items, prefixed("lambda item: ", call), "at_once=1")
        return Group("[", (prefixed("await ", call), prefixed("for item in ", items)), "]", "")

    def _call(self, step: PlannedStep) -> Node:
        definition = step.definition
        writes = self._writes(step.tool_id)
        arguments = self._expressions.inputs(definition.input_mapping)
        made: Node = call_of("call", quoted(step.tool_id), arguments)
        if definition.timeout_ms is not None:
            seconds = str(definition.timeout_ms / 1000)
            made = call_of("in_time", "call", quoted(step.tool_id), arguments, seconds, f"writes={writes}")
        if step.retry.max_retries:
            made = call_of("retried", prefixed("lambda: ", made), waits(step), f"writes={writes}")
        return made

    def _output(self, number: int) -> str:
        self._used.add(number)
        return self._names.outputs[number]

    def _find(self, segments: Segments) -> tuple[Node, Segments]:
        root, *rest = segments
        if root == "steps" and isinstance(rest[0], int):
            return self._output(rest[0]), tuple(rest[2:])
        if root == "internal_wiring":
            wired = self._plan.definition.internal_wiring[str(rest[0])]
            if len(rest) == 1:
                return object_of((name, self._expressions.value(value)) for name, value in wired.items()), ()
            return self._expressions.value(wired[str(rest[1])]), tuple(rest[2:])
        return self._names.find(segments)


def waits(step: PlannedStep) -> Node:
    """The seconds before each retry."""
    seconds = (step.retry.delay_ms(retry) / 1000 for retry in range(1, step.retry.max_retries + 1))
    return Group("[", tuple(map(str, seconds)), "]")


def _is_list(node: Node) -> bool:
    return isinstance(node, Group) and node.opening == "["
