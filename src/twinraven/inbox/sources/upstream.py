"""Shows tools of MCP servers that describe themselves otherwise than was accepted as inbox items."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from typing import Final, Literal

from twinraven.connectors import PinnedTool, UpstreamTools, definition_hash
from twinraven.foundation.errors import NotFound
from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem
from twinraven.tenancy import Principal

_CHOICES: Final = (InboxChoice("accept", "take the tool over with the definition that is shown"),)


class ChangedUpstreamTools:
    """Lists upstream tools whose changed definition is not accepted yet."""

    kind: Literal["changed_tool"] = "changed_tool"

    def __init__(self, tools: UpstreamTools) -> None:
        self._tools = tools

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [_item(tenant_id, tool) for tool in await self._tools.listed(tenant_id) if tool.changed is not None]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        found = next((tool for tool in await self._tools.listed(tenant_id) if tool.tool_id == ref), None)
        if found is None:
            raise NotFound(f"no upstream tool {ref!r}", tool_id=ref)
        return _item(tenant_id, found)

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        del said
        await self._tools.accept_seen(item.tenant_id, item.ref, seen=item.evidence["changed_hash"], by=by.user_id)


def _item(tenant_id: str, tool: PinnedTool) -> InboxItem:
    changed = tool.changed
    held = "its accepted words are offered meanwhile" if tool.is_held else "it cannot be called meanwhile"
    return InboxItem(
        tenant_id=tenant_id,
        kind="changed_tool",
        ref=tool.tool_id,
        what=f"offer {tool.tool_id} with the definition that {tool.server} gives now",
        target=tool.tool_id,
        why=f"{tool.server} describes it otherwise than was accepted; {held}",
        choices=_CHOICES,
        asked_at=tool.pinned_at,
        evidence={
            "server": tool.server,
            "accepted_hash": definition_hash(tool.definition),
            "changed_hash": None if changed is None else definition_hash(changed),
            "changed_definition": changed,
            "diff": [] if changed is None else _difference(tool),
        },
        state="decided" if changed is None else "open",
        decision="accept" if changed is None else None,
        decided_at=tool.pinned_at if changed is None else None,
    )


def _difference(tool: PinnedTool) -> list[str]:
    import json

    before, after = (
        json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (tool.definition, tool.changed)
    )
    return list(unified_diff(before, after, "accepted", "now", n=1, lineterm=""))[:200]
