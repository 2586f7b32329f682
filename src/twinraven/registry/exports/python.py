"""Exports a definition as a Python module that depends on nothing: one async function, its data, and the runner.

The function has the signature that the parameters ask for. What it does is data, run by the scheduler that serves
production: its source is copied below the function, so that an export cannot do otherwise than a run does.
"""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable
from typing import Final

from twinraven.flow import FlowDefinition, FlowPlan, compile_flow
from twinraven.registry.exports.documentation import all_tools, may_be_incomplete, returned
from twinraven.registry.exports.layout import Bracketed, docstring, identifier, lay_out, literal_of, object_of, prefixed
from twinraven.registry.exports.parameters import Parameter, argument_lines, fills_inside, parameters_of, signature
from twinraven.registry.exports.pieces import ENTRY, reserved, runner
from twinraven.registry.synthesized import SynthesizedTool

Writes = Callable[[str], bool]

_HOW = (
    "`call` makes a call of a tool: it is awaited with the tool's name and its arguments, gives the answer as JSON "
    "values, and raises what failed. Parameters are taken as they come; nothing checks them against the definition's "
    "schema. Below the function stand its definition and the scheduler that runs it, the same in every export."
)
_LOCALS: Final = frozenset(
    {"call", "DEFINITION", "WRITES", "LEFT_OUT", ENTRY, "Any", "Call", "str", "int", "float", "bool", "list", "dict"}
)
_OF_PYTHON: Final = sys.stdlib_module_names.union(dir(builtins))
"""A module of one of these names would be hidden by Python's own, or hide it from the code below the function."""


def python_name(definition: FlowDefinition) -> str:
    """Return the name of the function, and of its module."""
    return identifier(definition.tool_id, _LOCALS | reserved() | _OF_PYTHON, otherwise="tool")


def python_module(definition: SynthesizedTool, *, writes: Writes) -> str:
    """Return the text of the module; the same definition gives the same text."""
    plan = compile_flow(definition)
    flow = _flow_of(definition).as_json()
    imports, first, rest = runner(reads_text='"$read"' in json.dumps(flow))
    head = [*docstring(_about(definition), 0), "", "from __future__ import annotations", "", imports, "", first]
    writing = sorted(tool_id for tool_id in all_tools(definition) if writes(tool_id))
    data = [
        *lay_out(prefixed("DEFINITION: JsonObject = ", literal_of(flow)), 0),
        *lay_out(prefixed("WRITES: list[str] = ", literal_of(writing)), 0),
    ]
    parts = ["\n".join(head), "\n".join(_function(plan)), "\n".join(data), rest]
    return "\n\n\n".join(parts) + "\n"


def python_parameters(plan: FlowPlan) -> list[Parameter]:
    """Return the parameters of the function besides `call`, under their Python names."""
    return parameters_of(plan, {*_LOCALS, python_name(plan.definition)})


def _flow_of(definition: SynthesizedTool) -> FlowDefinition:
    """Return what a run needs; description and parameters are in the function's own docstring and signature."""
    return FlowDefinition(
        tool_id=definition.tool_id,
        description="",
        parameters={"type": "object"},
        steps=definition.steps,
        internal_wiring=definition.internal_wiring,
        error_strategy=definition.error_strategy,
        timeout_ms=definition.timeout_ms,
        output=definition.output,
    )


def _about(definition: SynthesizedTool) -> str:
    origin = (
        f"version {definition.version} ({definition.status.value}), learned from chain {definition.source_chain_id}."
    )
    notes = [f"{definition.tool_id}, {origin}", _HOW]
    if fills_inside(definition.parameters):
        notes.append("Defaults inside objects and lists are not filled in here; the caller gives them.")
    return "\n\n".join(notes)


def _function(plan: FlowPlan) -> list[str]:
    parameters = python_parameters(plan)
    name = python_name(plan.definition)
    head = lay_out(Bracketed(f"async def {name}(", tuple(signature(parameters)), ") -> Any:"), 0)
    lines = [*head, *docstring(_told(plan, parameters), 4)]
    for each in parameters:
        lines += each.fresh_default(4) if each.is_fresh else []
    given = object_of((each.name, each.python_name) for each in parameters)
    made = Bracketed(f"return await {ENTRY}(", ("DEFINITION", "WRITES", "call", given), ")")
    return [*lines, *lay_out(made, 4)]


def _told(plan: FlowPlan, parameters: list[Parameter]) -> str:
    definition = plan.definition
    answer = returned(definition, may_be_incomplete=may_be_incomplete(plan))
    return "\n\n".join([definition.description, *argument_lines(parameters), answer])
