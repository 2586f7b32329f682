"""Binds `{step.x}` expressions and Handlebars templates of a process to the mapping language of flows.

A process has one namespace: the variables that its caller gives and those that its steps fill. Here each is a mapping
of `flow`: a reference where it can be one, an operator where a sub-process computes it. A variable that is not there is
named with the place that uses it, and with the reason where it is filled too late.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from twinraven.flow import invalid, literal
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidDefinition, InvalidExpression
from twinraven.foundation.predicates import parse_predicate
from twinraven.foundation.references import (
    Reference,
    parse_template,
    read_quoted_text,
    read_reference,
)
from twinraven.foundation.templates import parse_handlebars

MAX_OUTPUT_TEMPLATE: Final = 50_000

_OPERATORS: Final[dict[str, tuple[str, ...] | None]] = {
    "$literal": None,
    "$string": None,
    "$integer": None,
    "$join": None,
    "$affix": ("of",),
    "$part": ("of",),
    "$read": ("of",),
    "$at": ("of",),
    "$map": ("over",),
    "$where": ("of", "equals", "among"),
}
"""The operators that inputs may use, and which of their members are values; None: what they are given is one."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class Variables:
    """The variables in scope at one place of a process."""

    known: dict[str, Any]
    hidden: dict[str, str] = field(default_factory=dict[str, str])
    """Why a variable that the process has cannot be used here."""

    def value(self, reference: Reference, where: str) -> Any:
        """Return the mapping for one `{step.x}`."""
        head, *rest = reference.segments
        if head != "step":
            raise invalid(where, f"{reference.text} must read {{step.variable}}")
        name = str(rest[0])
        if name not in self.known:
            raise self.missing(name, where)
        return deeper(self.known[name], rest[1:])

    def missing(self, name: str, where: str) -> InvalidDefinition:
        why = self.hidden.get(name, "which neither initial_context nor an earlier step gives")
        return invalid(where, f"uses the variable {name[:80]!r}, {why}", variable=name)


def deeper(value: Any, segments: Iterable[str | int]) -> Any:
    """Follow a path into a mapped value."""
    path = path_of(segments)
    if not path:
        return value
    if isinstance(value, str) and value.startswith("$."):
        return value + path
    return {"$at": {"of": value, "path": f"${path}"}}


def path_of(segments: Iterable[str | int]) -> str:
    """Write the steps of a reference."""
    return "".join(f"[{step}]" if isinstance(step, int) else _member(step) for step in segments)


def step_reference(step_id: str, part: str) -> str:
    """Return the reference to what a step of the flow came to: its output, its status."""
    return "$" + path_of(("steps", step_id, part))


def bind_inputs(inputs: JsonObject, variables: Variables, where: str) -> JsonObject:
    """Return the input mapping of a step."""
    return {name: bind_value(value, variables, f"{where}.{name[:80]}") for name, value in inputs.items()}


def bind_value(value: Any, variables: Variables, where: str) -> Any:
    """Return one input: text with `{step.x}` in it, objects and lists of such, or a literal."""
    if isinstance(value, str):
        return _bind_text(value, variables, where)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [bind_value(item, variables, f"{where}[{number}]") for number, item in enumerate(items)]
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        if any(name.startswith("$") for name in members):
            return _bind_operator(members, variables, where)
        return bind_inputs(members, variables, where)
    return value


def _bind_operator(members: JsonObject, variables: Variables, where: str) -> JsonObject:
    """Return an operator of the mapping language, whose values are inputs themselves.

    Its other members stay as they are.
    """
    ((name, given), *others) = members.items()
    if others or name not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        raise invalid(where, f"has a key that begins with $ and is no operator by itself; there are {known}")
    at, takes = f"{where}.{name}", _OPERATORS[name]
    if name == "$literal":
        return members
    if takes is None:
        return {name: bind_value(given, variables, at)}
    if not isinstance(given, dict):
        raise invalid(at, "must be an object")
    stated = cast("JsonObject", given)
    bound = {
        each: bind_value(value, variables, f"{at}.{each[:40]}") if each in takes else value
        for each, value in stated.items()
    }
    return {name: bound}


def is_literal(value: Any) -> bool:
    """Return whether an input is the same in every run."""
    if isinstance(value, str):
        return "{" not in value or not parse_template(value).references
    if isinstance(value, list):
        return all(is_literal(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        return not any(name in _OPERATORS for name in members) and all(is_literal(item) for item in members.values())
    return True


def bind_condition(text: str, variables: Variables, where: str, wire: Callable[[Any], str]) -> str:
    """Return the condition in the language of flows; `wire` names a value that only an operator can give."""
    try:
        predicate = parse_predicate(text)
    except InvalidExpression as error:
        raise invalid(where, error.message) from None
    if not predicate.references and not predicate.evaluate({}):
        raise invalid(where, f"{text[:80]!r} never holds, so the step would never run")

    def bound(reference: Reference) -> str:
        value = variables.value(reference, where)
        return value if isinstance(value, str) and value.startswith("$.") else wire(value)

    return rewrite_references(text, bound)


def bind_output(template: str | None, variables: Variables, filled: Iterable[str]) -> JsonObject:
    """Bind the output of a process: its rendered template, or an object of its steps' variables."""
    if template is None:
        return {name: variables.known[name] for name in filled}
    used = check_output_template(template, variables)
    return {"$render": {"template": template, "with": {name: variables.known[name] for name in used}}}


def check_output_template(template: str, variables: Variables) -> tuple[str, ...]:
    """Return the variables of a template, all of which must be there."""
    where = "output_template"
    if len(template) > MAX_OUTPUT_TEMPLATE:
        raise invalid(where, f"is longer than {MAX_OUTPUT_TEMPLATE} characters")
    try:
        used = parse_handlebars(template).variables
    except InvalidExpression as error:
        raise invalid(where, error.message) from None
    for name in used:
        if name not in variables.known:
            raise variables.missing(name, where)
    return used


def _bind_text(text: str, variables: Variables, where: str) -> Any:
    if "{" not in text:
        return literal(text)
    try:
        template = parse_template(text)
    except InvalidExpression as error:
        raise invalid(where, error.message) from None
    if template.whole is not None:
        return variables.value(template.whole, where)
    if not template.references:
        return literal(text)
    parts: Mapping[str, Any] = {
        f"p{number}": {"$literal": part} if isinstance(part, str) else variables.value(part, where)
        for number, part in enumerate(template.parts)
    }
    return {"$render": {"template": "".join(f"{{{{{name}}}}}" for name in parts), "with": dict(parts)}}


def rewrite_references(text: str, replaced: Callable[[Reference], str]) -> str:
    """Return a condition with its references written anew; what stands in quotes is left alone."""
    pieces: list[str] = []
    position = 0
    while position < len(text):
        if text[position] in "'\"":
            _, end = read_quoted_text(text, position)
            pieces.append(text[position:end])
        elif text[position] in "{$":
            segments, end = read_reference(text, position)
            pieces.append(replaced(Reference(segments, text[position:end])))
        else:
            end = position + 1
            pieces.append(text[position])
        position = end
    return "".join(pieces)


def _member(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return f".{name}"
    escaped = name.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"['{escaped}']"
