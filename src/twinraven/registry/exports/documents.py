"""A definition as other programs describe tools: an entry of MCP's `tools/list`, and an OpenAI function.

Both describe and do not run: whoever offers them calls the learned tool, or the Python export, when a model asks.
"""

from __future__ import annotations

from typing import Final

from twinraven.catalog import Effect
from twinraven.flow import SynthesizedTool
from twinraven.foundation.canonical import JsonObject
from twinraven.registry.exports.names import clipped, shortened

OPENAI_NAME: Final = 64
OPENAI_DESCRIPTION: Final = 1_024
_REFUSED_ABOVE: Final = ("oneOf", "anyOf", "allOf", "enum", "not")


def mcp_tool(definition: SynthesizedTool, *, effect: Effect) -> JsonObject:
    """The entry of `tools/list`. What it answers is promised only as far as the definition decides it."""
    reads = effect is Effect.READ
    entry: JsonObject = {
        "name": definition.tool_id,
        "title": title_of(definition),
        "description": definition.description,
        "inputSchema": definition.parameters,
        "annotations": {"title": title_of(definition), "readOnlyHint": reads, "destructiveHint": not reads},
    }
    names = ["result", "earlier"] if definition.output is None else list(definition.output)
    is_value = len(names) == 1 and names[0].startswith("$")
    if not is_value:
        entry["outputSchema"] = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    return entry


def openai_function(definition: SynthesizedTool) -> tuple[JsonObject, list[str]]:
    """The function as OpenAI takes it, and what had to change for that."""
    notes: list[str] = []
    name = shortened(definition.tool_id, OPENAI_NAME, joint="_")
    if name != definition.tool_id:
        notes.append(f"the name was shortened to {name}: OpenAI takes {OPENAI_NAME} characters")
    description = clipped(definition.description, OPENAI_DESCRIPTION)
    if description != definition.description:
        notes.append(f"the description was cut: OpenAI takes {OPENAI_DESCRIPTION} characters")
    refused = [word for word in _REFUSED_ABOVE if word in definition.parameters]
    if refused:
        notes.append(f"OpenAI may refuse parameters with {', '.join(refused)} at the top")
    parameters = {**definition.parameters}
    parameters.setdefault("properties", {})
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}, notes


def title_of(definition: SynthesizedTool) -> str:
    """The name as people write it."""
    return definition.tool_id.replace("_", " ").replace("-", " ").strip().capitalize()
