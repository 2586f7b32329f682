"""A definition as a Python module that depends on nothing: one async function that makes the calls.

The function is async because the executor is: steps side by side, time limits and retries are what asyncio is for, and
`asyncio.run` is all that a synchronous program needs. A chain becomes a line a step; only a definition that branches,
falls back, goes on after failures or runs steps side by side brings a small `Run` with it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from twinraven.flow import FlowPlan, PlannedStep, SynthesizedTool, compile_flow
from twinraven.foundation.references import Reference, Segments
from twinraven.registry.exports.expressions import Expressions, Find
from twinraven.registry.exports.layout import (
    Group,
    Node,
    call_of,
    docstring,
    identifier,
    lay_out,
    object_of,
    prefixed,
    quoted,
)
from twinraven.registry.exports.parameters import (
    Parameter,
    argument_lines,
    fills_inside,
    parameters_of,
    signature,
)

Writes = Callable[[str], bool]

_LOCALS: Final = frozenset(
    {"call", "run", "item", "fallback", "Call", "Any", "Awaitable", "Callable", "Coroutine", "Sequence"}
)
_AT_ONCE: Final = 8


def python_name(definition: SynthesizedTool) -> str:
    """The name of the function, and of its module."""
    return identifier(definition.tool_id, _reserved(), otherwise="tool")


def python_module(definition: SynthesizedTool, *, writes: Writes) -> str:
    """The text of the module; the same definition gives the same text."""
    return _Module(compile_flow(definition), writes).text()


class _Module:
    def __init__(self, plan: FlowPlan, writes: Writes) -> None:
        self._plan = plan
        self._writes = writes
        self._name = python_name(plan.definition)
        self._is_plain = _is_plain(plan)
        taken = {*_reserved(), self._name}
        self._parameters = parameters_of(plan, _references(plan), taken)
        self._outputs: list[str] = []
        for step in plan.steps:
            last = step.tool_id.replace("__", ".").replace("/", ".").split(".")[-1]
            self._outputs.append(identifier(last, taken, otherwise="output"))
            taken.add(self._outputs[-1])
        self._used: set[int] = set()
        optional = {each.name: each.python_name for each in self._parameters if each.kind == "optional"}
        find: Find = self._find_plain if self._is_plain else self._find_in_run
        self._expressions = Expressions(find, optional)

    def text(self) -> str:
        function = self._function()
        source = "\n".join(function)
        pieces = _needed(source)
        imports = _imports("\n".join([source, *pieces]))
        head = [
            *docstring(self._about(), 0),
            "",
            *imports,
            "",
            "Call = Callable[[str, dict[str, Any]], Awaitable[Any]]",
        ]
        constants = [piece for piece in pieces if not piece.startswith(("def ", "async def ", "class "))]
        for piece in constants:
            head += ["", piece]
        rest = [piece for piece in pieces if piece not in constants]
        return "\n\n\n".join(["\n".join(head), source, *rest]) + "\n"

    def _about(self) -> str:
        tool = self._plan.definition
        origin = (
            f"{tool.tool_id}, version {tool.version} ({tool.status.value}), learned from chain {tool.source_chain_id}."
        )
        how = (
            "`call` makes a call of a tool: it is awaited with the tool's name and its arguments, gives the answer as "
            "JSON values, raises what failed, and leaves the arguments as they are."
        )
        notes = [origin, how]
        if fills_inside(tool.parameters):
            notes.append("Defaults inside objects and lists are not filled in here; the caller gives them.")
        return "\n\n".join(notes)

    def _function(self) -> list[str]:
        opening = f"async def {self._name}("
        head = lay_out(Group(opening, tuple(signature(self._parameters)), ") -> Any:"), 0)
        told = "\n\n".join([self._plan.definition.description, *argument_lines(self._parameters)])
        lines = [*head, *docstring(told, 4)]
        for each in self._parameters:
            lines += each.fresh_default(4) if each.is_fresh else []
        timeout = self._plan.definition.timeout_ms
        # What is returned is written first: it decides which outputs get a name.
        answer = lay_out(prefixed("return ", self._answer()), 4)
        limit = [] if timeout is None else [f"    async with asyncio.timeout({timeout / 1000}):"]
        indent = 4 if timeout is None else 8
        body = self._plain_body(indent) if self._is_plain else self._run_body(indent)
        return [*lines, *self._setting_up(), *limit, *body, *answer]

    def _answer(self) -> Node:
        output = self._plan.definition.output
        if output is not None:
            return self._expressions.value(output)
        if not self._is_plain:
            return "run.everything()"
        *earlier, last = range(len(self._outputs))
        self._used |= {*earlier, last}
        listed = tuple(
            object_of([("tool_id", quoted(self._plan.steps[each].tool_id)), ("output", self._outputs[each])])
            for each in earlier
        )
        return object_of([("result", self._outputs[last]), ("earlier", Group("[", listed, "]"))])

    def _plain_body(self, indent: int) -> list[str]:
        calls = [self._plain_step(step) for step in self._plan.steps]
        lines: list[str] = []
        for number, call in enumerate(calls):
            kept = f"{self._outputs[number]} = " if number in self._used else ""
            lines += lay_out(prefixed(f"{kept}await ", call), indent)
        return lines

    def _plain_step(self, step: PlannedStep) -> Node:
        definition = step.definition
        writes = self._writes(step.tool_id)
        arguments = self._expressions.inputs(definition.input_mapping)
        made: Node = call_of("call", quoted(step.tool_id), arguments)
        if definition.timeout_ms is not None:
            seconds = str(definition.timeout_ms / 1000)
            made = call_of("in_time", "call", quoted(step.tool_id), arguments, seconds, f"writes={writes}")
        if step.retry.max_retries:
            made = call_of("retried", prefixed("lambda: ", made), _waits(step), f"writes={writes}")
        if step.for_each is None:
            return made
        items = call_of("listed", self._expressions.reference(step.for_each.segments), str(definition.max_items))
        return call_of("for_each", items, prefixed("lambda item: ", made), f"at_once={1 if writes else _AT_ONCE}")

    def _setting_up(self) -> list[str]:
        if self._is_plain:
            return []
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

    def _run_body(self, indent: int) -> list[str]:
        return [f"{' ' * indent}await run.finish()"]

    def _step(self, number: int) -> Node:
        step = self._plan.steps[number]
        after = self._plan.graph.after[number]
        options = self._step_options(step, "lambda: ")
        if step.for_each is not None:
            items = self._expressions.reference(step.for_each.segments)
            options += [prefixed("each=lambda: ", items), f"most={step.definition.max_items}"]
        if step.retry.max_retries:
            options.append(prefixed("waits=", _waits(step)))
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
        return call_of("Step", quoted(step.tool_id), inputs, *self._step_options(step, "lambda item, fallback: "))

    def _step_options(self, step: PlannedStep, taker: str) -> list[Node]:
        options: list[Node] = [f"writes={self._writes(step.tool_id)}"]
        if step.condition is not None:
            options.append(f"when={taker}{self._expressions.condition(step.condition.text)}")
        if step.definition.timeout_ms is not None:
            options.append(f"timeout={step.definition.timeout_ms / 1000}")
        return options

    def _find_plain(self, segments: Segments) -> tuple[Node, Segments]:
        root, *rest = segments
        if root == "steps" and isinstance(rest[0], int):
            self._used.add(rest[0])
            return self._outputs[rest[0]], tuple(rest[2:])
        if root == "internal_wiring":
            wired = self._plan.definition.internal_wiring[str(rest[0])]
            if len(rest) == 1:
                return object_of((name, self._expressions.value(value)) for name, value in wired.items()), ()
            return self._expressions.value(wired[str(rest[1])]), tuple(rest[2:])
        return self._find_given(segments)

    def _find_in_run(self, segments: Segments) -> tuple[Node, Segments]:
        root, *rest = segments
        if root == "steps":
            return call_of("run.seen", str(rest[0])), tuple(rest[1:])
        return ("run.wired", tuple(rest)) if root == "internal_wiring" else self._find_given(segments)

    def _find_given(self, segments: Segments) -> tuple[Node, Segments]:
        root, *rest = segments
        if root != "parameters":
            return str(root), tuple(rest)
        if not rest:
            all_of_them = object_of((each.name, each.python_name) for each in self._parameters)
            return (call_of("given", all_of_them) if self._has_optional() else all_of_them), ()
        parameter = next(each for each in self._parameters if each.name == str(rest[0]))
        return _read(parameter, has_path=len(rest) > 1), tuple(rest[1:])

    def _has_optional(self) -> bool:
        return any(each.kind == "optional" for each in self._parameters)


def _read(parameter: Parameter, *, has_path: bool) -> Node:
    # A path into what was left out finds nothing by itself.
    if parameter.kind != "optional" or has_path:
        return parameter.python_name
    return call_of("known", parameter.python_name)


def _waits(step: PlannedStep) -> Node:
    seconds = (step.retry.delay_ms(retry) / 1000 for retry in range(1, step.retry.max_retries + 1))
    return Group("[", tuple(map(str, seconds)), "]")


def _numbers(numbers: frozenset[int]) -> str:
    return f"{{{', '.join(map(str, sorted(numbers)))}}}" if numbers else "set()"


def _is_plain(plan: FlowPlan) -> bool:
    """Whether a line a step says it all: each failure ends the function, and only outputs are looked at."""
    if not plan.graph.is_sequential or any(step.condition or step.fallback or step.skips for step in plan.steps):
        return False
    return all(each.segments[0] != "steps" or each.segments[2] == "output" for each in _references(plan))


def _references(plan: FlowPlan) -> Iterator[Reference]:
    """Everything that a definition refers to."""
    for step in plan.steps:
        for each in (step, *step.fallback):
            yield from each.inputs.references
            yield from each.condition.references if each.condition else ()
            if each.for_each is not None:
                yield each.for_each
    for wired in plan.wiring:
        yield from wired.value.references
    for abort in plan.aborts:
        # Where any failure ends the function, a reason to abort adds nothing but words.
        yield from (each for each in abort.predicate.references if each.segments[0] == "parameters")
    if plan.output is not None:
        yield from plan.output.references


@cache
def _runtime() -> dict[str, tuple[str, frozenset[str]]]:
    """The pieces of the run-time modules in their order: the text of each, and the names it uses."""
    pieces: dict[str, tuple[str, frozenset[str]]] = {}
    for name in ("runtime.py", "runtime_steps.py"):
        pieces |= _pieces(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return pieces


def _pieces(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    pieces: dict[str, tuple[str, frozenset[str]]] = {}
    lines = text.splitlines()
    for node in ast.parse(text).body:
        name = _defined(node)
        start, end = node.lineno - 1, node.end_lineno or node.lineno
        while lines[start - 1].startswith("#"):
            start -= 1
        if name and name != "Call":
            pieces[name] = ("\n".join(lines[start:end]), _names(node))
    return pieces


def _defined(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


def _names(tree: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _needed(source: str) -> list[str]:
    """The pieces that a text needs, and those that these need, in the order of the module."""
    pieces = _runtime()
    pending = list(_names(ast.parse(source)))
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name in pieces and name not in needed:
            needed.add(name)
            pending += pieces[name][1]
    return [text for name, (text, _) in pieces.items() if name in needed]


def _imports(source: str) -> list[str]:
    names = _names(ast.parse(source))
    modules = [f"import {name}" for name in ("asyncio", "json", "re") if name in names]
    kinds = ["Awaitable", "Callable", *(name for name in ("Coroutine", "Sequence") if name in names)]
    return [
        "from __future__ import annotations",
        "",
        *modules,
        f"from collections.abc import {', '.join(kinds)}",
        "from typing import Any",
    ]


def _reserved() -> frozenset[str]:
    return _LOCALS | {"asyncio", "json", "re", "str", "int", "float", "bool", "list", "dict", "set"} | _runtime().keys()
