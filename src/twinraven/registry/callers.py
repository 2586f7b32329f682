"""Finds the learned tools that call a tool, before it is deleted.

A version counts as long as it is in service, waits for approval, or was superseded and can return; drafts do not, since
registering them checks again that every step is there.
"""

from __future__ import annotations

from twinraven.registry import sql
from twinraven.registry.registration import tools_of
from twinraven.storage import Transaction


def callers_of(tx: Transaction, tenant_id: str, tool_id: str) -> list[str]:
    """Return the learned tools with a step that calls this tool, each in a few words."""
    versions = sql.living_versions(tx, tenant_id)
    found = [version for version in versions if tool_id in tools_of(version.definition)]
    names = {name: [each.version for each in found if each.tool_id == name] for name in (v.tool_id for v in found)}
    return [
        f"learned tool {name!r} (version{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))})"
        for name, numbers in names.items()
    ]
