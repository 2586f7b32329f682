"""Learned tools for other homes: as a Python function, an MCP definition, an OpenAI function, or an Agent Skill.

What was learned belongs to whoever's agents it was learned from, and leaves with them. An export is text made from a
definition and nothing else, so the same version gives the same bytes everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from twinraven.flow import SynthesizedTool, ToolLookup, ToolStatus, entry_of
from twinraven.registry.exports.documents import mcp_tool, openai_function
from twinraven.registry.exports.python import python_module, python_name
from twinraven.registry.exports.skill import skill_files, skill_name

ExportForm = Literal["python", "mcp", "openai", "skill"]
EXPORT_FORMS: Final[tuple[ExportForm, ...]] = get_args(ExportForm)


@dataclass(frozen=True, slots=True)
class ToolExport:
    """What is to be written: one file, or a folder with its files."""

    name: str
    """The name of the file or folder."""
    files: dict[str, str]
    """Texts by their paths; for a folder, inside it."""
    is_folder: bool
    notes: tuple[str, ...]
    """What the reader should know: what was shortened, or that this version is not in service."""


def export_tool(definition: SynthesizedTool, form: ExportForm, find: ToolLookup) -> ToolExport:
    """A definition in another form. `find` says what its tools can do; one that is not found counts as a write."""
    entry = entry_of(definition, find)
    notes = _standing(definition)
    if form == "skill":
        return ToolExport(skill_name(definition), skill_files(definition, writes=_writes(find)), True, tuple(notes))
    if form == "python":
        name, text = f"{python_name(definition)}.py", python_module(definition, writes=_writes(find))
    elif form == "mcp":
        name, text = f"{definition.tool_id}.mcp.json", _json(mcp_tool(definition, effect=entry.effect))
    else:
        body, changes = openai_function(definition)
        notes += changes
        name, text = f"{definition.tool_id}.openai.json", _json(body)
    return ToolExport(name, {name: text}, False, tuple(notes))


def _standing(definition: SynthesizedTool) -> list[str]:
    if definition.status is ToolStatus.PROMOTED:
        return []
    return [f"version {definition.version} is {definition.status.value}, not in service"]


def _writes(find: ToolLookup) -> Callable[[str], bool]:
    def writes(tool_id: str) -> bool:
        entry = find(tool_id)
        return entry is None or entry.writes

    return writes


def _json(body: Any) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


__all__ = ["EXPORT_FORMS", "ExportForm", "ToolExport", "export_tool"]
