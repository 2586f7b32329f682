"""Validates a definition before it is registered or offered.

`compile_flow` refuses what contradicts itself. Here it meets the world: the tools it names must exist and get what they
ask for, the parameters it uses must be declared, and its name must be fit for files and people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, cast

from twinraven.catalog import ToolEntry
from twinraven.flow.definition import FlowDefinition
from twinraven.flow.fields import invalid, refuse_excess
from twinraven.flow.mapping import MappedInputs
from twinraven.flow.plan import FlowPlan, PlannedStep, compile_flow
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.references import Reference

ToolLookup = Callable[[str], ToolEntry | None]

SLUG: Final = re.compile(r"[a-z][a-z0-9_-]{0,127}")
MAX_DESCRIPTION: Final = 4_000

# A schema with any of these may declare properties in places this module does not look.
_COMPOSED: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"})


def validate_definition(tool: FlowDefinition, known_tools: ToolLookup) -> None:
    """Raise InvalidDefinition, naming step and field, unless the definition can be offered."""
    refuse_excess(tool.parameters, "parameters")
    if not SLUG.fullmatch(tool.tool_id):
        raise invalid("tool_id", "must be a slug: a to z first, then a to z, 0 to 9, _ and -, 128 at most")
    if not tool.description.strip() or len(tool.description) > MAX_DESCRIPTION:
        raise invalid("description", f"must have 1 to {MAX_DESCRIPTION} characters that say what the tool does")
    if len(tool.steps) < 2 and not any(step.for_each for step in tool.steps):
        raise invalid("steps", "must be at least 2, or one with for_each: a single call is no composite")
    plan = compile_flow(tool)
    for where, step in _all_steps(plan):
        _check_tool(tool, step, where, known_tools)
    _check_parameters(plan)


def _all_steps(plan: FlowPlan) -> Iterator[tuple[str, PlannedStep]]:
    for number, step in enumerate(plan.steps):
        yield f"steps[{number}]", step
        for position, other in enumerate(step.fallback):
            yield f"error_strategy.fallback_steps.{number}[{position}]", other


def _check_tool(tool: FlowDefinition, step: PlannedStep, where: str, known_tools: ToolLookup) -> None:
    if step.tool_id == tool.tool_id:
        raise invalid(f"{where}.tool_id", "a composite cannot be a step of itself")
    entry = known_tools(step.tool_id)
    if entry is None:
        raise invalid(f"{where}.tool_id", f"there is no tool {step.tool_id!r}", tool_id=step.tool_id)
    check_input_names(entry, step.definition.input_mapping, f"{where}.input_mapping")


def check_input_names(entry: ToolEntry, given: Collection[str], where: str) -> None:
    """Raise unless a tool gets every input that it needs, and none that it does not know."""
    properties = _properties(entry.input_schema)
    required = entry.input_schema.get("required")
    for name in cast("list[Any]", required) if isinstance(required, list) else []:
        member = properties.get(name) if isinstance(name, str) else None
        has_default = isinstance(member, dict) and "default" in member
        if name not in given and not has_default:
            raise invalid(where, f"{entry.tool_id!r} needs {name!r}, which nothing supplies", variable=name)
    if entry.input_schema.get("additionalProperties") is False and not _COMPOSED & entry.input_schema.keys():
        for name in [each for each in given if each not in properties]:
            raise invalid(f"{where}.{name[:80]}", f"{entry.tool_id!r} has no such input")


def _check_parameters(plan: FlowPlan) -> None:
    """A parameter that is used must be declared, or no caller would know to give it."""
    schema = plan.definition.parameters
    if "properties" not in schema or schema.get("additionalProperties") or _COMPOSED & schema.keys():
        return
    declared = _properties(schema)
    for where, reference in _references(plan):
        root, *rest = reference.segments
        if root == "parameters" and rest and str(rest[0]) not in declared:
            raise invalid(where, f"{reference.text} names a parameter that `parameters` does not declare")


def _references(plan: FlowPlan) -> Iterator[tuple[str, Reference]]:
    for where, step in _all_steps(plan):
        inputs: MappedInputs = step.inputs
        yield from ((f"{where}.input_mapping", reference) for reference in inputs.references)
        if step.condition is not None:
            yield from ((f"{where}.condition", reference) for reference in step.condition.references)
        if step.for_each is not None:
            yield f"{where}.for_each", step.for_each
    for wired in plan.wiring:
        yield from ((f"internal_wiring.{wired.key}.{wired.name}", reference) for reference in wired.value.references)
    for number, abort in enumerate(plan.aborts):
        where = f"error_strategy.abort_conditions[{number}]"
        yield from ((where, reference) for reference in abort.predicate.references)
    if plan.output is not None:
        yield from (("output", reference) for reference in plan.output.references)


def _properties(schema: JsonObject) -> JsonObject:
    members = schema.get("properties")
    return cast("JsonObject", members) if isinstance(members, dict) else {}
