"""A definition as a Python module that depends on nothing: one async function that makes the calls.

The function is async because the executor is: steps side by side, time limits and retries are what asyncio is for, and
`asyncio.run` is all that a synchronous program needs. It reads as a person would write it; only a definition that has
to watch itself while it runs brings a small `Run` with it (`shapes` says which).
"""

from __future__ import annotations

import builtins
import sys
from typing import Final

from twinraven.flow import FlowPlan, SynthesizedTool, compile_flow
from twinraven.registry.exports.layout import Group, docstring, identifier, lay_out
from twinraven.registry.exports.parameters import Parameter, argument_lines, fills_inside, signature
from twinraven.registry.exports.pieces import imports, needed, reserved
from twinraven.registry.exports.plain_body import PlainBody
from twinraven.registry.exports.run_body import RunBody
from twinraven.registry.exports.scope import LOCALS, Names, names_of
from twinraven.registry.exports.shapes import Writes, plain_shape
from twinraven.registry.exports.words import may_be_incomplete, returned

_HOW = (
    "`call` makes a call of a tool: it is awaited with the tool's name and its arguments, gives the answer as JSON "
    "values, raises what failed, and leaves the arguments as they are. Parameters are taken as they come; nothing "
    "checks them against the definition's schema."
)
_OF_PYTHON: Final = sys.stdlib_module_names.union(dir(builtins))
"""A module of one of these names would be hidden by Python's own, or hide it from the code below the function."""


def python_name(definition: SynthesizedTool) -> str:
    """The name of the function, and of its module."""
    return identifier(definition.tool_id, LOCALS | reserved() | _OF_PYTHON, otherwise="tool")


def python_module(definition: SynthesizedTool, *, writes: Writes) -> str:
    """The text of the module; the same definition gives the same text."""
    function = "\n".join(_function(compile_flow(definition), writes))
    helpers = needed(function)
    # The function comes first, after nothing but what its signature needs.
    before = [text for text in helpers if text.startswith("LEFT_OUT")]
    head = [
        *docstring(_about(definition), 0),
        "",
        *imports("\n".join([function, *helpers])),
        "",
        "Call = Callable[[str, dict[str, Any]], Awaitable[Any]]",
    ]
    for text in before:
        head += ["", text]
    rest = [text for text in helpers if text not in before]
    return "\n\n\n".join(["\n".join(head), function, *rest]) + "\n"


def python_parameters(plan: FlowPlan) -> list[Parameter]:
    """What the function takes besides `call`, under the names that it has for them."""
    return _names(plan).parameters


def _names(plan: FlowPlan) -> Names:
    return names_of(plan, {*LOCALS, *reserved(), python_name(plan.definition)})


def _about(definition: SynthesizedTool) -> str:
    origin = (
        f"version {definition.version} ({definition.status.value}), learned from chain {definition.source_chain_id}."
    )
    notes = [f"{definition.tool_id}, {origin}", _HOW]
    if fills_inside(definition.parameters):
        notes.append("Defaults inside objects and lists are not filled in here; the caller gives them.")
    return "\n\n".join(notes)


def _function(plan: FlowPlan, writes: Writes) -> list[str]:
    name = python_name(plan.definition)
    names = _names(plan)
    shape = plain_shape(plan, writes)
    body = RunBody(plan, names, writes) if shape is None else PlainBody(plan, shape, names, writes)
    head = lay_out(Group(f"async def {name}(", tuple(signature(names.parameters)), ") -> Any:"), 0)
    lines = [*head, *docstring(_told(plan, names, writes), 4)]
    for each in names.parameters:
        lines += each.fresh_default(4) if each.is_fresh else []
    return [*lines, *body.lines()]


def _told(plan: FlowPlan, names: Names, writes: Writes) -> str:
    definition = plan.definition
    answer = returned(definition, may_be_incomplete=may_be_incomplete(plan, writes))
    return "\n\n".join([definition.description, *argument_lines(names.parameters), answer])
