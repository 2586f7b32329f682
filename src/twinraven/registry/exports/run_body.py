"""The inside of a function that lists its steps and lets a `Run` carry them out."""

from __future__ import annotations

from twinraven.flow import FlowPlan, PlannedStep
from twinraven.foundation.references import Segments
from twinraven.registry.exports.expressions import Expressions
from twinraven.registry.exports.layout import Group, Node, call_of, lay_out, prefixed, quoted
from twinraven.registry.exports.plain_body import waits
from twinraven.registry.exports.scope import Names
from twinraven.registry.exports.shapes import Writes


class RunBody:
    """Writes the lines of one function."""

    def __init__(self, plan: FlowPlan, names: Names, writes: Writes) -> None:
        self._plan = plan
        self._names = names
        self._writes = writes
        self._expressions = Expressions(self._find, names.optional)

    def lines(self) -> list[str]:
        timeout = self._plan.definition.timeout_ms
        limit = [] if timeout is None else [f"    async with asyncio.timeout({timeout / 1000}):"]
        finish = f"{' ' * (4 if timeout is None else 8)}await run.finish()"
        output = self._plan.definition.output
        answer = "run.everything()" if output is None else self._expressions.value(output)
        return [*self._setting_up(), *limit, finish, *lay_out(prefixed("return ", answer), 4)]

    def _setting_up(self) -> list[str]:
        plan, expressions = self._plan, self._expressions
        steps = Group("run.steps = [", tuple(self._step(number) for number in range(len(plan.steps))), "]")
        lines = ["    run = Run(call)", *lay_out(steps, 4)]
        wires = tuple(
            Group(
                "(",
                (
                    quoted(wired.key),
                    quoted(wired.name),
                    _numbers(wired.needs),
                    prefixed("lambda: ", expressions.value(plan.definition.internal_wiring[wired.key][wired.name])),
                ),
                ")",
            )
            for wired in plan.wiring
        )
        if wires:
            lines += lay_out(Group("run.wires = [", wires, "]"), 4)
        aborts = tuple(
            f"({_numbers(abort.asks_output_of)}, lambda: {expressions.condition(abort.predicate.text)})"
            for abort in plan.aborts
        )
        return [*lines, *lay_out(Group("run.aborts = [", aborts, "]"), 4)] if aborts else lines

    def _step(self, number: int) -> Node:
        step = self._plan.steps[number]
        after = self._plan.graph.after[number]
        options = self._options(step, "lambda: ")
        if step.for_each is not None:
            items = self._expressions.reference(step.for_each.segments)
            options += [prefixed("each=lambda: ", items), f"most={step.definition.max_items}"]
        if step.retry.max_retries:
            options.append(prefixed("waits=", waits(step)))
        if step.fallback:
            others = tuple(self._fallback(other) for other in step.fallback)
            options.append(Group("fallback=[", others, "]"))
        if step.skips:
            options.append("skips=True")
        if len(after) != number:
            options.append(f"after={_numbers(after)}")
        inputs = self._expressions.inputs(step.definition.input_mapping)
        taker = "lambda item: " if step.for_each is not None else "lambda _: "
        return call_of("Step", quoted(step.tool_id), prefixed(taker, inputs), *options)

    def _fallback(self, step: PlannedStep) -> Node:
        inputs = prefixed("lambda item, fallback: ", self._expressions.inputs(step.definition.input_mapping))
        return call_of("Step", quoted(step.tool_id), inputs, *self._options(step, "lambda item, fallback: "))

    def _options(self, step: PlannedStep, taker: str) -> list[Node]:
        options: list[Node] = [f"writes={self._writes(step.tool_id)}"]
        if step.condition is not None:
            options.append(f"when={taker}{self._expressions.condition(step.condition.text)}")
        if step.definition.timeout_ms is not None:
            options.append(f"timeout={step.definition.timeout_ms / 1000}")
        return options

    def _find(self, segments: Segments) -> tuple[Node, Segments]:
        root, *rest = segments
        if root == "steps":
            return call_of("run.seen", str(rest[0])), tuple(rest[1:])
        return ("run.wired", tuple(rest)) if root == "internal_wiring" else self._names.find(segments)


def _numbers(numbers: frozenset[int]) -> str:
    return f"{{{', '.join(map(str, sorted(numbers)))}}}" if numbers else "set()"
