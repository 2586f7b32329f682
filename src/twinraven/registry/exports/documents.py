"""Exports a definition as an entry of MCP's `tools/list`, or as an OpenAI function.

Both describe and do not run: whoever offers them calls the learned tool, or the Python export, when a model asks. The
description is all that a model sees, so it also says when to use the tool and what comes back, where there is room.
"""

from __future__ import annotations

from typing import Final

from twinraven.catalog import Effect
from twinraven.flow import FlowDefinition
from twinraven.foundation.canonical import JsonObject
from twinraven.registry.exports.documentation import (
    INCOMPLETE_WORDS,
    earlier_words,
    result_words,
    returned,
    told_of,
    usage,
)
from twinraven.registry.exports.names import clipped, shortened
from twinraven.registry.synthesized import SynthesizedTool

OPENAI_NAME: Final = 64
OPENAI_DESCRIPTION: Final = 1_024
_REFUSED_ABOVE: Final = ("oneOf", "anyOf", "allOf", "enum", "not")


def mcp_tool(definition: SynthesizedTool, *, effect: Effect, may_be_incomplete: bool) -> JsonObject:
    """Return the entry of `tools/list`. What it answers is promised only as far as the definition decides it."""
    reads = effect is Effect.READ
    entry: JsonObject = {
        "name": definition.tool_id,
        "title": title_of(definition),
        "description": told_of(definition, usage(definition)),
        "inputSchema": definition.parameters,
        "annotations": {"title": title_of(definition), "readOnlyHint": reads, "destructiveHint": not reads},
    }
    members = _answered(definition, may_be_incomplete=may_be_incomplete)
    if members is not None:
        required = [name for name in members if definition.output is not None or name != "incomplete"]
        entry["outputSchema"] = {"type": "object", "properties": members, "required": required}
    return entry


def openai_function(definition: SynthesizedTool, *, may_be_incomplete: bool) -> tuple[JsonObject, list[str]]:
    """Return the function as OpenAI takes it, and what had to change for that."""
    notes: list[str] = []
    name = shortened(definition.tool_id, OPENAI_NAME, joint="_")
    if name != definition.tool_id:
        notes.append(f"the name was shortened to {name}: OpenAI takes {OPENAI_NAME} characters")
    answer = returned(definition, may_be_incomplete=may_be_incomplete)
    whole = told_of(definition, usage(definition), answer)
    # What was written about the tool comes first; the rest is said only if there is room for all of it.
    description = whole if len(whole) <= OPENAI_DESCRIPTION else clipped(definition.description, OPENAI_DESCRIPTION)
    if len(definition.description) > OPENAI_DESCRIPTION:
        notes.append(f"the description was cut: OpenAI takes {OPENAI_DESCRIPTION} characters")
    refused = [word for word in _REFUSED_ABOVE if word in definition.parameters]
    if refused:
        notes.append(f"OpenAI may refuse parameters with {', '.join(refused)} at the top")
    parameters = {**definition.parameters}
    parameters.setdefault("properties", {})
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}, notes


def title_of(definition: FlowDefinition) -> str:
    """Return the name as people write it."""
    return definition.tool_id.replace("_", " ").replace("-", " ").strip().capitalize()


def _answered(definition: SynthesizedTool, *, may_be_incomplete: bool) -> JsonObject | None:
    """Return the members of the answer; nothing, where it need not be an object."""
    if definition.output is not None:
        names = list(definition.output)
        return None if len(names) == 1 and names[0].startswith("$") else {name: {} for name in names}
    members: JsonObject = {
        "result": {"description": _sentence(result_words(definition, may_be_incomplete=may_be_incomplete))},
        "earlier": {"type": "array", "description": _sentence(earlier_words(definition))},
    }
    if may_be_incomplete:
        members["incomplete"] = {"type": "array", "description": _sentence(INCOMPLETE_WORDS)}
    return members


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
