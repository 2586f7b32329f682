"""Exports learned tools: as a Python function, an MCP definition, an OpenAI function, or an Agent Skill.

What was learned belongs to whoever's agents it was learned from, and leaves with them. An export is text made from a
definition and nothing else, so the same version gives the same bytes everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from twinraven.flow import ToolLookup, compile_flow, entry_of
from twinraven.foundation.errors import InvalidDefinition
from twinraven.registry.exports.documentation import all_tools, may_be_incomplete
from twinraven.registry.exports.documents import mcp_tool, openai_function
from twinraven.registry.exports.python import python_module, python_name
from twinraven.registry.exports.skill import skill_files, skill_name, skill_notes
from twinraven.registry.model import definition_text
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool

ExportForm = Literal["python", "mcp", "openai", "skill"]
EXPORT_FORMS: Final[tuple[ExportForm, ...]] = get_args(ExportForm)


@dataclass(frozen=True, slots=True)
class ToolExport:
    """The files of an export: one file, or a folder."""

    name: str
    """The name of the file or folder."""
    files: dict[str, str]
    """Texts by their paths; for a folder, inside it."""
    is_folder: bool
    notes: tuple[str, ...]
    """What the reader should know: what was shortened, or that this version is not in service."""


def export_tool(
    definition: SynthesizedTool, form: ExportForm, find: ToolLookup, *, holds_secret: Callable[[bytes], bool]
) -> ToolExport:
    """Return a definition in another form.

    `find` says what its tools can do; one that is not found counts as a write. `holds_secret` says whether a text holds
    a value of the vault: registration refuses such definitions, but a secret may have been stored since.
    """
    if holds_secret(definition_text(definition).encode()):
        raise InvalidDefinition(
            f"version {definition.version} of {definition.tool_id!r} holds a secret of the vault and is not exported; "
            "make it a parameter, or change the secret",
            field="steps",
        )
    notes, writes = [*_standing(definition), *_unknown(definition, find)], _writes(find)
    if form == "skill":
        notes += skill_notes(definition)
        return ToolExport(skill_name(definition), skill_files(definition, writes=writes), True, tuple(notes))
    if form == "python":
        name, text = f"{python_name(definition)}.py", python_module(definition, writes=writes)
    elif form == "mcp":
        effect, partly = entry_of(definition, find).effect, may_be_incomplete(compile_flow(definition))
        name = f"{definition.tool_id}.mcp.json"
        text = _json(mcp_tool(definition, effect=effect, may_be_incomplete=partly))
    else:
        partly = may_be_incomplete(compile_flow(definition))
        body, changes = openai_function(definition, may_be_incomplete=partly)
        notes += changes
        name, text = f"{definition.tool_id}.openai.json", _json(body)
    return ToolExport(name, {name: text}, False, tuple(notes))


def _standing(definition: SynthesizedTool) -> list[str]:
    if definition.status is ToolStatus.PROMOTED:
        return []
    return [f"version {definition.version} is {definition.status.value}, not in service"]


def _unknown(definition: SynthesizedTool, find: ToolLookup) -> list[str]:
    missing = [tool_id for tool_id in all_tools(definition) if find(tool_id) is None]
    return [f"not in the catalogue, and taken for tools that write: {', '.join(missing)}"] if missing else []


def _writes(find: ToolLookup) -> Callable[[str], bool]:
    def writes(tool_id: str) -> bool:
        entry = find(tool_id)
        return entry is None or entry.writes

    return writes


def _json(body: Any) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


__all__ = ["EXPORT_FORMS", "ExportForm", "ToolExport", "export_tool"]
