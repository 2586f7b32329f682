"""Writes a tool's parameters as a Python signature: names, types and defaults.

A default that is a list or an object becomes a fresh one in each call. A parameter without a default that need not be
given is marked as left out, because a step whose input is just that parameter leaves it out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from twinraven.flow import FlowPlan
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.references import Reference
from twinraven.registry.exports.layout import Node, flat, identifier, lay_out, literal_of, prefixed

_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list[Any]",
    "object": "dict[str, Any]",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, under its own name and under the name it has in Python."""

    name: str
    python_name: str
    annotation: str
    kind: Literal["required", "defaulted", "optional"]
    default: Any
    description: str

    @property
    def is_fresh(self) -> bool:
        """Whether its default is made anew in each call."""
        return self.kind == "defaulted" and isinstance(self.default, (list, dict))

    @property
    def origin(self) -> str:
        """The definition's name of the parameter, where Python needs another."""
        return "" if self.name == self.python_name else f"{flat(literal_of(self.name))} in the definition"

    def written(self) -> Node:
        declared = f"{self.python_name}: {self.annotation}"
        if self.kind == "required":
            return declared
        default = literal_of(self.default) if self.kind == "defaulted" and not self.is_fresh else "LEFT_OUT"
        return prefixed(f"{declared} = ", default)

    def fresh_default(self, indent: int) -> list[str]:
        """Return the lines that make a list or object where none was given."""
        margin = " " * indent
        made = lay_out(prefixed(f"{self.python_name} = ", literal_of(self.default)), indent + 4)
        return [f"{margin}if {self.python_name} is LEFT_OUT:", *made]


def parameters_of(plan: FlowPlan, taken: set[str]) -> list[Parameter]:
    """Return those that the schema declares and those that steps ask for; `taken` grows by their names."""
    schema = plan.definition.parameters
    declared = _object(schema.get("properties"))
    required = cast("list[Any]", schema.get("required") or [])
    asked = [str(found.segments[1]) for found in _references(plan) if _names_parameter(found)]
    defaults = cast("JsonObject", plan.schema.fill({}))
    found: list[Parameter] = []
    for name in dict.fromkeys([*declared, *asked]):
        python_name = identifier(name, taken, otherwise="parameter")
        taken.add(python_name)
        kind = "defaulted" if name in defaults else "required" if name in required else "optional"
        member = _object(declared.get(name))
        text = member.get("description")
        description = text if isinstance(text, str) else ""
        found.append(Parameter(name, python_name, type_of(member), kind, defaults.get(name), description))
    return found


def signature(parameters: Sequence[Parameter]) -> list[Node]:
    """Required ones first; what may be left out is given by name."""
    first = [each.written() for each in parameters if each.kind == "required"]
    rest = [each.written() for each in parameters if each.kind != "required"]
    return ["call: Call", *first, *(["*", *rest] if rest else [])]


def argument_lines(parameters: Sequence[Parameter]) -> list[str]:
    """Return the docstring lines of parameters that the signature does not say."""
    lines: list[str] = []
    for each in parameters:
        words = "; ".join(filter(None, [each.description, each.origin]))
        lines += [f"{each.python_name}: {words}"] if words else []
    return lines


def fills_inside(schema: JsonObject) -> bool:
    """Return whether defaults are declared inside objects or lists, which a signature cannot fill in."""
    members = _object(schema.get("properties")).values()
    return any(_declares_default({**_object(member), "default": None}, top=True) for member in members)


def type_of(member: JsonObject) -> str:
    kind = member.get("type")
    if kind == "array":
        inner = _TYPES.get(str(_object(member.get("items")).get("type")), "Any")
        return f"list[{inner}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _declares_default(value: Any, *, top: bool = False) -> bool:
    if isinstance(value, list):
        return any(_declares_default(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        return False
    members = cast("JsonObject", value)
    if not top and "default" in members:
        return True
    return any(_declares_default(member) for member in members.values())


def _references(plan: FlowPlan) -> Iterator[Reference]:
    """Yield everything that a definition refers to."""
    for step in plan.steps:
        for each in (step, *step.fallback):
            yield from each.inputs.references
            yield from each.condition.references if each.condition else ()
            if each.for_each is not None:
                yield each.for_each
    for wired in plan.wiring:
        yield from wired.value.references
    for abort in plan.aborts:
        yield from abort.predicate.references
    if plan.output is not None:
        yield from plan.output.references


def _names_parameter(reference: Reference) -> bool:
    return reference.segments[0] == "parameters" and len(reference.segments) > 1


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
