"""Checks a process against the world before it is saved: its names, its flow, and the tools that it calls.

`compile` refuses what contradicts itself. Here the targets must exist, be enabled and get what they ask for; an input
that is the same in every run must have the type that the tool wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twinraven.catalog import ToolEntry
from twinraven.flow import SLUG, FlowDefinition, check_input_names, compile_flow, invalid
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.json_schema import compile_schema
from twinraven.processes.compile import MAX_FLOW_STEPS, ProcessLookup, compile_process
from twinraven.processes.expressions import is_literal
from twinraven.processes.model import Process, ProcessStep

MAX_NAME: Final = 200
MAX_DESCRIPTION: Final = 4_000

ToolFinder = Callable[[str], tuple[ToolEntry | None, str | None]]
"""A tool by its id, and why it cannot be called now, if it cannot."""

CONNECTOR: Final = "process"


def check_process(process: Process, processes: ProcessLookup, tools: ToolFinder) -> FlowDefinition:
    """Return the flow of a process that can be saved; InvalidDefinition names the place of what is wrong."""
    if not SLUG.fullmatch(process.id):
        raise invalid("id", "must be a slug: a to z first, then a to z, 0 to 9, _ and -, 128 at most")
    if not 1 <= len(process.name.strip()) <= MAX_NAME:
        raise invalid("name", f"must have 1 to {MAX_NAME} characters")
    if not process.description.strip() or len(process.description) > MAX_DESCRIPTION:
        raise invalid("description", f"must have 1 to {MAX_DESCRIPTION} characters that say what the process does")

    def find(process_id: str) -> Process | None:
        return process if process_id == process.id else processes(process_id)

    definition = compile_process(process, find)
    for number, step in enumerate(process.steps):
        if step.tool is not None:
            _check_tool(step, f"steps[{number}]", tools)
    compile_flow(definition, max_steps=MAX_FLOW_STEPS)
    return definition


def _check_tool(step: ProcessStep, where: str, tools: ToolFinder) -> None:
    entry, why_not = tools(step.target)
    if entry is None:
        raise invalid(f"{where}.tool", f"there is no tool {step.target!r}", tool_id=step.target)
    if entry.connector == CONNECTOR:
        raise invalid(f"{where}.tool", f"{step.target!r} is a process; name it in `process`", tool_id=step.target)
    if why_not is not None:
        raise invalid(f"{where}.tool", f"{step.target!r} cannot be called: {why_not}", tool_id=step.target)
    check_input_names(entry, step.inputs, f"{where}.inputs")
    for name, value in step.inputs.items():
        schema = _member(entry.input_schema, name)
        if schema is not None and is_literal(value):
            _check_literal(value, schema, f"{where}.inputs.{name[:80]}", entry)


def _check_literal(value: Any, schema: JsonObject, where: str, entry: ToolEntry) -> None:
    root = {key: entry.input_schema[key] for key in ("$defs", "definitions") if key in entry.input_schema}
    try:
        compile_schema({**root, "properties": {"value": schema}}).check({"value": value}, field="value")
    except InvalidInput as error:
        told = f"does not fit {entry.tool_id!r}: {error.message.removeprefix('value.value: ')}"
        if isinstance(value, dict) and any(name.startswith("step.") for name in cast("JsonObject", value)):
            told += "; {step.x} needs quotes in YAML"
        raise invalid(where, told) from None


def _member(schema: JsonObject, name: str) -> JsonObject | None:
    properties = schema.get("properties")
    member = cast("JsonObject", properties).get(name) if isinstance(properties, dict) else None
    return cast("JsonObject", member) if isinstance(member, dict) else None
