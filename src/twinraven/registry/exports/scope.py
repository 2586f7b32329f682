"""The Python names of what a definition refers to, and the beginning of every reference in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from twinraven.flow import FlowPlan
from twinraven.foundation.references import Segments
from twinraven.registry.exports.layout import Node, call_of, identifier, object_of
from twinraven.registry.exports.parameters import Parameter, parameters_of
from twinraven.registry.exports.shapes import references

LOCALS: Final = frozenset(
    {
        "call",
        "run",
        "item",
        "fallback",
        "incomplete",
        "answer",
        "Call",
        "Any",
        "Awaitable",
        "Callable",
        "Sequence",
        "RuntimeError",
    }
)


@dataclass(frozen=True, slots=True)
class Names:
    """Names in one function."""

    parameters: list[Parameter]
    outputs: list[str] = field(default_factory=list[str])
    """By step."""

    @property
    def optional(self) -> dict[str, str]:
        """The names of parameters that may be left out, by parameter."""
        return {each.name: each.python_name for each in self.parameters if each.kind == "optional"}

    def find(self, segments: Segments) -> tuple[Node, Segments]:
        """What a reference begins with that is neither a step nor a named value."""
        root, *rest = segments
        if root != "parameters":
            return str(root), tuple(rest)
        if not rest:
            all_of_them = object_of((each.name, each.python_name) for each in self.parameters)
            return (call_of("given", all_of_them) if self.optional else all_of_them), ()
        parameter = next(each for each in self.parameters if each.name == str(rest[0]))
        return _read(parameter, has_path=len(rest) > 1), tuple(rest[1:])


def names_of(plan: FlowPlan, taken: set[str]) -> Names:
    """Names for a definition, none of them taken."""
    names = Names(parameters_of(plan, references(plan), taken))
    for step in plan.steps:
        last = step.tool_id.replace("__", ".").replace("/", ".").split(".")[-1]
        names.outputs.append(identifier(last, taken, otherwise="output"))
        taken.add(names.outputs[-1])
    return names


def _read(parameter: Parameter, *, has_path: bool) -> Node:
    # A path into what was left out finds nothing by itself.
    if parameter.kind != "optional" or has_path:
        return parameter.python_name
    return call_of("known", parameter.python_name)
