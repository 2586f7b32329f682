"""Renames a tool that was never in service.

The name stands in the definition of every version and draft, so the rows are written anew under the new name and the
old ones removed, in one transaction; numbers, times, verdicts and evidence stay as they were.
"""

from __future__ import annotations

from dataclasses import replace

from twinraven.foundation.errors import Conflict, IllegalTransition
from twinraven.registry import sql
from twinraven.registry.model import RegisteredTool, ToolVersion, definition_text
from twinraven.registry.tool_folders import definition_path
from twinraven.storage import Transaction


def move_rows(tx: Transaction, tool: RegisteredTool, new_id: str, revision: int) -> RegisteredTool:
    """Return the tool under its new name; refused once it was in service, and where the name is taken."""
    record = tool.record
    if any(version.promoted_at is not None for version in tool.versions):
        raise IllegalTransition(
            f"{record.tool_id!r} was in service, and agents know it by that name; it can no longer be renamed",
            tool_id=record.tool_id,
        )
    if new_id in sql.names_taken(tx, record.tenant_id):
        raise Conflict(f"there is a tool {new_id!r} already", tool_id=new_id)
    renamed = RegisteredTool(
        replace(
            record,
            tool_id=new_id,
            definition_path=definition_path(record.tenant_id, new_id, record.current_version),
            revision=revision,
        ),
        tuple(under_name(version, new_id) for version in tool.versions),
    )
    for draft in sql.drafts(tx, record.tenant_id, tool_id=record.tool_id):
        sql.insert_draft(tx, replace(draft, definition=replace(draft.definition, tool_id=new_id)))
    sql.remove_drafts(tx, record.tenant_id, record.tool_id)
    sql.save(tx, None, renamed)
    sql.remove(tx, tool)
    return renamed


def under_name(version: ToolVersion, new_id: str) -> ToolVersion:
    """Return a version as it would be under another name."""
    return replace(
        version,
        tool_id=new_id,
        text=definition_text(replace(version.definition, tool_id=new_id)),
        validation={**version.validation, "tool_id": new_id},
    )
